package connectidem

import (
	"context"
	"errors"
	"maps"
	"os"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// typeURL is the prefix of the type name of a detail on the wire.
const typeURL = "type.googleapis.com/"

// asError returns a refusal as an error of Connect.
func asError(r *rpcidem.Refusal) error {
	err := connect.NewError(connect.Code(r.Code), errors.New(r.Message))
	addDetail(err, &errdetails.ErrorInfo{Reason: r.Reason, Domain: rpcidem.Domain})
	if r.RetryAfter > 0 {
		addDetail(err, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	return err
}

func addDetail(err *connect.Error, m proto.Message) {
	if d, e := connect.NewErrorDetail(m); e == nil {
		err.AddDetail(d)
	}
}

// statusOf returns the status that Connect would use for a method's error.
func statusOf(err error) *spb.Status {
	if e, ok := errors.AsType[*connect.Error](err); ok && e != nil {
		st := &spb.Status{Code: int32(e.Code()), Message: e.Message()} //nolint:gosec // a code
		for _, d := range e.Details() {
			st.Details = append(st.Details, &anypb.Any{TypeUrl: typeURL + d.Type(), Value: d.Bytes()})
		}
		return st
	}
	code := connect.CodeUnknown
	switch {
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	}
	return &spb.Status{Code: int32(code), Message: err.Error()}
}

// errorOf returns the error of a stored status.
func errorOf(st *spb.Status) *connect.Error {
	err := connect.NewError(connect.Code(st.GetCode()), errors.New(st.GetMessage())) //nolint:gosec // a code
	for _, d := range st.GetDetails() {
		addDetail(err, d)
	}
	return err
}

// withMeta gives err the header fields of the error that it replaces.
func withMeta(err *connect.Error, of error) error {
	if e, ok := errors.AsType[*connect.Error](of); ok && e != nil {
		maps.Copy(err.Meta(), e.Meta())
	}
	return err
}

// parseFailure parses the error of a call.
func parseFailure(err error) *rpcidem.Failure {
	e, ok := errors.AsType[*connect.Error](err)
	if !ok || e == nil {
		return &rpcidem.Failure{Code: rpcidem.Code(statusOf(err).GetCode())} //nolint:gosec // a code
	}
	f := &rpcidem.Failure{Code: rpcidem.Code(e.Code())}
	for _, detail := range e.Details() {
		m, err := detail.Value()
		if err != nil {
			continue
		}
		switch d := m.(type) {
		case *errdetails.ErrorInfo:
			f.Info(d.GetDomain(), d.GetReason())
		case *errdetails.RetryInfo:
			if delay := d.GetRetryDelay(); delay.IsValid() {
				f.Delay(delay.AsDuration())
			}
		}
	}
	return f
}

// Reason returns the reason of a refusal of package rpcidem. It returns false for any other error.
func Reason(err error) (string, bool) {
	if err == nil {
		return "", false
	}
	return parseFailure(err).Refused()
}
