package httpidem

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// inside reports whether an outer guard holds the same key. This guard would wait for it for ever.
func (m *Middleware) inside(r *http.Request, key retrysafe.Key) bool {
	a, ok := retrysafe.AttemptFrom(r.Context())
	return ok && a.Layer() == m.layer && a.Key() == key
}

// guard runs next at most once per key.
func (m *Middleware) guard(w http.ResponseWriter, r *http.Request, next http.Handler, lines []string) {
	head := lines
	if m.mayBeInField(r) {
		head = nil // the body is looked at first
	}
	who, p := m.identify(r, head)
	if p != nil {
		m.Problem(w, r, p)
		return
	}
	if m.inside(r, who.key) {
		next.ServeHTTP(w, r)
		return
	}
	body, p := m.readBodyIn(w, r)
	if p != nil {
		if r.ProtoMajor == 1 { // under HTTP/2 this would end every request on the connection
			w.Header().Set("Connection", "close") // the rest of the body is not read
		}
		m.Problem(w, r, p)
		return
	}
	defer body.free()
	if m.age != nil && !m.age.field.InHeader() {
		if p := m.age.check(r, body.bytes()); p != nil {
			m.Problem(w, r, p)
			return
		}
	}
	x := claims.Get().(*claim) //nolint:errcheck // the pool has nothing else
	defer x.free()
	if who.id == "" {
		switch p := m.nameFromBody(r, lines, body.bytes(), &who, x); {
		case p != nil:
			m.Problem(w, r, p)
			return
		case who.id == "" || m.inside(r, who.key):
			m.pass(w, r, next, body)
			return
		}
	}
	m.claim(w, r, next, &who, body, x)
}

// claim claims the key of a request, and runs next or answers in its place.
func (m *Middleware) claim(w http.ResponseWriter, r *http.Request, next http.Handler, who *asker, body *buffer, x *claim) {
	m.describe(r, who, body.bytes(), x)
	a, p, err := m.begin(r, who.key, x)
	busy := m.o.Answer.InProgress != nil && errors.Is(err, retrysafe.ErrInProgress)
	if err != nil && p == nil && !busy {
		p = m.refused(r, who.tenant, err)
	}
	switch {
	case p != nil:
		m.Problem(w, r, p)
	case busy:
		m.o.Answer.InProgress.send(w)
	case a == nil:
		m.replay(w, r, &x.found)
	default:
		m.run(w, r, next, a, body, who.id)
	}
}

// describe sets what the engine compares and counts: the fingerprint, the account and the binding.
func (m *Middleware) describe(r *http.Request, who *asker, body []byte, x *claim) {
	switch {
	case strings.HasPrefix(who.id, madeMark):
	case m.maker != nil: // RequestOptions.Rule also applies to a request that sends a key
		m.maker.print(r, body, &x.call)
	case m.meaning != nil:
		x.print = m.meaning.sum(r, body)
		x.call.Fingerprint, x.call.FingerprintRule = x.print[:], m.meaning.mark
	default:
		x.print = payloadSum(r, body)
		x.call.Fingerprint = x.print[:]
	}
	x.call.Detached = true
	if l := &m.policy.Limits; m.account != nil && (l.Live > 0 || l.PerSecond > 0 || l.Bytes > 0) {
		x.call.Account = m.account(r)
	}
	if m.o.Binding != nil {
		x.call.Binding = m.o.Binding(r)
	}
	if m.o.Key == Token {
		m.redeem(who.tenant, who.id, &x.call)
	}
	x.opts[0] = &x.call
}

// refused returns the problem for an error of the engine.
func (m *Middleware) refused(r *http.Request, tenant string, err error) *Problem {
	p := problemOf(err, m.policy.Duplicate == retrysafe.Reject)
	if p.Code == "principal-changed" {
		p = m.changed(tenant, r, err)
	}
	if m.o.Key == Fields && p.Code == "payload-mismatch" {
		p.Title, p.Detail = "This was asked for before, in another way", "Its key is made of fields that an earlier request had too. Nothing was done."
	}
	return p
}

// changed returns the problem for a duplicate with another binding.
func (m *Middleware) changed(tenant string, r *http.Request, err error) *Problem {
	if m.o.Credentials != nil && tenant == "" && r.Header.Get("Authorization") == "" {
		return problemFor(retrysafe.CodeCookiesChanged, err)
	}
	return problemFor(retrysafe.CodePrincipalChanged, err)
}

// nameFromBody sets the key of who by the body. It leaves it empty if there is none and none is
// needed.
func (m *Middleware) nameFromBody(r *http.Request, lines []string, body []byte, who *asker, x *claim) *Problem {
	id, p := m.fromBody(r, lines, body, &x.call)
	if p != nil || id == "" {
		return p
	}
	return m.name(r, who, id)
}

// fromBody finds or makes the key of a request that may have it in its body. lines are those of the
// header. The id is empty if there is no key and none is needed.
func (m *Middleware) fromBody(r *http.Request, lines []string, body []byte, c *retrysafe.Call) (id string, p *Problem) {
	switch {
	case m.maker != nil:
		return m.maker.make(r, body, c)
	case m.mayBeInField(r):
		return m.fieldKey(r, lines, body)
	}
	return m.formKey(r.Header, body)
}

// pass runs next without a guard for a request whose body has been read.
func (m *Middleware) pass(w http.ResponseWriter, r *http.Request, next http.Handler, body *buffer) {
	r = r.WithContext(r.Context())
	r.Body = body.body()
	next.ServeHTTP(w, r)
}

// claim holds what a guarded request needs until the engine has decided whether it runs. Neither
// the engine nor a handler keeps a reference to it, so it can be reused.
type claim struct {
	print [sha256.Size]byte
	call  retrysafe.Call
	opts  [1]retrysafe.CallOption
	found retrysafe.Record
}

var claims = sync.Pool{New: func() any { return new(claim) }}

func (x *claim) free() {
	*x = claim{}
	claims.Put(x)
}
