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

// Client sends the key of a call, and makes it again with the same key where that is safe and of
// use: the server was not reached or is going away, or it says when to come again. The key is the
// one in the header of the call (or in the outgoing metadata of gRPC); else that of
// httpidem.ContextWithKey; else one of NewKey. A call without a key passes once, and over HTTP one
// by GET or HEAD, which gets none. The context's deadline is for all tries: Kratos sets one of 2 s
// for each call by default. It is safe for concurrent use; nil options are the defaults.
//
// A header that is given to a call over HTTP (khttp.Header) gets the key: use one for each action.
func Client(o *rpcidem.ClientOptions) middleware.Middleware {
	own := o.WithDefaults()
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req any) (resp any, err error) {
			tr, ok := transport.FromClientContext(ctx)
			if !ok || reads(tr) {
				return next(ctx, req)
			}
			if !has(ctx, tr, own.Metadata) {
				line, err := own.Line(ctx)
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
				if tries++; tries > 1 && !rewind(tr) {
					return nil // what failed is the answer
				}
				if resp, err = next(ctx, req); err == nil {
					return nil
				}
				return failed(err)
			})
			return resp, err
		}
	}
}

// has tells whether a call has a key already.
func has(ctx context.Context, tr transport.Transporter, name string) bool {
	if len(tr.RequestHeader().Values(name)) > 0 {
		return true
	}
	md, ok := metadata.FromOutgoingContext(ctx)
	return ok && tr.Kind() == transport.KindGRPC && len(md.Get(name)) > 0
}

// rewind gives a request over HTTP its body again, which the try before has read.
func rewind(tr transport.Transporter) bool {
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
