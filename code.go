package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Code says in one word why a call did not get the answer of its work. [CodeOf] returns the code
// of an error. The codes are those of problems over HTTP and of reasons over RPC, and all that is
// known of a code is said by its methods. docs/problems has a page for each code over HTTP.
//
// The zero Code is that of no error.
type Code uint8

// The codes of this package's errors.
const (
	// CodeOutcomeUnknown: it is not known whether the work took effect ([ErrInDoubt]). Every error
	// that has no code of its own has this one, since it does not say that nothing was done.
	CodeOutcomeUnknown Code = iota + 1
	// CodeLeaseLost: another attempt has taken the key over, or may have, since the lease was not
	// renewed in time ([ErrLeaseLost]).
	CodeLeaseLost
	// CodeInProgress: the first call with the key is running ([ErrInProgress]).
	CodeInProgress
	// CodeAttemptFailed: the attempt that the call waited for ended without an answer
	// ([ErrAttemptFailed]).
	CodeAttemptFailed
	// CodePayloadMismatch: the key was used with another request ([ErrFingerprintMismatch]).
	CodePayloadMismatch
	// CodePrincipalChanged: the key was used with another credential ([ErrPrincipalChanged]).
	CodePrincipalChanged
	// CodeAlreadyDone: this was done before ([ErrDuplicate]).
	CodeAlreadyDone
	// CodeAnswerNotKept: this was done before, and its answer was not stored ([ErrAnswerNotKept],
	// [ErrAnswerSealed]).
	CodeAnswerNotKept
	// CodeResolvedFailed: this was refused for good before ([ErrFailedBefore]).
	CodeResolvedFailed
	// CodeTokenRefused: the server has not issued the key, or its time has passed ([ErrNotIssued]).
	CodeTokenRefused
	// CodeTooManyKeys: the caller has as many keys as it may have ([ErrTooManyKeys]).
	CodeTooManyKeys
	// CodeTooManyRequests: the caller asks too often ([ErrTooManyRequests]).
	CodeTooManyRequests
	// CodeStoreUnavailable: the record of the key could not be asked for ([ErrUnavailable]). So it
	// is for an error of the program that calls the engine ([ErrInvalidKey], [ErrInTransaction]),
	// and for a call whose context has ended before its work began.
	CodeStoreUnavailable
	// CodeShuttingDown: the process is shutting down ([ErrClosed]).
	CodeShuttingDown
)

// The codes of requests that were refused before their key was looked up.
const (
	// CodeKeyMissing: the request needs a key.
	CodeKeyMissing Code = iota + 1 + CodeShuttingDown
	// CodeKeyMalformed: what the request has for a key is none.
	CodeKeyMalformed
	// CodeKeyTooShort: a caller without a credential sent a key that can be guessed.
	CodeKeyTooShort
	// CodeKeyNotMade: no key can be made of the request.
	CodeKeyNotMade
	// CodeTokenMissing: the request needs a one-time token.
	CodeTokenMissing
	// CodeTenantMissing: the caller is not known.
	CodeTenantMissing
	// CodeCallerAmbiguous: the request names its caller in two ways.
	CodeCallerAmbiguous
	// CodeCookiesChanged: the key was used with other cookies.
	CodeCookiesChanged
	// CodeRequestAmbiguous: the request can be read in two ways.
	CodeRequestAmbiguous
	// CodeRequestUnreadable: the request of a call has no form that could be compared.
	CodeRequestUnreadable
	// CodeStreamNotGuarded: a stream has a key, and streams are not guarded.
	CodeStreamNotGuarded
	// CodeAnswerNotReadable: this was done before, and its answer is of another kind than the
	// method gives.
	CodeAnswerNotReadable
	// CodeTimeRefused: the request was made too long ago, or does not say when.
	CodeTimeRefused
	// CodeQueryMalformed: a question for the state of a request does not say which one.
	CodeQueryMalformed
	// CodeBodyIncomplete: the body did not arrive whole.
	CodeBodyIncomplete
	// CodeBodyTooLarge: the body is too large to be guarded.
	CodeBodyTooLarge
	// CodeNoRoom: there is no room for the body at present.
	CodeNoRoom
	// CodeSignatureMissing: the request needs a signature.
	CodeSignatureMissing
	// CodeSignatureRefused: the signature is not good.
	CodeSignatureRefused
	// CodeSignatureExpired: the time of the signature is not good.
	CodeSignatureExpired
	// CodeNonceUsed: the signed request was accepted before.
	CodeNonceUsed
	// CodeIssuerUnavailable: the keys of the issuer of the caller's token are not here.
	CodeIssuerUnavailable
	// CodeUpstreamUnreachable: the service cannot be reached.
	CodeUpstreamUnreachable
)

