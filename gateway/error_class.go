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

// unwell is the status of a bad answer to a check.
type unwell int

func (e unwell) Error() string { return http.StatusText(int(e)) }
