package httpidem

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

// The fields that this package sets or reads.
const (
	headerReplayed = "Idempotency-Replayed" // "true" on a replayed answer
	// "unconfirmed" if the store has not confirmed the answer yet
	headerStored = "Idempotency-Stored"
	// set by the handler: executed or not-executed; never sent to the client
	headerOutcome = "Idempotency-Outcome"
)

// Middleware guards handlers. It is safe for concurrent use. Requests that it does not guard cost
// nothing.
type Middleware struct {
	engine  *retrysafe.Engine
	source  *retrysafe.Engine // as passed to New
	given   Options           // as passed to New
	o       Options           // with every default
	layer   string
	account func(*http.Request) string // who limits and rates count; nil: the tenant
	policy  retrysafe.Policy
	// bodyLimit is the largest answer body that is stored.
	bodyLimit       int64
	keyDeriver      *keyDeriver      // nil if clients send the keys
	keyField        *reqfield.Field  // nil: no body has the key
	outcome         *bodyOutcome     // nil: the status says how a request ended
	fingerprintRule *fingerprintRule // nil if bodies are compared byte for byte
	age             *ageLimit        // nil without LimitOptions.Age
	dialect         *dialect
}

// New returns a middleware. It panics if [Options.Validate] returns an error.
func New(e *retrysafe.Engine, o *Options) *Middleware {
	if e == nil {
		panic("httpidem: New needs an engine; retrysafe.New makes one")
	}
	if o == nil {
		o = new(Options)
	}
	if err := o.Validate(e.Policy()); err != nil {
		panic(err)
	}
	m := &Middleware{source: e, given: *o, o: *o, policy: o.policy(e.Policy()), age: o.Limit.Age.compile(), dialect: o.Contract.dialect()}
	if o.Credentials != nil {
		m.o.Tenant, m.o.Binding = o.Credentials.TenantAndBinding(e)
	}
	if m.account = o.Limit.Account; m.account == nil && o.Credentials != nil {
		m.account = o.Credentials.Account(e, nil)
	}
	m.o.fillDefaults()
	var err error
	if m.keyDeriver, err = m.o.keyDeriver(); err != nil {
		panic(err)
	}
	if m.fingerprintRule, err = m.o.fingerprintRule(); err != nil {
		panic(err)
	}
	if m.keyField, err = m.o.keyField(); err != nil {
		panic(err)
	}
	if m.outcome, err = m.o.Answer.Outcome.compile(); err != nil {
		panic(err)
	}
	m.bodyLimit = min(m.policy.MaxAnswer, 1<<20)
	own := m.policy
	// bodyLimit limits the body; the stored answer also has the head
	own.MaxAnswer = retrysafe.MaxStored
	if m.layer = m.o.Layer; m.o.Key == Token {
		m.layer = tokenLayer
	}
	m.engine = e.Layer(m.layer).WithPolicy(own)
	return m
}

// Options returns the options with every default filled in.
func (m *Middleware) Options() Options {
	o := m.o
	o.KeySource.Header, o.Request.Methods = slices.Clone(o.KeySource.Header), slices.Clone(o.Request.Methods)
	if o.Credentials != nil {
		o.Tenant, o.Binding = nil, nil // Credentials makes both
	}
	return o
}

// With returns a middleware with changed options, for a route that differs. It panics like [New].
// If m was made without Key, Fingerprint or After5xx, change finds zero there: a changed Contract
// has defaults of its own.
func (m *Middleware) With(change func(*Options)) *Middleware {
	o := m.Options()
	o.Key, o.Request.Fingerprint, o.Answer.After5xx = m.given.Key, m.given.Request.Fingerprint, m.given.Answer.After5xx
	change(&o)
	return New(m.source, &o)
}