// codeRow is what is known of a code. It is the only place that says it.
type codeRow struct {
	name string
	// retry: the same call with the same key can get another answer later.
	retry bool
	// mayHaveActed: the call that gets this answer may have done its work.
	mayHaveActed bool
	// http is the status over HTTP, with the title and the detail of the problem; zero: the code is
	// of RPC alone. Without a detail the place that refuses says what to do.
	http          int
	title, detail string
	// grpc is the status code of gRPC and Connect, with its message; zero: the code is of HTTP
	// alone.
	grpc    uint32
	message string
}

// The status codes of gRPC that the table uses.
const (
	grpcInvalidArgument    = 3
	grpcAlreadyExists      = 6
	grpcResourceExhausted  = 8
	grpcFailedPrecondition = 9
	grpcAborted            = 10
	grpcInternal           = 13
	grpcUnavailable        = 14
	grpcUnauthenticated    = 16
)

var codes = [...]codeRow{
	CodeOutcomeUnknown: {
		name: "outcome-unknown", mayHaveActed: true,
		http: 409, title: "It is unknown whether the first request with this key took effect",
		detail: "It is not run again. Find out its outcome before you send it with a new key.",
		grpc:   grpcFailedPrecondition, message: "it is unknown whether the first call with this key took effect, and it is not run again; find out before you send it with a new key",
	},
	CodeLeaseLost: {
		name: "lease-lost", mayHaveActed: true, retry: true,
		http: 409, title: "Another attempt has taken this key over",
		detail: "Send the request again with the same key to get its answer.",
		grpc:   grpcAborted, message: "another attempt has taken this key over; send the call again with the same key to get its answer",
	},
	CodeInProgress: {
		name: "in-progress", retry: true,
		http: 409, title: "The first request with this key is still being worked on",
		detail: "Ask again with the same key after Retry-After.",
		grpc:   grpcAborted, message: "the first call with this key is still being worked on; ask again with the same key",
	},
	CodeAttemptFailed: {
		name: "attempt-failed", retry: true,
		http: 409, title: "The attempt that this request waited for ended without an answer",
		detail: "Send it again with the same key after Retry-After. This request did nothing.",
		grpc:   grpcAborted, message: "the attempt that this call waited for ended without an answer; this call did nothing, so send it again with the same key",
	},
	CodePayloadMismatch: {
		name: "payload-mismatch",
		http: 422, title: "This key was used with another request",
		detail: "Use a new key for a new request; a retry repeats the first one to the letter. Nothing was done.",
		grpc:   grpcInvalidArgument, message: "this key was used with another request; use a new key for a new request; nothing was done",
	},
	CodePrincipalChanged: {
		name: "principal-changed",
		http: 409, title: "This key was used with another credential",
		detail: "Send the retry with the credential of the first request. Nothing was done.",
		grpc:   grpcFailedPrecondition, message: "this key was used with another credential; nothing was done",
	},
	CodeAlreadyDone: {
		name: "already-done",
		http: 409, title: "This was done before",
		detail: "This request did nothing. Look up what the first one made.",
		grpc:   grpcAlreadyExists, message: "this was done before; look up what the first call made",
	},
	CodeAnswerNotKept: {
		name: "answer-not-kept",
		http: 409, title: "This was done before, and its answer was not stored",
		detail: "This request did nothing. Look up what the first one made.",
		grpc:   grpcAlreadyExists, message: "this was done before, and its answer was not stored; look up what the first call made",
	},
	CodeResolvedFailed: {
		name: "resolved-failed",
		http: 409, title: "This was refused for good",
		grpc: grpcFailedPrecondition, message: "this was refused for good",
	},
	CodeTokenRefused: {
		name: "token-refused",
		http: 403, title: "This one-time token is not good",
		detail: "This request did nothing. Ask for a new token, unless an earlier request with this one may have gone through: find that out first.",
	},
	CodeTooManyKeys: {
		name: "too-many-keys", retry: true,
		http: 429, title: "This caller has as many keys or tokens as it may have",
		detail: "Nothing was done. Send the request again after Retry-After, with the same key if it has one.",
		grpc:   grpcResourceExhausted, message: "this caller has as many keys as it may have; nothing was done",
	},
	CodeTooManyRequests: {
		name: "too-many-requests", retry: true,
		http: 429, title: "This caller asks too often",
		detail: "This request did nothing. Send it again after Retry-After, with the same key if it has one.",
		grpc:   grpcResourceExhausted, message: "this caller asks too often; this call did nothing",
	},
	CodeStoreUnavailable: {
		name: "store-unavailable", retry: true,
		http: 503, title: "The record of this key cannot be reached",
		detail: "Nothing was done. Send the request again with the same key after Retry-After.",
		grpc:   grpcUnavailable, message: "the record of this key cannot be reached; nothing was done",
	},
	CodeShuttingDown: {
		name: "shutting-down", retry: true,
		http: 503, title: "This server is shutting down",
		detail: "Nothing was done. Send the request again with the same key after Retry-After.",
		grpc:   grpcUnavailable, message: "this server is shutting down; nothing was done",
	},
	CodeKeyMissing: {
		name: "key-missing",
		http: 400, title: "This request needs an idempotency key",
		detail: "Send a random key in the header, one per logical action, and the same one in each retry. Nothing was done.",
		grpc:   grpcInvalidArgument, message: "this method needs an idempotency key: send a random one for each action, and the same one in each retry; nothing was done",
	},
	CodeKeyMalformed: {
		name: "key-malformed",
		http: 400, title: "The idempotency key is malformed",
		grpc: grpcInvalidArgument, message: "the metadata of the idempotency key is there twice, or is no key (1 to 255 characters of printable ASCII); nothing was done",
	},
	CodeKeyTooShort: {
		name: "key-too-short",
		http: 400, title: "The idempotency key is too short",
		detail: "Nothing but its key tells this request from those of strangers, and a short key can be guessed: send 128 random bits or more, for example a UUID, or a credential, with which a key of any length will do. Nothing was done.",
		grpc:   grpcInvalidArgument, message: "nothing but its key tells this call from those of strangers, and a short key can be guessed: send 128 random bits or more, or a credential; nothing was done",
	},
	CodeKeyNotMade: {
		name: "key-not-made",
		http: 400, title: "No idempotency key can be made of this request",
	},
	CodeTokenMissing: {
		name: "token-missing",
		http: 400, title: "This request needs a one-time token",
		detail: "Ask for a token first, and send it in the key's header or in the form field idempotency_key. Nothing was done.",
	},
	CodeTenantMissing: {
		name: "tenant-missing",
		http: 403, title: "The caller is not known",
		detail: "Log in, and send the request again with the same key. Nothing was done.",
		grpc:   grpcUnauthenticated, message: "the caller is not known; nothing was done",
	},
	CodeCallerAmbiguous: {
		name: "caller-ambiguous",
		http: 400, title: "This request names its caller in two ways",
	},
	CodeCookiesChanged: {
		name: "cookies-changed",
		http: 409, title: "This key was used with other cookies",
		detail: "Callers without a credential are told apart by their cookies. Send the retry with the cookies of the first request. The operator of this service can name those that count (binding). Nothing was done.",
	},
	CodeRequestAmbiguous: {
		name: "request-ambiguous",
		http: 400, title: "This request can be read in two ways",
		detail: "Send the method and the path as the service documents them. Nothing was done.",
	},
	CodeRequestUnreadable: {
		name: "request-unreadable",
		grpc: grpcInternal, message: "the request has no form that could be compared; nothing was done",
	},
	CodeStreamNotGuarded: {
		name: "stream-not-guarded",
		grpc: grpcInvalidArgument, message: "streams are not guarded, so a key would promise what is not kept; leave it out, or use a unary method; nothing was done",
	},
	CodeAnswerNotReadable: {
		name: "answer-not-readable",
		grpc: grpcAlreadyExists, message: "this was done before, and its answer is of another kind than this method gives; look up what the first call made",
	},
	CodeTimeRefused: {
		name: "time-refused",
		http: 400, title: "The time of this request is not that of now",
	},
	CodeQueryMalformed: {
		name: "query-malformed",
		http: 400, title: "The query does not say which request is asked about",
		detail: "Ask with ?method=POST&path=/orders, and with the key and the credential of that request.",
	},
	CodeBodyIncomplete: {
		name: "body-incomplete",
		http: 400, title: "The request body did not arrive whole",
		detail: "Send the request again with the same key. Nothing was done.",
	},
	CodeBodyTooLarge: {
		name: "body-too-large",
		http: 413, title: "The request body is too large to be guarded",
		detail: "Send a smaller body. Nothing was done.",
	},
	CodeNoRoom: {
		name: "no-room", retry: true,
		http: 503, title: "There is no room for this body at present",
		detail: "Nothing was done. Send the request again after Retry-After, with the same key.",
	},
	CodeSignatureMissing: {
		name: "signature-missing",
		http: 401, title: "This request needs a signature",
		detail: "Sign it (RFC 9421) with the tag that this service looks for. Nothing was done.",
	},
	CodeSignatureRefused: {
		name: "signature-refused",
		http: 401, title: "The signature of this request is not good",
		detail: "Nothing was done. Look at the key, at what the signature covers, and at what may have changed the request on its way.",
	},
	CodeSignatureExpired: {
		name: "signature-expired",
		http: 401, title: "The time of this request's signature is not good",
		detail: "Nothing was done. Set the clock, and send the request again with a new signature and the same idempotency key.",
	},
	CodeNonceUsed: {
		name: "nonce-used",
		http: 409, title: "This signed request was accepted before",
		detail: "This copy did nothing. A retry needs a new signature, and the same idempotency key.",
	},
	CodeIssuerUnavailable: {
		name: "issuer-unavailable", retry: true,
		http: 503, title: "The caller cannot be identified: the keys of its token's issuer are not available",
		detail: "Nothing was done. Send the request again with the same key after Retry-After.",
	},
	CodeUpstreamUnreachable: {
		name: "upstream-unreachable", retry: true,
		http: 503, title: "The service cannot be reached",
		detail: "The request was not sent. Send it again with the same key after Retry-After.",
	},
}

