package grpcidem

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// UnaryClient sends the key of a call. It retries the call with the same key if that is safe and
// useful: after UNAVAILABLE, and after ABORTED or RESOURCE_EXHAUSTED with a RetryInfo. The key is
// the one in the outgoing metadata, or else that of httpidem.ContextWithKey, or else one of NewKey.
// A call without a key is sent once. The context's deadline covers all tries. The interceptor can
// be used concurrently; nil options have the defaults.
//
// gRPC may resend a call itself if the server has not seen it; the key is sent again too.
func UnaryClient(o *rpcidem.ClientOptions) grpc.UnaryClientInterceptor {
	own := o.WithDefaults()
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if md, ok := metadata.FromOutgoingContext(ctx); !ok || len(md.Get(own.Metadata)) == 0 {
			line, err := own.MetadataValue(ctx)
			switch {
			case err != nil:
				return status.Error(codes.InvalidArgument, err.Error())
			case line == "":
				return invoker(ctx, method, req, reply, cc, opts...)
			}
			ctx = metadata.AppendToOutgoingContext(ctx, own.Metadata, line)
		}
		var err error
		own.Retry.Do(ctx, func() *rpcidem.Failure {
			if err = invoker(ctx, method, req, reply, cc, opts...); err == nil {
				return nil
			}
			return parseFailure(err)
		})
		return err
	}
}
