package kratosidem

import (
	"context"
	stderrors "errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-kratos/kratos/v2/errors"
	httpstatus "github.com/go-kratos/kratos/v2/transport/http/status"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// The metadata of a refusal.
const (
	// DomainMetadata is [rpcidem.Domain]: the reason is one of package rpcidem.
	DomainMetadata = "domain"
	// DelayMetadata is how long to wait before a retry, in the format of time.ParseDuration. It is
	// set only if a retry is useful. A client respects it in any error.
	DelayMetadata = "retry_delay"
)

// kratosFailure is an error of Kratos with its status for gRPC: Kratos finds the one, gRPC the
// other.
type kratosFailure struct {
	grpcStatus  *status.Status
	kratosError *errors.Error
}

// Error returns the text of the error of Kratos.
func (f *kratosFailure) Error() string { return f.kratosError.Error() }

// Unwrap returns the error of Kratos.
func (f *kratosFailure) Unwrap() error { return f.kratosError }

// GRPCStatus returns the status for gRPC.
func (f *kratosFailure) GRPCStatus() *status.Status { return f.grpcStatus }

// asError returns a refusal as an error of Kratos.
func asError(r *rpcidem.Refusal) error {
	md := map[string]string{DomainMetadata: rpcidem.Domain}
	if r.RetryAfter > 0 {
		md[DelayMetadata] = r.RetryAfter.String()
	}
	st := status.New(codes.Code(r.Code), r.Message)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: r.Reason, Domain: rpcidem.Domain, Metadata: maps.Clone(md)}}
	if r.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	if whole, err := st.WithDetails(details...); err == nil {
		st = whole
	}
	return &kratosFailure{st, errors.New(httpstatus.FromGRPCCode(st.Code()), r.Reason, r.Message).WithMetadata(md)}
}

// statusOf returns the status that gRPC would use for a method's error.
func statusOf(err error) *status.Status {
	if st, ok := status.FromError(err); ok && st.Code() != codes.OK {
		return st
	}
	if stderrors.Is(err, context.Canceled) || stderrors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err)
	}
	return status.New(codes.Unknown, err.Error())
}

// storableError returns err with texts that are UTF-8, as protocol buffers need them. That is err
// itself if they are.
func storableError(err error) error {
	st, own := statusOf(err), errors.FromError(err)
	valid := utf8.ValidString(st.Message()) && utf8.ValidString(own.Message) && utf8.ValidString(own.Reason)
	for name, value := range own.Metadata {
		valid = valid && utf8.ValidString(name) && utf8.ValidString(value)
	}
	if valid {
		return err
	}
	text := func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
	md := make(map[string]string, len(own.Metadata))
	for name, value := range own.Metadata {
		md[text(name)] = text(value)
	}
	kept := errors.New(int(own.Code), text(own.Reason), text(own.Message)).WithMetadata(md)
	if _, ok := stderrors.AsType[*errors.Error](err); ok {
		return kept // its status for gRPC is made of it
	}
	whole := st.Proto()
	whole.Message = text(whole.GetMessage())
	return &kratosFailure{status.FromProto(whole), kept}
}

// codeForKey returns the code of a method's error for its key. Kratos has no code of gRPC for most
// HTTP statuses and uses Unknown, which stands for a crash. A status that blames the request is an
// answer and not a crash.
func codeForKey(err error) rpcidem.Code {
	code := rpcidem.Code(statusOf(err).Code())
	own, ok := stderrors.AsType[*errors.Error](err)
	switch {
	case !ok || code != rpcidem.Unknown:
		return code
	case httpidem.NotRun(int(own.Code)):
		return rpcidem.Unimplemented // which says the same of the key
	case own.Code == http.StatusLocked: // for the key it is a conflict, as 409 is
		return rpcidem.Aborted
	case own.Code >= 400 && own.Code < 500:
		return rpcidem.FailedPrecondition
	}
	return code
}

// parseFailure parses the error of a call.
func parseFailure(err error) *rpcidem.Failure {
	st := statusOf(err)
	f := &rpcidem.Failure{Code: rpcidem.Code(st.Code())}
	if isCutOff(err) {
		f.Code = rpcidem.Unavailable
		return f
	}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			f.Info(d.GetDomain(), d.GetReason())
			f.Info(d.GetMetadata()[DomainMetadata], d.GetReason())
			if after, err := time.ParseDuration(d.GetMetadata()[DelayMetadata]); err == nil {
				f.Delay(after)
			}
		case *errdetails.RetryInfo:
			if delay := d.GetRetryDelay(); delay.IsValid() {
				f.Delay(delay.AsDuration())
			}
		}
	}
	return f
}

// isCutOff reports whether a call over HTTP failed in transit: no answer of the server arrived
// completely, or a proxy answered instead.
func isCutOff(err error) bool {
	own, ok := stderrors.AsType[*errors.Error](err)
	if ok {
		return own.Code == http.StatusBadGateway
	}
	_, ok = stderrors.AsType[*url.Error](err)
	return ok || stderrors.Is(err, io.ErrUnexpectedEOF)
}

// Reason returns the reason of a refusal of package rpcidem. It returns false for any other error.
func Reason(err error) (string, bool) {
	if err == nil {
		return "", false
	}
	return parseFailure(err).Refused()
}