// errorRow is what is known of an error. It is the only place that says it.
type errorRow struct {
	err  error
	code Code
	// retry says whether the same call with the same key can be retried; see [Retryable].
	retry retryRule
	// outcome is the word of a trace for a call that ran nothing ([CallDone].Outcome); empty: that
	// of another row that matches, or "error".
	outcome string
	// advice says what the caller of the engine can do next. It is a part of the text of [Error].
	// Empty: that of another row that matches, or none.
	advice string
}

// retryRule says whether a call can be retried after an error.
type retryRule uint8

const (
	never retryRule = iota
	always
	ifTimed // if the error has a RetryAfter
)

// knownErrors has every error of this package, and those of others that its calls return. If
// several are joined, the first row decides: what may have taken effect is never answered as
// nothing done.
var knownErrors = []errorRow{
	{ErrStepsChanged, CodeOutcomeUnknown, never, "", "find out what the earlier attempt has done (ProgressOf), and resolve the key with Engine.Resolve, or run the program that began it"},
	{ErrInDoubt, CodeOutcomeUnknown, ifTimed, "in-doubt", "find out the outcome (Engine.Lookup, on the layer of the call) and resolve it with Engine.Resolve; do not retry with a new key"},
	{ErrLeaseLost, CodeLeaseLost, always, "lease-lost", "do not report success; a retry with the same key gets the answer of the attempt that took over"},
	{ErrUnconfirmed, CodeOutcomeUnknown, always, "unconfirmed", "do not do it again in another way; repeat the call with the same key to learn its outcome"},
	{ErrInProgress, CodeInProgress, always, "in-progress", "retry with the same key later, or let Policy.Wait wait for it"},
	{ErrAttemptFailed, CodeAttemptFailed, always, "attempt-failed", "retry with the same key"},
	{ErrFingerprintMismatch, CodePayloadMismatch, never, "mismatch", "use a new key for a new request, and the old payload for a retry"},
	{ErrPrincipalChanged, CodePrincipalChanged, never, "principal-changed", "retry with the credential that was used first"},
	{ErrDuplicate, CodeAlreadyDone, never, "duplicate", "look up what it made; nothing was run again"},
	{ErrAnswerNotKept, CodeAnswerNotKept, never, "not-kept", "look up what it made; nothing was run again"},
	{ErrFailedBefore, CodeResolvedFailed, never, "failed-before", "nothing was done, and a retry gets the same error; a new request needs a new key"},
	{ErrNotIssued, CodeTokenRefused, never, "not-issued", "ask for a new key, unless an earlier call with this one may have gone through: find that out first"},
	{ErrTooManyKeys, CodeTooManyKeys, always, "too-many-keys", "nothing was run; retry with the same key after RetryAfter"},
	{ErrTooManyRequests, CodeTooManyRequests, always, "too-many-requests", "nothing was run; retry after RetryAfter"},
	{ErrFenceChanged, CodeOutcomeUnknown, never, "", "look the record up again, and resolve what you find"},
	{ErrSecretChanged, CodeOutcomeUnknown, never, "", "use the Options.Secret (RETRYSAFE_SECRET of the gateway and the commands) that the other processes have: with another one a retry of an earlier call can run again; to change it on purpose, stop them all and run \"retrysafe secret replace --store STORE --namespace NAME --by YOU --reason WHY\" with the new one"},
	{ErrStoreWentBack, CodeStoreUnavailable, always, "unavailable", "nothing was run, since it may have run before; find out what the lost time has done (docs/backup.md), and then run \"retrysafe restore accept --store STORE --namespace NAME --lost-from TIME --lost-until TIME --by YOU --reason WHY\""},
	{ErrNoAttempt, CodeOutcomeUnknown, never, "", "call it inside of the work, with the context that the work was given"},
	{ErrStepRepeated, CodeOutcomeUnknown, never, "", "give each step a name of its own (number those of a loop), and try again inside of a step"},
	{ErrTxEnded, CodeOutcomeUnknown, never, "", "let the work return an error to roll back and nil to commit; look the key up to see what was kept"},
	{ErrCommitRefused, CodeOutcomeUnknown, never, "", ""},
	{ErrMaxRun, CodeOutcomeUnknown, never, "", ""},
	{ErrEnded, CodeOutcomeUnknown, never, "", ""},
	{ErrNotFound, CodeOutcomeUnknown, never, "", ""},
	// The engine could not ask the store for the key, so nothing ran.
	{ErrInvalidKey, CodeStoreUnavailable, never, "invalid", ""},
	{ErrInTransaction, CodeStoreUnavailable, never, "invalid", "give the call a store on another database, or move it out of the transaction"},
	{ErrClosed, CodeShuttingDown, always, "closed", "nothing was run; retry with the same key on another process"},
	{ErrUnavailable, CodeStoreUnavailable, always, "unavailable", "nothing took effect; retry with the same key"},
	{ErrUnreadable, CodeOutcomeUnknown, never, "", "update this program, or look at them with the store's own tools; all others were dealt with"},
	{ErrTooLate, CodeStoreUnavailable, never, "", ""},
	{errors.ErrUnsupported, CodeStoreUnavailable, never, "", ""},
	{context.Canceled, CodeStoreUnavailable, never, "cancelled", ""},
	{context.DeadlineExceeded, CodeStoreUnavailable, never, "cancelled", ""},
}

