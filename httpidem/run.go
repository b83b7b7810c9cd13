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

// runHandler runs the handler, under a context that does not end when the client hangs up.
func (m *Middleware) runHandler(w http.ResponseWriter, r *http.Request, next http.Handler, a *retrysafe.Attempt, body *buffer, id string) {
	inner := r.WithContext(a.Context())
	inner.Header = maps.Clone(r.Header)
	// a duplicate may not accept the coding that the first request did
	inner.Header["Accept-Encoding"] = identityCoding
	if strings.HasPrefix(id, derivedMark) {
		// inner services can recognise duplicates by this key. Another caller, or a later request,
		// has another key.
		for _, name := range m.o.KeySource.Header {
			delete(inner.Header, name)
		}
		inner.Header[m.o.KeySource.Header[0]] = []string{a.KeyFor(forwardedKeyName)}
	}
	inner.Body, inner.ContentLength, inner.GetBody = body.requestBody(), int64(len(body.b)), nil
	inner.TransferEncoding = nil
	m.serveAndFinish(newCapture(m, w, r), inner, next, a)
}

// serveAndFinish runs next with c as its ResponseWriter, and finishes the attempt by the answer.
func (m *Middleware) serveAndFinish(c *capture, inner *http.Request, next http.Handler, a *retrysafe.Attempt) {
	c.attempt, c.innerRequest = a, inner
	defer func() {
		if !c.closed { // a panic or Goexit is under way; it is not stopped
			c.closeAfterCrash()
		}
		if !a.Ended() && !c.detached {
			m.finishCrashed(inner.Context(), a)
		}
		c.body.free()
		if c.head != nil {
			c.head.free()
		}
	}()
	next.ServeHTTP(c, inner)
	c.close()
	m.finishAndSend(c)
}

var identityCoding = []string{"identity"}

var errNotExecuted = retrysafe.NothingDone(errors.New("the handler says that nothing was done"))

var errHandlerCrashed = errors.New("the handler panicked or ended its goroutine")

func (m *Middleware) finishCrashed(ctx context.Context, a *retrysafe.Attempt) {
	if m.policy.OnDoubt == retrysafe.Reexecute {
		_ = a.Release(ctx, errHandlerCrashed)
		return
	}
	_ = a.LeaveInDoubt(ctx, errHandlerCrashed)
}

// finishAndSend records what the handler did, and then sends the answer: an answer that a client
// has received in full is stored.
func (m *Middleware) finishAndSend(c *capture) {
	a, ctx := c.attempt, c.r.Context()
	if a.Ended() || c.detached { // the handler has finished the attempt itself, or will
		c.sendAnswer(false)
		return
	}
	switch m.classifyAnswer(c) {
	case retrysafe.NotDone:
		var why error
		if c.outcome == "not-executed" {
			why = errNotExecuted // accepted even if the lease was lost
		}
		_ = a.Release(ctx, why) // if the release fails, the lease expires
		c.sendAnswer(false)
		return
	case retrysafe.Doubtful:
		_ = a.LeaveInDoubt(ctx, nil)
		c.sendAnswer(false)
		return
	}
	switch err := a.Complete(ctx, c.storedAnswer()); {
	case err == nil:
		c.sendAnswer(false)
	case errors.Is(err, retrysafe.ErrUnconfirmed):
		c.sendAnswer(true)
	case errors.Is(err, retrysafe.ErrLeaseLost):
		m.replaceWithProblem(c, problemFor(retrysafe.CodeLeaseLost, err).WithRetryAfter(time.Second))
	case errors.Is(err, retrysafe.ErrStepsChanged):
		// the handler's answer does not finish what an earlier attempt began
		m.replaceWithProblem(c, problemFor(retrysafe.CodeOutcomeUnknown, err))
	default:
		// The store refuses the answer. The work is done, and a duplicate gets "in doubt".
		c.sendAnswer(true)
	}
}

// replaceWithProblem answers with a problem in place of the handler's answer. If that is already
// being sent, it cuts the connection.
func (m *Middleware) replaceWithProblem(c *capture, p *Problem) {
	if c.hijacked {
		return // the handler owns the connection
	}
	if c.streaming {
		panic(http.ErrAbortHandler)
	}
	c.restoreHeader()
	m.Problem(c.w, c.r, p)
}

// Detach lets a guarded handler answer its client now and finish its work later. What the handler
// writes until it returns is sent to the client and not stored. The attempt stays alive, its lease
// extended, until MaxRun. Call finish exactly once: h writes the answer that is stored, or finishes
// the attempt itself, in place of the handler that has returned. No client gets that answer
// directly; duplicates get 409 in-progress until then. The body of the request that h gets has
// already been read. w may be wrapped if it has Unwrap.
//
// ok is false if the request is not guarded.
func Detach(w http.ResponseWriter) (finish func(h http.Handler), ok bool) {
	c := captureOf(w)
	if c == nil {
		return nil, false
	}
	c.detached = true
	laterCapture := newCapture(c.m, discardWriter{}, c.r)
	m, inner, a := c.m, c.innerRequest, c.attempt
	return func(h http.Handler) {
		defer func() {
			// http.ErrAbortHandler tells a client that the answer is incomplete, and here is no
			// client.
			if p := recover(); p != nil {
				if err, is := p.(error); !is || !errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
			}
		}()
		m.serveAndFinish(laterCapture, inner, h, a)
	}, true
}

func captureOf(w http.ResponseWriter) *capture {
	for {
		switch x := w.(type) {
		case *capture:
			return x
		case interface{ Unwrap() http.ResponseWriter }:
			w = x.Unwrap()
		default:
			return nil
		}
	}
}

// discardWriter is the ResponseWriter of a client that has gone.
type discardWriter http.Header

func (n discardWriter) Header() http.Header       { return http.Header(n) }
func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (discardWriter) WriteHeader(int)             {}
