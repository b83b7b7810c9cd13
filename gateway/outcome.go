package gateway

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// doubt is why an outcome is unknown; cause is one word for the record.
type doubt struct {
	cause string
	err   error
}

func (d *doubt) Error() string        { return d.cause + ": " + d.err.Error() }
func (d *doubt) Unwrap() error        { return d.err }
func (d *doubt) InDoubtCause() string { return d.cause }

// failed finishes a request that got no answer, and answers the client.
func (g *sender) failed(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, x *exchange) {
	if !x.sent {
		g.notSent(w, r, a, x)
		return
	}
	why, status := &doubt{cause: "reset", err: x.err}, statusFor(x.err)
	switch {
	case errors.Is(x.err, retrysafe.ErrClosed):
		why.cause = "shutdown"
	case errors.Is(x.err, retrysafe.ErrMaxRun):
		why.cause = "bound"
	case errors.Is(x.err, retrysafe.ErrLeaseLost):
		why.cause = "lease-lost"
	case status == http.StatusGatewayTimeout:
		why.cause = "timeout"
	case x.delivery.Answered() && !broken(x.err):
		why.cause = "garbage"
	}
	g.unknown(r, a, why)
	g.middleware.Problem(w, r, outcomeUnknown(a, why, status))
}

// statusFor returns the status for a client whose request got no whole answer (RFC 9110, sections
// 15.6.3 and 15.6.5): 504 if it did not come in the time that there was, and 502 if it is broken.
func statusFor(err error) int {
	for _, ended := range []error{
		context.DeadlineExceeded, context.Canceled, retrysafe.ErrClosed, retrysafe.ErrMaxRun, retrysafe.ErrLeaseLost, syscall.ETIMEDOUT,
	} {
		if errors.Is(err, ended) {
			return http.StatusGatewayTimeout
		}
	}
	return http.StatusBadGateway
}

// outcomeUnknown is the answer to a request whose outcome is unknown.
func outcomeUnknown(a *retrysafe.Attempt, cause error, status int) *httpidem.Problem {
	p := httpidem.NewProblem("outcome-unknown", cause).WithStatus(status)
	if a.Policy().OnDoubt == retrysafe.Reexecute {
		p.Detail = "It may have taken effect. A retry with the same key runs it again once the lease of this attempt has expired."
	}
	return p
}

// notSent releases the key.
func (g *sender) notSent(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, x *exchange) {
	why := errors.Join(x.delivery.Stopped(), x.err)
	if errors.Is(why, retrysafe.ErrLeaseLost) {
		// Another caller owns the key, or this process could not renew its lease.
		_ = a.Release(r.Context(), retrysafe.NothingDone(why))
		g.middleware.Problem(w, r, httpidem.NewProblem("lease-lost", why).WithRetryAfter(time.Second))
		return
	}
	code := "store-unavailable"
	if x.delivery.Stopped() == nil {
		code = "upstream-unreachable"
		g.logger.Warn("upstream cannot be reached; nothing was sent", "method", r.Method, "path", r.URL.EscapedPath(), "cause", class(x.err))
	}
	_ = a.Release(r.Context(), retrysafe.NothingDone(why))
	g.middleware.Problem(w, r, httpidem.NewProblem(code, why).WithRetryAfter(time.Second))
}

// unknown finishes an attempt that may have taken effect.
func (g *Gateway) unknown(r *http.Request, a *retrysafe.Attempt, why *doubt) {
	g.logger.Warn("outcome unknown", "method", r.Method, "path", r.URL.EscapedPath(), "cause", why.cause, "attempt", a.Number(),
		"key_hash", a.KeyHash(), "error", class(why.err))
	if a.Policy().OnDoubt == retrysafe.Reexecute {
		a.Lapse(why)
		return
	}
	_ = a.LeaveInDoubt(r.Context(), why)
}
