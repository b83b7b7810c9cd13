package httpidem

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// run lets the handler work, under a context that does not end when the client hangs up.
func (m *Middleware) run(w http.ResponseWriter, r *http.Request, next http.Handler, a *retrysafe.Attempt, body *buffer, id string) {
	inner := r.WithContext(a.Context())
	inner.Header = maps.Clone(r.Header)
	inner.Header["Accept-Encoding"] = identity // a repeat may not accept what the first one did
	if strings.HasPrefix(id, madeMark) {
		// those behind can tell the repeat by it, too; another caller's, or a later one, has
		// another
		for _, name := range m.o.KeyHeader {
			delete(inner.Header, name)
		}
		inner.Header[m.o.KeyHeader[0]] = []string{a.KeyFor(forwarded)}
	}
	inner.Body, inner.ContentLength, inner.GetBody = body.body(), int64(len(body.bytes())), nil
	inner.TransferEncoding = nil
	m.work(newCapture(m, w, r), inner, next, a)
}

// work lets next make the answer that c takes, and settles the attempt by it.
func (m *Middleware) work(c *capture, inner *http.Request, next http.Handler, a *retrysafe.Attempt) {
	c.attempt, c.inner = a, inner
	defer func() {
		c.crash()
		if !a.Ended() && !c.detached { // a panic or Goexit is on its way up; it is not stopped
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
	_ = a.Doubt(ctx, errHandlerCrashed)
}

// settle records what the handler did, and then sends the answer: one that a client has seen whole
// is one that is kept.
func (m *Middleware) settle(c *capture) {
	a, ctx := c.attempt, c.r.Context()
	if a.Ended() || c.detached { // the handler has settled it itself, or will
		c.send(false)
		return
	}
	var err error
	switch m.classify(c) {
	case retrysafe.NotDone:
		var why error
		if c.outcome == "not-executed" {
			why = errNotExecuted // believed also of an attempt that was lost
		}
		_ = a.Release(ctx, why) // what cannot be released lapses
		c.send(false)
		return
	case retrysafe.Doubtful:
		_ = a.Doubt(ctx, nil)
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
		m.refuse(c, NewProblem("lease-lost", err).RetryAfter(time.Second))
	case errors.Is(err, retrysafe.ErrStepsChanged):
		// what the handler says is not the end of what an earlier attempt began
		m.refuse(c, NewProblem("outcome-unknown", err))
	default:
		// The store will not have the answer, and says so: the work is done, and a repeat finds it
		// in doubt.
		c.send(true)
	}
}

// refuse gives a problem in place of the handler's answer; where that is under way already, the
// connection is cut.
func (m *Middleware) refuse(c *capture, p *Problem) {
	if c.hijacked {
		return // the connection is the handler's
	}
	if c.streaming {
		panic(http.ErrAbortHandler)
	}
	c.restore()
	m.Problem(c.w, c.r, p)
}

// notRun are the answers that handlers give before they act; one that may come after says
// "Idempotency-Outcome: executed".
var notRun = []int{401, 403, 407, 408, 409, 421, 423, 425, 429}

// classify says what the answer means for the key.
func (m *Middleware) classify(c *capture) retrysafe.Outcome {
	refuse := m.policy.OnDoubt == retrysafe.Refuse
	if c.hijacked {
		return retrysafe.Done
	}
	if c.outcome == "not-executed" {
		return retrysafe.NotDone
	}
	if m.o.Keep != nil {
		switch o := m.o.Keep(c.status, c.header); {
		case o == retrysafe.NotDone && refuse && !slices.Contains(notRun, c.status):
			return retrysafe.Doubtful
		case o != 0:
			return o
		}
	}
	if c.outcome == "executed" {
		return retrysafe.Done
	}
	if slices.Contains(notRun, c.status) {
		return retrysafe.NotDone
	}
	if c.status >= 500 && (m.o.After5xx == ReleaseIt || m.o.After5xx == Auto && !refuse) {
		return retrysafe.NotDone
	}
	return retrysafe.Done
}
