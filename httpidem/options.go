package httpidem

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
)

// KeyMode says where the key of a request comes from.
type KeyMode uint8

// The key modes.
const (
	// Optional guards a request that carries a key, and passes any other. It is the default.
	Optional KeyMode = iota + 1
	// Required refuses a request without a key: 400 key-missing.
	Required
	// Off guards nothing.
	Off
	// Token requires a one-time token, which is a key that the server issued (package token). It is
	// in the key's header or in the form field [TokenField]. Missing: 400 token-missing. Unknown,
	// expired or another tenant's: 403 token-refused.
	Token
	// Params derives the key of a request that sends none from its parameters, as
	// RequestOptions.Rule says. It detects duplicates within seconds ([DefaultWindow]): a double
	// click, or a client that retries by itself. Two orders of the same thing within that time
	// count as one, so clients that can should send a key, which then takes precedence. It does not
	// stop an attacker, who can change a field. The tenant must be known: 403 tenant-missing.
	Params
	// Fields derives the key of every request from the fields that RequestOptions.Fields names, and
	// ignores any key that the request sends: one vote for each voter and poll. A duplicate that
	// differs in anything else that counts gets 422 payload-mismatch. The tenant must be known, and
	// Operation must name the action. A request that lacks one of the fields, or that can be read
	// in two ways, gets 400 key-not-made.
	Fields
)

// After5xx says what an answer of 500 and above means for the key.
type After5xx uint8

// The values of After5xx.
const (
	// After5xxAuto stores the answer under Refuse and releases the key under Reexecute. It is the
	// default.
	After5xxAuto After5xx = iota + 1
	// After5xxKeep stores and replays the answer: the handler ran, and may have had an effect.
	After5xxKeep
	// After5xxRelease releases the key, so a retry runs again. Options.Validate refuses it under
	// Refuse, whose guarantee it would break.
	After5xxRelease
)

// KeepAnswer says what of an answer is stored.
type KeepAnswer uint8

// The values of KeepAnswer.
const (
	// KeepAlways stores the answer, which duplicates get. It is the default.
	KeepAlways KeepAnswer = iota + 1
	// KeepNever stores the status alone, for answers that must not lie anywhere: the number of a
	// card, a password that is shown once. Duplicates get 409 answer-not-kept, which has the
	// status; under the policy Succeed or Reject they get what that says. Nothing runs again.
	// Answers of retrysafe.Step inside the handler are stored as always.
	KeepNever
)

// Options configure a [Middleware]. Most services set who is calling and how long to remember:
//
//	httpidem.Options{
//		Tenant: func(r *http.Request) (string, error) { return userOf(r) },
//		Policy: retrysafe.Policy{Retention: 48 * time.Hour},
//	}
type Options struct {
	// Tenant returns a stable principal of the caller: a user id, never a credential that rotates.
	// It keeps one caller from reading another's answer. Use [Global] for services without users.
	// Either Tenant or Credentials is required. Tenant must not read the body. An error is answered
	// with 403 tenant-missing; a [*Problem] is answered as it is. An empty tenant is anonymous: its
	// keys need at least KeySource.MinLength characters.
	Tenant func(*http.Request) (string, error)
	// Binding returns the credential that a duplicate must also carry, or nil. The store gets only
	// a keyed digest of it. Another credential: 409 principal-changed.
	Binding func(*http.Request) []byte
	// Credentials derive Tenant and Binding from what requests carry, for a server that does not
	// know its callers by itself.
	Credentials *Credentials

	// Key says which requests have to have a key, and how one is made; default Optional.
	Key KeyMode
	// KeySource says where in a request its key is.
	KeySource KeySource
	// Request says which requests are guarded, and when two of them are the same.
	Request RequestOptions
	// Answer says what an answer means for its key, and what duplicates get.
	Answer AnswerOptions
	// Limit bounds what a request may cost.
	Limit LimitOptions

	// Policy inherits from the engine's policy. MaxAnswer limits the body alone, to at most 1 MiB.
	Policy retrysafe.Policy
	// Contract says how the middleware answers, and sets some of the defaults below: ContractCustom
	// (default), ContractIETF, ContractStripe or ContractACP.
	Contract Contract
	// Layer keeps the keys of this middleware apart from others in the same store; default "http".
	// The layer of tokens is always "token": each token is redeemed in one place, at a gateway, or
	// at the service after it.
	Layer string
	// Ready is called before the store is asked about a key; default: it is asked at once. After an
	// error the answer is 503 store-unavailable, and nothing is done. It is for services that check
	// something first, such as [retrysafe.Engine.CheckSecret].
	Ready func(context.Context) error
	// Admit is called before the key is looked up, for limits of your own; default: every request
	// is admitted. It returns a problem to refuse the request. A duplicate of a known key is
	// answered all the same. If the request goes on, begun, if not nil, is called with whether an
	// attempt has begun: false for duplicates. Admit must not read the body.
	Admit func(*http.Request) (begun func(bool), refused *Problem)
	// ErrorHandler writes the middleware's own answers, in place of problem+json. err is a
	// [*Problem].
	ErrorHandler func(w http.ResponseWriter, r *http.Request, err error)
	// Docs is the base URL of the problem pages; default [DefaultDocs].
	Docs string
}

