package httpidem

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
)

// KeyMode says where the key of a request comes from.
type KeyMode uint8

// The key modes.
const (
	// Optional guards a request that carries a key; others pass. It is the default.
	Optional KeyMode = iota + 1
	// Required refuses a request without a key: 400 key-missing.
	Required
	// Off guards nothing.
	Off
	// Token requires a one-time token, a key that the server issued (package token), in the key's
	// header or in the field [TokenField] of a form. None: 400 token-missing. Unknown, expired,
	// another tenant's: 403 token-refused.
	Token
	// Params makes the key of a request that brings none out of its parameters, as Options.Rule
	// says: a double click, and a client that sends again by itself, are told within seconds
	// ([DefaultWindow]). Two orders of the same thing within them are one, so clients that can
	// should send a key, which counts then. It does not stop an attacker, who can change a field. A
	// tenant has to be known: 403 tenant-missing.
	Params
	// Fields makes the key of every request out of the fields that Options.Fields names, whatever
	// keys it brings: one vote for each voter and poll. A repeat that differs in anything else that
	// counts is told 422 payload-mismatch. A tenant has to be known, and Operation has to name the
	// action. A request without one of the fields, or that could be read in two ways, is refused:
	// 400 key-not-made.
	Fields
)

// After5xx says what an answer of 500 and above does to the key.
type After5xx uint8

// The ways to take a 5xx.
const (
	// Auto keeps it under Refuse and releases the key under Reexecute. It is the default.
	Auto After5xx = iota + 1
	// KeepIt keeps and replays it: the handler ran, and may have acted.
	KeepIt
	// ReleaseIt lets a retry run again. It is refused under Refuse, which it would break.
	ReleaseIt
)

// Options configure a [Middleware].
type Options struct {
	// Tenant names the caller by a stable principal (a user id, never a credential that rotates):
	// it keeps one caller from reading another's answer. [Global] is for services without users.
	// Either Tenant or Credentials is required. It must not read the body. An error answers 403
	// tenant-missing, and a [*Problem] itself. An empty tenant is anonymous: its keys need MinKey
	// characters.
	Tenant func(*http.Request) (string, error)
	// Binding returns the credential that a repeat must come with, or nil; only a keyed digest is
	// kept. Another one: 409 principal-changed.
	Binding func(*http.Request) []byte
	// Account names whom the policy's Limits and Rate count as one; default the tenant, and of
	// Credentials what nobody else can spend (see [Credentials.Account]). It must not read the
	// body.
	Account func(*http.Request) string
	// Credentials make Tenant and Binding of what requests carry, for a server that does not know
	// its callers by itself.
	Credentials *Credentials
	// Policy inherits the engine's. MaxAnswer counts the body alone, at most 1 MiB.
	Policy retrysafe.Policy
	// Key is Optional by default.
	Key KeyMode
	// Tokens is who issues the tokens of a route with the key Token. Without it tokens must be in
	// the store, and one whose use did nothing can be used again for Policy.Retention after that,
	// which should be longer than the tokens' life.
	Tokens Tokens
	// FormKey takes the key from the field [TokenField] of a form where no header has it; forms are
	// then read whole, up to MaxBody.
	FormKey bool
	// Rule says what of query and body counts under the keys Params and Fields; the zero Rule
	// counts all of them. Headers never do: where they say what is asked for, put them into
	// Operation or Fields. It counts for the keys that requests bring under Params, too. Leave out
	// what differs between two sendings of one request: see [fingerprint.Times]. Only is for
	// Params.
	Rule fingerprint.Rule
	// Fields are what makes a request the same under the key Fields, all of them required: "poll"
	// or "$.poll" (a member of a JSON body, or a field of a form), "$.order.id" (a member of a JSON
	// body alone), "query:poll", "header:X-Poll". Values are texts or whole numbers below 2^53 and
	// compared to the letter: a service that takes "07" for "7" must refuse it.
	Fields []string
	// AnyPayload lets a repeat under the key Fields differ in everything but the fields: it gets
	// the first answer, not 422.
	AnyPayload bool
	// Bodies is room for bodies in memory, shared by the middlewares of a process; default: each
	// body of up to MaxBody has room.
	Bodies *Bodies
	// Admit is asked before a key is looked up, for bounds of one's own; default: all are let in.
	// It refuses with a problem, or is told whether an attempt has begun: false for repeats. A
	// repeat is answered also where it was refused. It must not read the body.
	Admit func(*http.Request) (begun func(bool), refused *Problem)
	// Age refuses requests of the guarded methods that were made too long ago, with or without a
	// key; default: none are.
	Age *Age
	// Rate bounds how often a caller may come, with or without a key, repeats too; default: no
	// bound. It is counted in the store, before anything else: 429 too-many-requests. One trip to
	// the store for each request. Count what a caller cannot choose: one who makes up a credential
	// for each request has a rate for each, and a count in the store.
	Rate retrysafe.Rate
	// RateMethods are those that are counted, * for all; default the guarded ones, also where Key
	// is Off.
	RateMethods []string
	// RateName is what is counted as one; default the pattern of the ServeMux around the
	// middleware, and without one all its requests.
	RateName string
	// RateBy names who is counted as one; default the Account. It must not read the body. An error
	// is one of Tenant.
	RateBy func(*http.Request) (string, error)
	// KeyHeader names the header of the key; of several the first that is present counts. Default
	// Idempotency-Key.
	KeyHeader []string
	// Methods that are guarded; default POST and PATCH. GET, HEAD, OPTIONS and TRACE never are.
	Methods []string
	// Operation names what the key is for; default (also where it is empty) the method and the
	// escaped path as sent. The host is not part of it: where one service serves several hosts that
	// must not share keys, put the host into it. It does not count for tokens, which the first use
	// ties to its method, path and body.
	Operation func(*http.Request) string
	// After5xx is Auto by default.
	After5xx After5xx
	// Keep decides in place of the status table what an answer means. Under Refuse it cannot turn
	// an answer of a handler that ran into "nothing done"; such a verdict is taken as in doubt.
	Keep func(status int, h http.Header) retrysafe.Outcome
	// MaxBody is the largest request body of a guarded request in bytes; default 1 MiB. A larger
	// one: 413 body-too-large.
	MaxBody int64
	// BodyTime is how long the body of a guarded request may take to arrive; default: as long as
	// the server lets it. 400 body-incomplete.
	BodyTime time.Duration
	// MinKey is the least length of keys of the anonymous tenant, unless they are tokens; default
	// 22, the length of 128 bits in base64.
	MinKey int
	// KeepCookies keeps Set-Cookie with the answer; by default a replay sets none.
	KeepCookies bool
	// Succeed is what repeats get under the policy Succeed; default 200 without a body.
	Succeed StaticAnswer
	// Answer writes the answers that are the middleware's own, in place of problem+json. err is a
	// [*Problem].
	Answer func(w http.ResponseWriter, r *http.Request, err error)
	// Docs is where the problem pages are; default those of this project.
	Docs string
	// Layer keeps the keys of this surface apart from others on the store; default "http". That of
	// tokens is always "token": each is redeemed at one place, at a gateway or at the service
	// behind it.
	Layer string
}

