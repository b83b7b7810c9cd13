package grpcidem

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// UnaryClient sends the key of a call, and makes it again with the same key where that is safe and
// of use: UNAVAILABLE, and ABORTED or RESOURCE_EXHAUSTED with a RetryInfo. The key is the one in
// the outgoing metadata; else that of httpidem.ContextWithKey; else one of NewKey. A call without a
// key passes once. The context's deadline is for all tries. It is safe for concurrent use; nil
// options are the defaults.
//
// gRPC may send a call again by itself where the server has not seen it; the key goes along.
func UnaryClient(o *rpcidem.ClientOptions) grpc.UnaryClientInterceptor {
	own := o.WithDefaults()
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if md, ok := metadata.FromOutgoingContext(ctx); !ok || len(md.Get(own.Metadata)) == 0 {
			line, err := own.Line(ctx)
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
			return failureOf(err)
		})
		return err
	}
}