// KeySource says where in a request its key is, and which keys are good.
type KeySource struct {
	// Header names the header of the key. Of several, the first that is present counts. Default:
	// Idempotency-Key.
	Header []string
	// Field names the field of a body that carries the key, for clients that send it there:
	// "/idempotency_key" or "$.meta.key" is a member of a JSON body, "idempotency_key" a member of
	// a JSON body or a field of a form. It takes precedence over the header, which a browser may
	// fill in by itself. A body of another Content-Type has no such field. The middleware then
	// reads these bodies whole, up to Limit.Body, also where no key is required. Default: none.
	Field string
	// Form takes the key from the form field [TokenField] if no header has it. The middleware
	// then reads forms whole, up to Limit.Body.
	Form bool
	// MinLength is the least length of keys of the anonymous tenant, except tokens. Default 22, the
	// length of 128 bits in base64.
	MinLength int
	// Tokens is the issuer of the tokens of a route whose Key is Token. Without it, tokens must be
	// in the store. A token whose use did nothing can then be used again for Policy.Retention after
	// that use; make the retention longer than the tokens' life.
	Tokens Tokens
}

// RequestOptions say which requests are guarded, and when two of them are the same request.
type RequestOptions struct {
	// Methods are the guarded methods; default POST and PATCH. GET, HEAD, OPTIONS and TRACE are
	// never guarded.
	Methods []string
	// Operation names what the key is for. Default, also if it returns an empty string: the method
	// and the escaped path as sent. The host is not part of it. If one service serves several hosts
	// that must not share keys, include the host. It does not apply to tokens, which the first use
	// ties to its method, path and body.
	Operation func(*http.Request) string
	// Fingerprint says when a request that sends a known key is a duplicate: FingerprintBytes
	// (default), or FingerprintJSON for clients that write the JSON of each retry again. Under
	// Params and Fields leave it out: what they make is compared by its meaning. A change of it, or
	// of the Rule, does not refuse retries that are under way: fingerprints of two rules are not
	// compared.
	Fingerprint Fingerprint
	// Rule says which parts of query and body count under Params and Fields. Under FingerprintJSON
	// it says which members of a JSON body count; there what Ignore has by name, not by path, is
	// also left out of the query and of forms. The zero Rule counts all of them. Headers never
	// count: if a header says what the request asks for, put it into Operation or Fields. Under
	// Params the Rule also applies to requests that send a key. Leave out what differs between two
	// tries of one request: see [fingerprint.TimeFields]. Rule.Only is not for Fields.
	Rule fingerprint.Rule
	// Fields name what makes two requests the same under the key Fields; all of them are required.
	// "poll" or "$.poll" is a member of a JSON body or a field of a form, "$.order.id" a member of
	// a JSON body alone; "query:poll" and "header:X-Poll" are the others. Values are texts or whole
	// numbers below 2^53. They are compared byte for byte: a service that treats "07" as "7" must
	// refuse "07".
	Fields []string
	// AnyPayload lets a duplicate under the key Fields differ in everything but the fields. It gets
	// the first answer, not 422.
	AnyPayload bool
	// Missing says what a request gets under the key Fields that lacks one of them: MissingRefuse
	// (default), or MissingPass, which needs AnyPayload.
	Missing Missing
}