// StaticAnswer is a fixed answer.
type StaticAnswer struct {
	Status      int // default 200
	ContentType string
	Body        []byte
}

// DefaultDocs is where the pages of the problem codes are.
const DefaultDocs = "https://github.com/retrysafe/retrysafe/blob/main/docs/problems/"

// Global is the tenant of services without users: one key space for all callers.
func Global(*http.Request) (string, error) { return "global", nil }

var neverGuarded = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}

// Validate says what is wrong with o for an engine with the policy base.
func (o *Options) Validate(base retrysafe.Policy) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("httpidem: "+format, args...)) }
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
	if o.Key > Fields || o.After5xx > ReleaseIt {
		wrong("Key is %d and After5xx %d; use the constants of this package", o.Key, o.After5xx)
	}
	o.validateMade(wrong)
	if o.Rate != (retrysafe.Rate{}) {
		if err := o.Rate.Validate(); err != nil {
			wrong("Rate: %w", err)
		}
	}
	if o.Age != nil {
		if err := o.Age.validate(); err != nil {
			wrong("%w", err)
		} else if !o.Age.inHead() && !Made(o.Key) {
			wrong("Age.Field is %q, in what a key is bound to: a retry with another time would be another request; take the time from a header, or make keys here (Params, Fields)", o.Age.Field)
		}
		if o.Key == Off {
			wrong("Age is set, and Key is Off: nothing is guarded; leave one of them out")
		}
	}
	if o.After5xx == ReleaseIt && p.OnDoubt != retrysafe.Reexecute {
		wrong("After5xx ReleaseIt runs work again that may have acted; set Policy.OnDoubt to Reexecute, or use Auto")
	}
	for _, m := range o.Methods {
		if slices.Contains(neverGuarded, m) {
			wrong("Methods has %s, which is safe to repeat by itself and never guarded; leave it out", m)
		}
	}
	for _, h := range o.KeyHeader {
		if http.CanonicalHeaderKey(h) == "" || !validFieldName(h) {
			wrong("KeyHeader has %q, which is no header name", h)
		}
	}
	if o.BodyTime < 0 {
		wrong("BodyTime is %v; use a positive time, or zero for no limit", o.BodyTime)
	}
	if o.MaxBody < 0 || o.MinKey < 0 || o.MinKey > maxKey {
		wrong("MaxBody is %d and MinKey %d; use positive numbers, MinKey up to %d", o.MaxBody, o.MinKey, maxKey)
	}
	if s := o.Succeed.Status; s != 0 && (s < 200 || s > 299) {
		wrong("Succeed.Status is %d; use 200 to 299", s)
	}
	return errors.Join(errs...)
}

// policy is what holds for the requests of a middleware.
func (o *Options) policy(base retrysafe.Policy) retrysafe.Policy {
	if o.Key == Params {
		return madePolicy(o.Policy, base).Or(base)
	}
	return o.Policy.Or(base)
}

// fill sets the defaults.
func (o *Options) fill() {
	if o.Key == 0 {
		o.Key = Optional
	}
	if len(o.KeyHeader) == 0 {
		o.KeyHeader = []string{"Idempotency-Key"}
	}
	names := make([]string, len(o.KeyHeader))
	for i, h := range o.KeyHeader {
		names[i] = http.CanonicalHeaderKey(h)
	}
	o.KeyHeader = names
	if len(o.Methods) == 0 {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if len(o.RateMethods) == 0 {
		o.RateMethods = o.Methods
	}
	if o.Operation == nil {
		o.Operation = asSent
	}
	if o.After5xx == 0 {
		o.After5xx = Auto
	}
	if o.MaxBody == 0 {
		o.MaxBody = 1 << 20
	}
	if o.MinKey == 0 {
		o.MinKey = 22
	}
	if o.Succeed.Status == 0 {
		o.Succeed.Status = http.StatusOK
	}
	if o.Docs == "" {
		o.Docs = DefaultDocs
	}
	if o.Layer == "" {
		o.Layer = "http"
	}
}
