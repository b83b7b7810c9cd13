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

// doubtError is why an outcome is unknown; cause is one word for the record.
type doubtError struct {
	cause string
	err   error
}

func (d *doubtError) Error() string        { return d.cause + ": " + d.err.Error() }
func (d *doubtError) Unwrap() error        { return d.err }
func (d *doubtError) InDoubtCause() string { return d.cause }

// finishUnanswered finishes a request that got no answer, and answers the client.
func (g *sender) finishUnanswered(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, x *exchange) {
	if !x.sent {
		g.releaseUnsent(w, r, a, x)
		return
	}
	why, status := &doubtError{cause: "reset", err: x.err}, statusFor(x.err)
	switch {
	case errors.Is(x.err, retrysafe.ErrClosed):
		why.cause = "shutdown"
	case errors.Is(x.err, retrysafe.ErrMaxRun):
		why.cause = "bound"
	case errors.Is(x.err, retrysafe.ErrLeaseLost):
		why.cause = "lease-lost"
	case status == http.StatusGatewayTimeout:
		why.cause = "timeout"
	case x.delivery.Answered() && !isConnectionError(x.err):
		why.cause = "garbage"
	}
	g.finishInDoubt(r, a, why)
	g.middleware.Problem(w, r, outcomeUnknownProblem(a, why, status))
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

// outcomeUnknownProblem is the answer to a request whose outcome is unknown.
func outcomeUnknownProblem(a *retrysafe.Attempt, cause error, status int) *httpidem.Problem {
	p := httpidem.NewProblem("outcome-unknown", cause).WithStatus(status)
	if a.Policy().OnDoubt == retrysafe.Reexecute {
		p.Detail = "It may have taken effect. A retry with the same key runs it again once the lease of this attempt has expired."
	}
	return p
}

// releaseUnsent releases the key.
func (g *sender) releaseUnsent(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, x *exchange) {
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
		g.logger.Warn("upstream cannot be reached; nothing was sent", "method", r.Method, "path", r.URL.EscapedPath(), "cause", errorClass(x.err))
	}
	_ = a.Release(r.Context(), retrysafe.NothingDone(why))
	g.middleware.Problem(w, r, httpidem.NewProblem(code, why).WithRetryAfter(time.Second))
}

// finishInDoubt finishes an attempt that may have taken effect.
func (g *Gateway) finishInDoubt(r *http.Request, a *retrysafe.Attempt, why *doubtError) {
	g.logger.Warn("outcome unknown", "method", r.Method, "path", r.URL.EscapedPath(), "cause", why.cause, "attempt", a.Number(),
		"key_hash", a.KeyHash(), "error", errorClass(why.err))
	if a.Policy().OnDoubt == retrysafe.Reexecute {
		a.Lapse(why)
		return
	}
	_ = a.LeaveInDoubt(r.Context(), why)
}