// CodeOf returns the code of an error of the engine, or zero for nil. An error that this package
// does not know, such as one of the work, says nothing about what was done: its code is
// [CodeOutcomeUnknown].
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	for i := range knownErrors {
		if errors.Is(err, knownErrors[i].err) {
			return knownErrors[i].code
		}
	}
	return CodeOutcomeUnknown
}

// errorOutcomeName returns the trace's name for the error of a call that ran nothing.
func errorOutcomeName(err error) string {
	for i := range knownErrors {
		if e := &knownErrors[i]; e.outcome != "" && errors.Is(err, e.err) {
			return e.outcome
		}
	}
	return "error"
}

// adviceFor returns what the caller can do next, or "".
func adviceFor(err error) string {
	for i := range knownErrors {
		if e := &knownErrors[i]; e.advice != "" && errors.Is(err, e.err) {
			return e.advice
		}
	}
	return ""
}

// retryRuleOf returns whether a retry is of use after an error.
func retryRuleOf(err error) retryRule {
	for i := range knownErrors {
		if e := &knownErrors[i]; e.retry != never && errors.Is(err, e.err) {
			return e.retry
		}
	}
	return never
}

// Codes returns all codes.
func Codes() []Code {
	all := make([]Code, 0, len(codes))
	for c := range codes {
		if codes[c].name != "" {
			all = append(all, Code(c))
		}
	}
	return all
}

