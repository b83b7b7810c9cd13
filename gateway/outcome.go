package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/h1client"
	"github.com/retrysafe/retrysafe/httpidem"
)

// doubt is why an outcome is unknown; cause is one word for the record.
type doubt struct {
	cause string
	err   error
}

func (d *doubt) Error() string      { return d.cause + ": " + d.err.Error() }
func (d *doubt) Unwrap() error      { return d.err }
func (d *doubt) DoubtCause() string { return d.cause }

// failed finishes a request that got no answer, and answers the client.
func (g *sender) failed(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, x *exchange) {
	if !x.sent {
		g.notSent(w, r, a, x)
		return
	}
	why := &doubt{cause: "reset", err: x.err}
	status := http.StatusGatewayTimeout
	switch {
	case errors.Is(x.err, retrysafe.ErrClosed):
		why.cause = "shutdown"
	case errors.Is(x.err, retrysafe.ErrBound):
		why.cause = "bound"
	case errors.Is(x.err, retrysafe.ErrLeaseLost):
		why.cause = "lease-lost"
	case errors.Is(x.err, context.DeadlineExceeded), errors.Is(x.err, context.Canceled):
		why.cause = "timeout"
	case x.delivery.Answered() && !broken(x.err):
		why.cause, status = "garbage", http.StatusBadGateway
	}
	g.unknown(r, a, why)
	g.middleware.Problem(w, r, outcomeUnknown(a, why, status))
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
		g.middleware.Problem(w, r, httpidem.NewProblem("lease-lost", why).RetryAfter(time.Second))
		return
	}
	code := "store-unavailable"
	if x.delivery.Stopped() == nil {
		code = "upstream-unreachable"
		g.logger.Warn("upstream cannot be reached; nothing was sent", "method", r.Method, "path", r.URL.EscapedPath(), "cause", class(x.err))
	}
	_ = a.Release(r.Context(), retrysafe.NothingDone(why))
	g.middleware.Problem(w, r, httpidem.NewProblem(code, why).RetryAfter(time.Second))
}

// unknown finishes an attempt that may have taken effect.
func (g *Gateway) unknown(r *http.Request, a *retrysafe.Attempt, why *doubt) {
	g.logger.Warn("outcome unknown", "method", r.Method, "path", r.URL.EscapedPath(), "cause", why.cause, "attempt", a.N(), "error", class(why.err))
	if a.Policy().OnDoubt == retrysafe.Reexecute {
		a.Lapse(why)
		return
	}
	_ = a.Doubt(r.Context(), why)
}

// class describes an error for the log: the text of some errors contains parts of the upstream's
// answer.
func class(err error) string {
	var op *net.OpError
	var status unwell
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("it answers %d", int(status))
	case errors.Is(err, retrysafe.ErrClosed):
		return "the gateway ends"
	case errors.Is(err, retrysafe.ErrBound):
		return "max_run has passed"
	case errors.Is(err, retrysafe.ErrLeaseLost):
		return "the lease could not be extended"
	case errors.Is(err, context.DeadlineExceeded):
		return "time-out"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &op):
		return op.Error() // addresses and system calls
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	case h1client.Refused(err), h1client.GoneAway(err):
		return "refused by the service"
	}
	switch inner := err.(type) { //nolint:errorlint // one layer after the other
	case interface{ Unwrap() []error }:
		if all := inner.Unwrap(); len(all) > 0 {
			return class(all[0])
		}
	case interface{ Unwrap() error }:
		if one := inner.Unwrap(); one != nil {
			return class(one)
		}
	}
	return fmt.Sprintf("%T", err)
}

// broken reports whether a connection broke, in contrast to an invalid answer.
func broken(err error) bool {
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.As(err, &netErr)
}
