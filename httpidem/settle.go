package httpidem

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// run runs the handler, under a context that does not end when the client hangs up.
func (m *Middleware) run(w http.ResponseWriter, r *http.Request, next http.Handler, a *retrysafe.Attempt, body *buffer, id string) {
	inner := r.WithContext(a.Context())
	inner.Header = maps.Clone(r.Header)
	// a duplicate may not accept the coding that the first request did
	inner.Header["Accept-Encoding"] = identity
	if strings.HasPrefix(id, madeMark) {
		// inner services can recognise duplicates by this key. Another caller, or a later request,
		// has another key.
		for _, name := range m.o.KeySource.Header {
			delete(inner.Header, name)
		}
		inner.Header[m.o.KeySource.Header[0]] = []string{a.KeyFor(forwarded)}
	}
	inner.Body, inner.ContentLength, inner.GetBody = body.body(), int64(len(body.bytes())), nil
	inner.TransferEncoding = nil
	m.work(newCapture(m, w, r), inner, next, a)
}

// work runs next with c as its ResponseWriter, and finishes the attempt by the answer.
func (m *Middleware) work(c *capture, inner *http.Request, next http.Handler, a *retrysafe.Attempt) {
	c.attempt, c.inner = a, inner
	defer func() {
		c.crash()
		if !a.Ended() && !c.detached { // a panic or Goexit is under way; it is not stopped
			m.crashed(inner.Context(), a)
		}
		c.free()
	}()
	next.ServeHTTP(c, inner)
	c.close()
	m.settle(c)
}

var identity = []string{"identity"}

var errNotExecuted = retrysafe.NothingDone(errors.New("the handler says that nothing was done"))

var errHandlerCrashed = errors.New("the handler panicked or ended its goroutine")

func (m *Middleware) crashed(ctx context.Context, a *retrysafe.Attempt) {
	if m.policy.OnDoubt == retrysafe.Reexecute {
		_ = a.Release(ctx, errHandlerCrashed)
		return
	}
	_ = a.LeaveInDoubt(ctx, errHandlerCrashed)
}

// settle records what the handler did, and then sends the answer: an answer that a client has
// received in full is stored.
func (m *Middleware) settle(c *capture) {
	a, ctx := c.attempt, c.r.Context()
	if a.Ended() || c.detached { // the handler has finished the attempt itself, or will
		c.send(false)
		return
	}
	var err error
	switch m.classify(c) {
	case retrysafe.NotDone:
		var why error
		if c.outcome == "not-executed" {
			why = errNotExecuted // accepted even if the lease was lost
		}
		_ = a.Release(ctx, why) // if the release fails, the lease expires
		c.send(false)
		return
	case retrysafe.Doubtful:
		_ = a.LeaveInDoubt(ctx, nil)
		c.send(false)
		return
	default:
		err = a.Complete(ctx, c.stored())
	}
	switch {
	case err == nil:
		c.send(false)
	case errors.Is(err, retrysafe.ErrUnconfirmed):
		c.send(true)
	case errors.Is(err, retrysafe.ErrLeaseLost):
		m.refuse(c, problemFor(retrysafe.CodeLeaseLost, err).WithRetryAfter(time.Second))
	case errors.Is(err, retrysafe.ErrStepsChanged):
		// the handler's answer does not finish what an earlier attempt began
		m.refuse(c, problemFor(retrysafe.CodeOutcomeUnknown, err))
	default:
		// The store refuses the answer. The work is done, and a duplicate gets "in doubt".
		c.send(true)
	}
}

// refuse answers with a problem in place of the handler's answer. If that is already being sent, it
// cuts the connection.
func (m *Middleware) refuse(c *capture, p *Problem) {
	if c.hijacked {
		return // the handler owns the connection
	}
	if c.streaming {
		panic(http.ErrAbortHandler)
	}
	c.restore()
	m.Problem(c.w, c.r, p)
}
