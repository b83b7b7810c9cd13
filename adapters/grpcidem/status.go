package grpcidem

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// asStatus returns a refusal as an error of gRPC.
func asStatus(r *rpcidem.Refusal) error {
	st := status.New(codes.Code(r.Code), r.Message)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: r.Reason, Domain: rpcidem.Domain}}
	if r.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	if whole, err := st.WithDetails(details...); err == nil {
		st = whole
	}
	return st.Err()
}

// statusOf returns the status that gRPC would use for a method's error.
func statusOf(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err)
	}
	return status.New(codes.Unknown, err.Error())
}

// withText returns a status whose message is UTF-8, as protocol buffers need it.
func withText(st *status.Status) *status.Status {
	own := st.Proto() // a copy
	own.Message = strings.ToValidUTF8(own.GetMessage(), "\ufffd")
	return status.FromProto(own)
}

// parseFailure parses the error of a call.
func parseFailure(err error) *rpcidem.Failure {
	st := status.Convert(err)
	f := &rpcidem.Failure{Code: rpcidem.Code(st.Code())}
	for _, d := range st.Details() {
		switch d := d.(type) {
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
	return parseFailure(err).Refused()
}
