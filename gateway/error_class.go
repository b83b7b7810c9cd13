package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/once"
)

// errorClass describes an error for the log: the text of some errors contains parts of the
// upstream's answer.
func errorClass(err error) string {
	var op *net.OpError
	var status unhealthyStatus
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("it answers %d", int(status))
	case errors.Is(err, retrysafe.ErrClosed):
		return "the gateway ends"
	case errors.Is(err, retrysafe.ErrMaxRun):
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
	case once.Refused(err), once.GoneAway(err):
		return "refused by the service"
	}
	switch inner := err.(type) { //nolint:errorlint // one layer after the other
	case interface{ Unwrap() []error }:
		if all := inner.Unwrap(); len(all) > 0 {
			return errorClass(all[0])
		}
	case interface{ Unwrap() error }:
		if one := inner.Unwrap(); one != nil {
			return errorClass(one)
		}
	}
	return fmt.Sprintf("%T", err)
}

// isConnectionError reports whether a connection broke, in contrast to an invalid answer.
func isConnectionError(err error) bool {
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.As(err, &netErr)
}

// unhealthyStatus is the status of a bad answer to a check.
type unhealthyStatus int

func (e unhealthyStatus) Error() string { return http.StatusText(int(e)) }
