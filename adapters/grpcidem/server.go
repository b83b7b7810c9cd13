package grpcidem

import (
	"context"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// UnaryServer guards unary methods. It panics on options that [rpcidem.Options.Validate] refuses.
// The interceptor can be used concurrently.
func UnaryServer(e *retrysafe.Engine, o *rpcidem.Options) grpc.UnaryServerInterceptor {
	g := rpcidem.NewGuard(e, o)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		md, _ := metadata.FromIncomingContext(ctx)
		call := &rpcidem.Call{Method: info.FullMethod, Metadata: md.Get, Payload: func() ([]byte, error) { return codec.Payload(req) }}
		reply, served, refusal := g.Serve(ctx, call, func(ctx context.Context) rpcidem.Result {
			if resp, err = handler(ctx, req); err == nil {
				return rpcidem.Result{Reply: func() (*rpcidem.Reply, error) { return codec.Reply(resp) }}
			}
			marked := err
			err = retrysafe.Unmarked(err)
			st := statusOf(err)
			if !utf8.ValidString(st.Message()) { // it could not be stored as it is
				st = withText(st)
				err = st.Err()
			}
			code := rpcidem.Code(st.Code())
			return rpcidem.Result{Code: code, Err: marked, Reply: func() (*rpcidem.Reply, error) { return codec.Failure(code, st.Proto()) }}
		})
		if refusal != nil {
			return nil, asStatus(refusal)
		}
		if name, value := served.Metadata(); name != "" {
			// if the transport cannot send the header, answer all the same
			_ = grpc.SetHeader(ctx, metadata.Pairs(name, value))
		}
		if served.Replayed {
			return readReply(reply)
		}
		return resp, err
	}
}

// StreamServer refuses streams with a key. Streams are not guarded, and a client that sends a key
// expects that they are. Of the options only Metadata counts; o may be nil.
func StreamServer(o *rpcidem.Options) grpc.StreamServerInterceptor {
	name := rpcidem.DefaultMetadata
	if o != nil && o.Metadata != "" {
		name = o.Metadata
	}
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if md, _ := metadata.FromIncomingContext(ss.Context()); len(md.Get(name)) > 0 {
			return asStatus(rpcidem.NewRefusal("STREAM_NOT_GUARDED", nil))
		}
		return handler(srv, ss)
	}
}
