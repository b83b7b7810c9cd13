package connectidem

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// Client sends the key of a unary call, and makes it again with the same key where that is safe and
// of use: unavailable, and aborted or resource_exhausted with a RetryInfo. The key is the one in
// the header of the request; else that of httpidem.ContextWithKey; else one of NewKey. A call
// without a key passes once. The context's deadline is for all tries. The request itself is not
// changed: one that its caller sends twice is two actions unless both calls have one key. It is
// safe for concurrent use, and lets calls of handlers pass; nil options are the defaults.
//
// Methods without side effects pass once and get no key, so that they can be sent by GET.
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
				line, err := own.Line(ctx)
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
				if resp, err = next(ctx, &keyed{req, header.Clone()}); err == nil {
					return nil
				}
				return failure(err)
			})
			return resp, err
		}
	})
}

// keyed is one try of a request, with a header of its own: that of an earlier try may still be on
// its way out.
type keyed struct {
	connect.AnyRequest
	header http.Header
}

// Header returns the try's header.
func (k *keyed) Header() http.Header { return k.header }
