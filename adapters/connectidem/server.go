package connectidem

import (
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// Server guards unary methods, except those without side effects. It refuses streams with a key:
// streams are not guarded, and a client that sends a key expects that they are. It panics on
// options that [rpcidem.Options.Validate] refuses. The interceptor can be used concurrently, and
// passes on calls of clients.
//
// A replayed answer is not a *connect.Response of the method's type. Interceptors before this one
// get the message from Any.
func Server(e *retrysafe.Engine, o *rpcidem.Options) connect.Interceptor {
	return &serverInterceptor{guard: rpcidem.NewGuard(e, o)}
}

type serverInterceptor struct{ guard *rpcidem.Guard }

// WrapUnary guards a unary method.
func (s *serverInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		spec := req.Spec()
		if spec.IsClient || spec.IdempotencyLevel == connect.IdempotencyNoSideEffects || req.HTTPMethod() == http.MethodGet {
			return next(ctx, req)
		}
		call := &rpcidem.Call{Method: spec.Procedure, Metadata: req.Header().Values, Payload: func() ([]byte, error) { return codec.Payload(req.Any()) }}
		reply, served, refusal := s.guard.Serve(ctx, call, func(ctx context.Context) rpcidem.Result {
			if resp, err = next(ctx, req); err == nil {
				return rpcidem.Result{Reply: func() (*rpcidem.Reply, error) { return codec.Reply(resp.Any()) }}
			}
			marked := err
			err = retrysafe.Unmarked(err)
			st := statusOf(err)
			if !utf8.ValidString(st.GetMessage()) { // it could not be stored as it is
				st.Message = strings.ToValidUTF8(st.GetMessage(), "\ufffd")
				err = withMeta(errorOf(st), err)
			}
			code := rpcidem.Code(st.GetCode()) //nolint:gosec // a code
			return rpcidem.Result{Code: code, Err: marked, Reply: func() (*rpcidem.Reply, error) { return codec.Failure(code, st) }}
		})
		if refusal != nil {
			return nil, asError(refusal)
		}
		if name, value := served.Metadata(); name != "" {
			setReplyHeader(ctx, name, value)
		}
		if served.Replayed {
			return readReply(reply, spec.Schema)
		}
		return resp, err
	}
}

// setReplyHeader sets a header field of the answer, whether it is a message or an error.
func setReplyHeader(ctx context.Context, name, value string) {
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		info.ResponseHeader().Set(name, value)
	}
}

// WrapStreamingHandler refuses streams with a key.
func (s *serverInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if s.guard.Guards(conn.Spec().Procedure) && s.guard.Keyed(conn.RequestHeader().Values) {
			return asError(rpcidem.NewRefusal("STREAM_NOT_GUARDED", nil))
		}
		return next(ctx, conn)
	}
}

// WrapStreamingClient passes on streams of clients.
func (s *serverInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
