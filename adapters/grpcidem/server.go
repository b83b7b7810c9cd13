package grpcidem

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// The metadata of an answer.
const (
	replayed = "idempotency-replayed" // true: a stored answer
	stored   = "idempotency-stored"   // unconfirmed: the store has not confirmed the answer yet
)

// UnaryServer guards unary methods. It panics on options that [rpcidem.Options.Validate] refuses.
// The interceptor can be used concurrently.
func UnaryServer(e *retrysafe.Engine, o *rpcidem.Options) grpc.UnaryServerInterceptor {
	g := rpcidem.NewGuard(e, o)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		md, _ := metadata.FromIncomingContext(ctx)
		call := &rpcidem.Call{Method: info.FullMethod, Metadata: md.Get, Payload: func() ([]byte, error) { return marshal(req) }}
		reply, told, refusal := g.Serve(ctx, call, func(ctx context.Context) rpcidem.Result {
			if resp, err = handler(ctx, req); err == nil {
				return rpcidem.Result{Reply: func() (*rpcidem.Reply, error) { return replyOf(resp, nil) }}
			}
			marked := err
			err = retrysafe.Unmarked(err)
			st := statusOf(err)
			return rpcidem.Result{Code: rpcidem.Code(st.Code()), Err: marked, Reply: func() (*rpcidem.Reply, error) { return replyOf(nil, st) }}
		})
		switch {
		case refusal != nil:
			return nil, asStatus(refusal)
		case told.Replayed:
			// if the transport cannot send the header, answer all the same
			_ = grpc.SetHeader(ctx, metadata.Pairs(replayed, "true"))
			return read(reply)
		case told.Unconfirmed:
			_ = grpc.SetHeader(ctx, metadata.Pairs(stored, "unconfirmed"))
		}
		return resp, err
	}
}

// StreamServer refuses streams with a key. Streams are not guarded, and a client that sends a key
// expects that they are. name is the name of the key's metadata; empty means
// [rpcidem.DefaultMetadata].
func StreamServer(name string) grpc.StreamServerInterceptor {
	if name == "" {
		name = rpcidem.DefaultMetadata
	}
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if md, _ := metadata.FromIncomingContext(ss.Context()); len(md.Get(name)) > 0 {
			return asStatus(rpcidem.NewRefusal("STREAM_NOT_GUARDED", nil))
		}
		return handler(srv, ss)
	}
}