// AnswerOptions say what an answer of the handler means for its key, and what duplicates get.
type AnswerOptions struct {
	// After5xx is After5xxAuto by default.
	After5xx After5xx
	// NotRun are further statuses that the handler answers before it acts, such as 409 or 503: the
	// key is released, and a retry runs. List only what no handler of the route answers after it
	// has acted. Default: none; those of the function [NotRun] are always released. Success (below
	// 300) is refused, and under Refuse also 500, 502 and 504.
	NotRun []int
	// Outcome says where answers have the outcome in their body, for services that answer a refusal
	// with 200; default: the status says how a request ended.
	Outcome *BodyOutcome
	// Classify decides, in place of the status table, what an answer means. Under Refuse it cannot
	// turn an answer of a handler that ran into "nothing done", unless its status is one of NotRun;
	// the middleware treats that result as in doubt.
	Classify func(status int, h http.Header) retrysafe.Outcome
	// Keep is KeepAlways by default. To store answers encrypted, use package sealstore.
	Keep KeepAnswer
	// KeepCookies stores Set-Cookie with the answer. By default a replay sets no cookies.
	KeepCookies bool
	// Succeed is what duplicates get under the policy Succeed; default 200 without a body.
	Succeed StaticAnswer
	// InProgress is what a duplicate gets while the first request runs, after Policy.Wait, if any;
	// default: 409 in-progress. It is for senders of events that take 409 for a failed delivery: a
	// success tells them that the event has arrived. If the first request then fails, they may not
	// send it again.
	InProgress *StaticAnswer
}

// LimitOptions bound what a request may cost, in memory and in time, and how often it may come.
type LimitOptions struct {
	// Body is the largest body of a guarded request in bytes; default 1 MiB. Larger: 413
	// body-too-large.
	Body int64
	// BodyTime limits how long the body of a guarded request may take to arrive; default: no limit
	// but the server's. Exceeded: 400 body-incomplete.
	BodyTime time.Duration
	// Bodies bounds the memory for request bodies, and is shared by the middlewares of a process.
	// Default: each body of up to Body has room.
	Bodies *Bodies
	// Age refuses requests of the guarded methods that were made too long ago, with or without a
	// key; default: no request is refused for its age.
	Age *Age
	// Rate limits how often a caller may send requests, with or without a key, duplicates included;
	// default: no limit. Requests are counted in the store, before anything else: 429
	// too-many-requests. Each request costs one round trip to the store. Count by something that a
	// caller cannot choose: a caller that invents a credential for each request gets a new rate,
	// and a new count in the store, for each.
	Rate retrysafe.Rate
	// RateMethods are the methods that are counted, * for all. Default: the guarded ones, even if
	// Key is Off.
	RateMethods []string
	// RateName names what is counted together. Default: the pattern of the ServeMux around the
	// middleware; without a pattern, all requests of the middleware.
	RateName string
	// Account names the caller that the policy's Limits and Rate count. Default: the tenant; with
	// Credentials, a name that no other caller can use (see [Credentials.Account]). It must not
	// read the body.
	Account func(*http.Request) string
	// RateBy names the caller that is counted; default: Account. It must not read the body. An
	// error is answered like an error of Tenant.
	RateBy func(*http.Request) (string, error)
}

// StaticAnswer is a fixed answer.
type StaticAnswer struct {
	Status      int // default 200
	ContentType string
	Body        []byte
}

// DefaultDocs is the base URL of the pages of the problem codes.
const DefaultDocs = "https://github.com/retrysafe/retrysafe/blob/main/docs/problems/"

// Global is the tenant of services without users: all callers share one key space.
func Global(*http.Request) (string, error) { return "global", nil }

var neverGuarded = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}