// ParseCode returns the code with a name: that of a problem (in-progress), or a reason of RPC
// (IN_PROGRESS). It returns false if there is none.
func ParseCode(name string) (Code, bool) {
	for _, c := range Codes() {
		if name == c.String() || name == c.Reason() {
			return c, true
		}
	}
	return 0, false
}

// row returns what is known of c. Of a number that is no code nothing is.
func (c Code) row() *codeRow {
	if int(c) < len(codes) {
		return &codes[c]
	}
	return &codes[0]
}

// String returns the name of the code, as a problem over HTTP has it: in-progress. It never
// changes.
func (c Code) String() string {
	if name := c.row().name; name != "" {
		return name
	}
	return fmt.Sprintf("code-%d", uint8(c))
}

// Reason returns the name of the code as a refusal over RPC has it: IN_PROGRESS. It never changes.
func (c Code) Reason() string { return strings.ToUpper(strings.ReplaceAll(c.String(), "-", "_")) }

// HTTPStatus returns the status of an answer with this code, or 0 if the code is of RPC alone.
func (c Code) HTTPStatus() int { return c.row().http }

// GRPCCode returns the number of the status code of gRPC and Connect, or 0 if the code is of HTTP
// alone.
func (c Code) GRPCCode() uint32 { return c.row().grpc }

// Title says what happened, for a problem over HTTP.
func (c Code) Title() string { return c.row().title }

// Detail says what the client can do, for a problem over HTTP. It is empty if that depends on the
// request.
func (c Code) Detail() string { return c.row().detail }

// Message says what happened and what the client can do, for a refusal over RPC.
func (c Code) Message() string { return c.row().message }

// Retryable reports whether the same call with the same key can get another answer later. Over HTTP
// such an answer has Retry-After. [CodeOutcomeUnknown] is not retryable, but an error in doubt is
// if it has a RetryAfter; see the function [Retryable].
func (c Code) Retryable() bool { return c.row().retry }

// NothingDone reports whether a call with this code has certainly done nothing. An earlier call
// with the key may have.
func (c Code) NothingDone() bool { return c.row().name != "" && !c.row().mayHaveActed }
