package connectidem

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// Client sends the key of a unary call. It retries the call with the same key if that is safe and
// useful: after unavailable, and after aborted or resource_exhausted with a RetryInfo. The key is
// the one in the header of the request, or else that of httpidem.ContextWithKey, or else one of
// NewKey. A call without a key is sent once. The context's deadline covers all tries. Client does
// not change the request: if a caller sends it twice, that is two actions unless both calls have
// one key. The interceptor can be used concurrently, and passes on calls of handlers; nil options
// have the defaults.
//
// Methods without side effects are called once and get no key, so that they can be sent by GET.
func Client(o *rpcidem.ClientOptions) connect.Interceptor {
	own := o.WithDefaults()
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
			spec := req.Spec()
			if !spec.IsClient || spec.IdempotencyLevel == connect.IdempotencyNoSideEffects {
				return next(ctx, req)
			}
			header := req.Header()
			if len(header.Values(own.Metadata)) == 0 {
				line, err := own.MetadataValue(ctx)
				switch {
				case err != nil:
					return nil, connect.NewError(connect.CodeInvalidArgument, err)
				case line == "":
					return next(ctx, req)
				}
				header = header.Clone()
				header.Set(own.Metadata, line)
			}
			own.Retry.Do(ctx, func() *rpcidem.Failure {
				if resp, err = next(ctx, &keyedRequest{req, header.Clone()}); err == nil {
					return nil
				}
				return parseFailure(err)
			})
			return resp, err
		}
	})
}

// keyedRequest is one try of a request. It has its own header, since that of an earlier try may
// still be being sent.
type keyedRequest struct {
	connect.AnyRequest
	header http.Header
}

// Header returns the try's header.
func (k *keyedRequest) Header() http.Header { return k.header }