// Handler returns a handler that guards next.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guarded := slices.Contains(m.o.Request.Methods, r.Method)
		if guarded && m.dialect.echo && m.o.Key != Off {
			m.echoKey(w, r)
		}
		if m.o.Limit.Rate.PerSecond > 0 && m.isRateLimited(r.Method) {
			if p := m.checkRate(r); p != nil {
				m.Problem(w, r, p)
				return
			}
		}
		if !guarded || m.o.Key == Off {
			next.ServeHTTP(w, r)
			return
		}
		if m.age != nil && m.age.field.InHeader() {
			if p := m.age.check(r, nil); p != nil {
				m.Problem(w, r, p)
				return
			}
		}
		lines := m.keyLines(r)
		switch {
		case lines != nil, m.o.Key.Derived(), m.mayHaveFormKey(r), m.mayHaveFieldKey(r):
			m.guard(w, r, next, lines)
		case m.o.Key == Token:
			m.Problem(w, r, m.tokenMissingProblem())
		case m.o.Key == Required:
			m.Problem(w, r, m.keyMissingProblem())
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// keyLines returns the lines of the header that carries the key, or nil if no header does.
func (m *Middleware) keyLines(r *http.Request) []string {
	if m.o.Key == Fields {
		return nil // a caller that could choose the key could act twice
	}
	for _, name := range m.o.KeySource.Header {
		if lines, ok := r.Header[name]; ok {
			return lines
		}
	}
	return nil
}

// Problem writes p as the options say. Handlers inside the middleware can use it for problems of
// their own.
func (m *Middleware) Problem(w http.ResponseWriter, r *http.Request, p *Problem) {
	p.Type = m.o.Docs + p.Code + ".md"
	p.applyDialect(m.dialect)
	if m.o.ErrorHandler != nil {
		m.o.ErrorHandler(w, r, p)
		return
	}
	p.ServeHTTP(w, r)
}

// requester is the caller of a request, and the key that it asks for.
type requester struct {
	tenant, id string // id is empty while the key may be in the body
	key        retrysafe.Key
}

// identifyCaller returns the caller, and the key if the request has one in its header.
func (m *Middleware) identifyCaller(r *http.Request, lines []string) (who requester, p *Problem) {
	var id string
	var err error
	if lines != nil {
		if id, err = ParseKey(lines); err != nil {
			return who, m.keyMalformedProblem(r, err)
		}
	}
	if who.tenant, err = m.o.Tenant(r); err != nil {
		return who, tenantProblem(err)
	}
	if m.o.Key == Fields && m.o.Credentials != nil && !m.o.Credentials.isSecretTenant(r, who.tenant) {
		return who, problemFor(retrysafe.CodeTenantMissing, errOnlyNamed)
	}
	if lines != nil {
		p = m.setKey(r, &who, id)
	}
	return who, p
}

// keyHeader returns the name of the header that carries the key of r.
func (m *Middleware) keyHeader(r *http.Request) string {
	for _, name := range m.o.KeySource.Header {
		if len(r.Header.Values(name)) > 0 {
			return name
		}
	}
	return m.o.KeySource.Header[0]
}

// keyPlaces describes where a key or a token may be sent.
func (m *Middleware) keyPlaces() string {
	text := strings.Join(m.o.KeySource.Header, " or ")
	if m.o.KeySource.Form || m.o.Key == Token {
		text += ", or in the field " + TokenField + " of a form"
	}
	if m.keyField != nil {
		text += ", or in the field " + m.keyField.String() + " of the body"
	}
	return text
}

func (m *Middleware) tokenMissingProblem() *Problem {
	p := problemFor(retrysafe.CodeTokenMissing, nil)
	p.Detail = "Ask for a token first, and send it in " + m.keyPlaces() + ". Nothing was done."
	return p
}

// keyMissingProblem says where this service looks for keys.
func (m *Middleware) keyMissingProblem() *Problem {
	p := problemFor(retrysafe.CodeKeyMissing, nil)
	p.Detail = "Send a random key in " + m.keyPlaces() + ", one per logical action, and the same one in each retry. Nothing was done."
	return p
}

// keyMalformedProblem says what is wrong with the header that carries the key.
func (m *Middleware) keyMalformedProblem(r *http.Request, err error) *Problem {
	p := problemFor(retrysafe.CodeKeyMalformed, err)
	p.Detail = "In " + m.keyHeader(r) + ", " + err.Error() + ". Nothing was done."
	return p
}

func (m *Middleware) keyTooShortProblem() *Problem {
	p := problemFor(retrysafe.CodeKeyTooShort, nil)
	p.Detail = fmt.Sprintf("This request names no caller, so nothing but its key tells it from those of strangers, and a short key can be guessed. "+
		"Send at least %d characters in %s, 128 random bits or more, for example a UUID; or send a credential, with which a key of any length will do. "+
		"Some browsers fill in a shorter key if the page sets none. Nothing was done.", m.o.KeySource.MinLength, m.keyPlaces())
	return p
}

// tenantProblem returns the problem for an error of Options.Tenant: a copy if the error is a
// *Problem, else tenant-missing, which does not show the cause.
func tenantProblem(err error) *Problem {
	if p := (*Problem)(nil); errors.As(err, &p) {
		own := *p
		return &own
	}
	return problemFor(retrysafe.CodeTenantMissing, err)
}

// setKey sets the id and the key of who.
func (m *Middleware) setKey(r *http.Request, who *requester, id string) *Problem {
	who.id = id
	if m.o.Key == Token {
		who.key = tokenKey(who.tenant, id)
		return nil
	}
	made := strings.HasPrefix(id, derivedMark)
	switch {
	case who.tenant == "" && made: // two strangers may send the same request
		return problemFor(retrysafe.CodeTenantMissing, errNoTenant)
	case who.tenant == "" && len(id) < m.o.KeySource.MinLength:
		return m.keyTooShortProblem()
	}
	operation := m.o.Request.Operation(r)
	if operation == "" && m.o.Key == Fields {
		return problemFor(retrysafe.CodeKeyNotMade, errNoOperation)
	}
	if operation == "" {
		operation = sentOperation(r)
	}
	who.key = retrysafe.Key{
		Tenant: retrysafe.KeyPart(who.tenant), Operation: retrysafe.KeyPart(operation), ID: retrysafe.KeyPart(id),
	}
	return nil
}

var (
	errNoTenant    = errors.New("keys that are made of requests need a tenant: set Tenant, or to Global if all callers are to be one")
	errNoOperation = errors.New("the function Operation returned no name, and Key is Fields")
)

// isHeldBy reports whether outer, the attempt of an outer guard, has the same key. This guard would
// wait for it for ever.
func (m *Middleware) isHeldBy(outer *retrysafe.Attempt, key retrysafe.Key) bool {
	return outer.Layer() == m.layer && outer.Key() == key
}

// guard runs next at most once per key.
func (m *Middleware) guard(w http.ResponseWriter, r *http.Request, next http.Handler, lines []string) {
	head := lines
	if m.mayHaveFieldKey(r) {
		head = nil // the body is looked at first
	}
	who, p := m.identifyCaller(r, head)
	if p != nil {
		m.Problem(w, r, p)
		return
	}
	outer, inside := retrysafe.AttemptFrom(r.Context())
	if inside && m.isHeldBy(outer, who.key) {
		next.ServeHTTP(w, r)
		return
	}
	var body *buffer
	if m.o.Limit.BodyTime > 0 || m.o.Limit.Bodies != nil {
		body, p = m.readBodyInTime(w, r)
	} else {
		body, p = readBody(r, m.o.Limit.Body, nil)
	}
	if p != nil {
		if r.ProtoMajor == 1 { // under HTTP/2 this would end every request on the connection
			w.Header().Set("Connection", "close") // the rest of the body is not read
		}
		m.Problem(w, r, p)
		return
	}
	defer body.free()
	if m.age != nil && !m.age.field.InHeader() {
		if p := m.age.check(r, body.b); p != nil {
			m.Problem(w, r, p)
			return
		}
	}
	x := guardedCalls.Get().(*guardedCall) //nolint:errcheck // the pool has nothing else
	defer func() {
		*x = guardedCall{}
		guardedCalls.Put(x)
	}()
	if who.id == "" {
		switch p := m.setKeyFromBody(r, lines, body.b, &who, x); {
		case p != nil:
			m.Problem(w, r, p)
			return
		case who.id == "" || inside && m.isHeldBy(outer, who.key):
			m.passUnguarded(w, r, next, body)
			return
		}
	}
	m.claimKey(w, r, next, &who, body, x)
}

// claimKey claims the key of a request, and runs next or answers in its place.
func (m *Middleware) claimKey(w http.ResponseWriter, r *http.Request, next http.Handler, who *requester, body *buffer, x *guardedCall) {
	m.addCallOptions(r, who, body.b, x)
	var a *retrysafe.Attempt
	var p *Problem
	var err error
	if m.o.Ready != nil || m.o.Admit != nil {
		a, p, err = m.beginIfAdmitted(r, who.key, x)
	} else {
		a, err = m.engine.BeginTo(r.Context(), who.key, &x.record, x.options...)
	}
	busy := m.o.Answer.InProgress != nil && errors.Is(err, retrysafe.ErrInProgress)
	if err != nil && p == nil && !busy {
		p = m.refusalProblem(r, who.tenant, err)
	}
	switch {
	case p != nil:
		m.Problem(w, r, p)
	case busy:
		m.o.Answer.InProgress.send(w)
	case a == nil:
		m.replayRecord(w, r, &x.record)
	default:
		m.runHandler(w, r, next, a, body, who.id)
	}
}

// addCallOptions sets what the engine compares and counts: the fingerprint, the account and the
// binding.
func (m *Middleware) addCallOptions(r *http.Request, who *requester, body []byte, x *guardedCall) {
	switch {
	case strings.HasPrefix(who.id, derivedMark):
	case m.keyDeriver != nil: // RequestOptions.Rule also applies to a request that sends a key
		m.keyDeriver.addFingerprint(r, body, x)
	case m.fingerprintRule != nil:
		x.fingerprint = m.fingerprintRule.digest(r, body)
		x.addOption(retrysafe.WithRuleFingerprint(m.fingerprintRule.ruleNumber, x.fingerprint[:]))
	default:
		x.fingerprint = payloadDigest(r, r.URL.RawQuery, body)
		x.addOption(retrysafe.WithFingerprint(x.fingerprint[:]))
	}
	x.addOption(retrysafe.Detached())
	if l := &m.policy.Limits; m.account != nil && (l.Live > 0 || l.PerSecond > 0 || l.Bytes > 0) {
		x.addOption(retrysafe.WithAccount(m.account(r)))
	}
	if m.o.Binding != nil {
		x.addOption(retrysafe.WithBinding(m.o.Binding(r)))
	}
	if m.o.Key == Token {
		x.addOption(m.redeemToken(who.tenant, who.id))
	}
}

// refusalProblem returns the problem for an error of the engine.
func (m *Middleware) refusalProblem(r *http.Request, tenant string, err error) *Problem {
	p := problemOf(err, m.policy.Duplicate == retrysafe.Reject)
	if p.Code == "principal-changed" {
		p = m.bindingChangedProblem(tenant, r, err)
	}
	if m.o.Key == Fields && p.Code == "payload-mismatch" {
		p.Title, p.Detail = "This was asked for before, in another way", "Its key is made of fields that an earlier request had too. Nothing was done."
	}
	return p
}

// bindingChangedProblem returns the problem for a duplicate with another binding.
func (m *Middleware) bindingChangedProblem(tenant string, r *http.Request, err error) *Problem {
	if m.o.Credentials != nil && tenant == "" && r.Header.Get("Authorization") == "" {
		return problemFor(retrysafe.CodeCookiesChanged, err)
	}
	return problemFor(retrysafe.CodePrincipalChanged, err)
}

// setKeyFromBody sets the id and the key of who by the body, where the key may be or of which it is
// made. lines are those of the header. The id stays empty if there is no key and none is needed.
func (m *Middleware) setKeyFromBody(r *http.Request, lines []string, body []byte, who *requester, x *guardedCall) (p *Problem) {
	var id string
	switch {
	case m.keyDeriver != nil:
		id, p = m.keyDeriver.derive(r, body, x)
	case m.mayHaveFieldKey(r):
		id, p = m.fieldKey(r, lines, body)
	default:
		id, p = m.formKey(r.Header, body)
	}
	if p != nil || id == "" {
		return p
	}
	return m.setKey(r, who, id)
}

// passUnguarded runs next without a guard for a request whose body has been read.
func (m *Middleware) passUnguarded(w http.ResponseWriter, r *http.Request, next http.Handler, body *buffer) {
	r = r.WithContext(r.Context())
	r.Body = body.requestBody()
	next.ServeHTTP(w, r)
}

// guardedCall holds what a guarded request needs until the engine has decided whether it runs.
// Neither the engine nor a handler keeps a reference to it, so it can be reused.
type guardedCall struct {
	fingerprint [sha256.Size]byte
	options     []retrysafe.CallOption // in room
	optionSpace [5]retrysafe.CallOption
	record      retrysafe.Record
}

func (x *guardedCall) addOption(o retrysafe.CallOption) {
	if x.options == nil {
		x.options = x.optionSpace[:0]
	}
	x.options = append(x.options, o)
}

var guardedCalls = sync.Pool{New: func() any { return new(guardedCall) }}

// isKnownKey reports whether the key is in progress or finished. A duplicate of such a key is
// answered whatever the limits are.
func (m *Middleware) isKnownKey(r *http.Request, key retrysafe.Key) bool {
	rec, err := m.engine.Lookup(r.Context(), key)
	return err == nil && (rec.State == retrysafe.StateInProgress || rec.State.Finished())
}

// notReadyProblem returns the problem if the service is not ready, as Options.Ready says, or nil.
func (m *Middleware) notReadyProblem(r *http.Request) *Problem {
	if m.o.Ready == nil {
		return nil
	}
	if err := m.o.Ready(r.Context()); err != nil {
		return problemFor(retrysafe.CodeStoreUnavailable, err).WithRetryAfter(time.Second)
	}
	return nil
}

// beginIfAdmitted claims the key if Options.Ready and Options.Admit let the request through.
func (m *Middleware) beginIfAdmitted(r *http.Request, key retrysafe.Key, x *guardedCall) (a *retrysafe.Attempt, refused *Problem, err error) {
	if p := m.notReadyProblem(r); p != nil {
		return nil, p, nil
	}
	if m.o.Admit != nil {
		begun, refused := m.o.Admit(r)
		if refused != nil && !m.isKnownKey(r, key) {
			return nil, refused, nil
		}
		if begun != nil {
			defer func() { begun(a != nil) }() // also if BeginTo panics
		}
	}
	a, err = m.engine.BeginTo(r.Context(), key, &x.record, x.options...)
	return a, nil, err
}
