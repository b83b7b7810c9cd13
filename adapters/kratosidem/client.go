package kratosidem

import (
	"context"
	"net/http"

	"github.com/go-kratos/kratos/v2/errors"
	"github.com/go-kratos/kratos/v2/middleware"
	"github.com/go-kratos/kratos/v2/transport"
	khttp "github.com/go-kratos/kratos/v2/transport/http"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// Client sends the key of a call. It retries the call with the same key if that is safe and useful:
// the server was not reached or is shutting down, or it says when to retry. The key is the one in
// the header of the call (or in the outgoing metadata of gRPC), or else that of
// httpidem.ContextWithKey, or else one of NewKey. A call without a key is sent once. So is a call
// over HTTP by GET or HEAD, which gets no key. The context's deadline covers all tries: by default
// Kratos sets one of 2 s for each call. The middleware can be used concurrently; nil options have
// the defaults.
//
// If a call over HTTP is given a header (khttp.Header), the key is set in it: use one for each
// action.
func Client(o *rpcidem.ClientOptions) middleware.Middleware {
	own := o.WithDefaults()
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req any) (resp any, err error) {
			tr, ok := transport.FromClientContext(ctx)
			if !ok || isReadOnly(tr) {
				return next(ctx, req)
			}
			if !hasKey(ctx, tr, own.Metadata) {
				line, err := own.MetadataValue(ctx)
				switch {
				case err != nil:
					return nil, errors.BadRequest("KEY_MALFORMED", err.Error())
				case line == "":
					return next(ctx, req)
				}
				tr.RequestHeader().Set(own.Metadata, line)
			}
			tries := 0
			own.Retry.Do(ctx, func() *rpcidem.Failure {
				if tries++; tries > 1 && !rewindBody(tr) {
					return nil // the last failure is the answer
				}
				if resp, err = next(ctx, req); err == nil {
					return nil
				}
				return parseFailure(err)
			})
			return resp, err
		}
	}
}

// hasKey reports whether a call already has a key.
func hasKey(ctx context.Context, tr transport.Transporter, name string) bool {
	if len(tr.RequestHeader().Values(name)) > 0 {
		return true
	}
	md, ok := metadata.FromOutgoingContext(ctx)
	return ok && tr.Kind() == transport.KindGRPC && len(md.Get(name)) > 0
}

// rewindBody restores the body of a request over HTTP, which the earlier try has read. It reports
// whether it could.
func rewindBody(tr transport.Transporter) bool {
	h, ok := tr.(khttp.Transporter)
	if !ok {
		return true
	}
	r := h.Request()
	if r.Body == nil || r.Body == http.NoBody {
		return true
	}
	if r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	r.Body = body
	return true
}
