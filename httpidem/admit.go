package httpidem

import (
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
)

// known reports whether the key is in progress or finished. A duplicate of such a key is answered
// whatever the limits are.
func (m *Middleware) known(r *http.Request, key retrysafe.Key) bool {
	rec, err := m.engine.Lookup(r.Context(), key)
	return err == nil && (rec.State == retrysafe.StateInProgress || rec.State.Finished())
}

// notReady returns the problem of Options.Ready, or nil.
func (m *Middleware) notReady(r *http.Request) *Problem {
	if m.o.Ready == nil {
		return nil
	}
	if err := m.o.Ready(r.Context()); err != nil {
		return problemFor(retrysafe.CodeStoreUnavailable, err).WithRetryAfter(time.Second)
	}
	return nil
}

// begin claims the key if the request is admitted.
func (m *Middleware) begin(r *http.Request, key retrysafe.Key, x *claim) (a *retrysafe.Attempt, refused *Problem, err error) {
	if p := m.notReady(r); p != nil {
		return nil, p, nil
	}
	if m.o.Admit == nil {
		a, err = m.engine.BeginTo(r.Context(), key, &x.found, x.opts[:]...)
		return a, nil, err
	}
	begun, refused := m.o.Admit(r)
	if refused != nil && !m.known(r, key) {
		return nil, refused, nil
	}
	if begun == nil {
		begun = func(bool) {}
	}
	defer func() { begun(a != nil) }() // also if BeginTo panics
	a, err = m.engine.BeginTo(r.Context(), key, &x.found, x.opts[:]...)
	return a, nil, err
}