// Validate reports what is wrong with o for an engine with the policy base. It returns nil if o is
// valid.
func (o *Options) Validate(base retrysafe.Policy) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("httpidem: "+format, args...)) }
	given := o
	o = given.withDialect()
	switch {
	case o.Credentials != nil && (o.Tenant != nil || o.Binding != nil):
		wrong("Credentials are set beside Tenant or Binding, which they make; leave out one of both")
	case o.Credentials != nil:
		errs = append(errs, o.Credentials.Validate())
	case o.Tenant == nil:
		wrong("Tenant is not set; name the caller by a stable id, set Credentials, or say httpidem.Global if there are no users")
	}
	p := o.policy(base)
	if err := p.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.Key > Fields || o.Answer.After5xx > After5xxRelease || o.Answer.Keep > KeepNever {
		wrong("Key is %d, After5xx %d and Answer.Keep %d; use the constants of this package", o.Key, o.Answer.After5xx, o.Answer.Keep)
	}
	if o.Answer.Keep == KeepNever && o.Answer.KeepCookies {
		wrong("KeepCookies stores cookies with the answer, and Answer.Keep is KeepNever; leave one of them out")
	}
	o.validateDerived(wrong)
	o.validateKeyField(wrong)
	o.validateContract(given, &p, wrong)
	o.validateNotRun(&p, wrong)
	if o.Limit.Rate != (retrysafe.Rate{}) {
		if err := o.Limit.Rate.Validate(); err != nil {
			wrong("Rate: %w", err)
		}
	}
	if o.Limit.Age != nil {
		if err := o.Limit.Age.validate(); err != nil {
			wrong("%w", err)
		} else if !o.Limit.Age.isInHeader() && !o.Key.Derived() {
			wrong("Age.Field is %q, in what a key is bound to: a retry with another time would be another request; take the time from a header, or make keys here (Params, Fields)", o.Limit.Age.Field)
		}
		if o.Key == Off {
			wrong("Age is set, and Key is Off: nothing is guarded; leave one of them out")
		}
	}
	for _, m := range o.Request.Methods {
		if slices.Contains(neverGuarded, m) {
			wrong("Methods has %s, which is safe to repeat by itself and never guarded; leave it out", m)
		}
	}
	for _, h := range o.KeySource.Header {
		if http.CanonicalHeaderKey(h) == "" || !IsToken(h) {
			wrong("KeySource.Header has %q, which is no header name", h)
		}
	}
	if o.Limit.BodyTime < 0 {
		wrong("BodyTime is %v; use a positive time, or zero for no limit", o.Limit.BodyTime)
	}
	if o.Limit.Body < 0 || o.KeySource.MinLength < 0 || o.KeySource.MinLength > maxKey {
		wrong("Limit.Body is %d and KeySource.MinLength %d; use positive numbers, KeySource.MinLength up to %d", o.Limit.Body, o.KeySource.MinLength, maxKey)
	}
	o.validateAnswers(wrong)
	return errors.Join(errs...)
}

// validateAnswers reports what is wrong with what is said of answers.
func (o *Options) validateAnswers(wrong func(format string, args ...any)) {
	if s := o.Answer.Succeed.Status; s != 0 && (s < 200 || s > 299) {
		wrong("Succeed.Status is %d; use 200 to 299", s)
	}
	if a := o.Answer.InProgress; a != nil && a.Status != 0 && (a.Status < 200 || a.Status > 299) {
		wrong("InProgress.Status is %d; use 200 to 299", a.Status)
	}
	if _, err := o.Answer.Outcome.compile(); err != nil {
		wrong("Outcome: %w", err)
	}
	if o.Answer.Outcome != nil && o.Answer.Keep == KeepNever {
		wrong("Outcome is in the body of answers, and Answer.Keep KeepNever stores none; leave one of them out")
	}
}

// policy returns the policy of the middleware.
func (o *Options) policy(base retrysafe.Policy) retrysafe.Policy {
	if o.Key == Params {
		return DerivedPolicy(o.Policy, base).Or(base)
	}
	own := o.Policy
	if least := o.Contract.dialect().retention; own.Retention == 0 && base.WithDefaults().Retention < least {
		own.Retention = least
	}
	return own.Or(base)
}

// fillDefaults sets the defaults.
func (o *Options) fillDefaults() {
	*o = *o.withDialect()
	if o.Contract == 0 {
		o.Contract = ContractCustom
	}
	if o.Key == 0 {
		o.Key = Optional
	}
	if len(o.KeySource.Header) == 0 {
		o.KeySource.Header = []string{"Idempotency-Key"}
	}
	names := make([]string, len(o.KeySource.Header))
	for i, h := range o.KeySource.Header {
		names[i] = http.CanonicalHeaderKey(h)
	}
	o.KeySource.Header = names
	if len(o.Request.Methods) == 0 {
		o.Request.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if len(o.Limit.RateMethods) == 0 {
		o.Limit.RateMethods = o.Request.Methods
	}
	if o.Request.Operation == nil {
		o.Request.Operation = sentOperation
	}
	if o.Answer.After5xx == 0 {
		o.Answer.After5xx = After5xxAuto
	}
	if o.Answer.Keep == 0 {
		o.Answer.Keep = KeepAlways
	}
	if o.Limit.Body == 0 {
		o.Limit.Body = 1 << 20
	}
	if o.KeySource.MinLength == 0 {
		o.KeySource.MinLength = 22
	}
	if o.Answer.Succeed.Status == 0 {
		o.Answer.Succeed.Status = http.StatusOK
	}
	if a := o.Answer.InProgress; a != nil && a.Status == 0 {
		own := *a
		own.Status, o.Answer.InProgress = http.StatusOK, &own
	}
	if o.Docs == "" {
		o.Docs = DefaultDocs
	}
	if o.Layer == "" {
		o.Layer = "http"
	}
}
