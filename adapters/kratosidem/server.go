package kratosidem

import (
	"context"
	"net/http"

	"github.com/go-kratos/kratos/v2/middleware"
	"github.com/go-kratos/kratos/v2/transport"
	khttp "github.com/go-kratos/kratos/v2/transport/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// Server guards the operations of a server, except requests over HTTP by GET or HEAD. It panics on
// options that [rpcidem.Options.Validate] refuses. The middleware can be used concurrently.
//
// The context of a guarded method is not a khttp.Context. It does not end when the client hangs up,
// nor with the timeout of the server.
func Server(e *retrysafe.Engine, o *rpcidem.Options) middleware.Middleware {
	g := rpcidem.NewGuard(e, o)
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req any) (resp any, err error) {
			tr, ok := transport.FromServerContext(ctx)
			if !ok || isReadOnly(tr) {
				return next(ctx, req)
			}
			call := &rpcidem.Call{Method: tr.Operation(), Metadata: tr.RequestHeader().Values, Payload: func() ([]byte, error) { return codec.Payload(req) }}
			reply, served, refusal := g.Serve(ctx, call, func(ctx context.Context) rpcidem.Result {
				if resp, err = next(ctx, req); err == nil {
					return rpcidem.Result{Reply: func() (*rpcidem.Reply, error) { return codec.Reply(resp) }}
				}
				marked := err
				err = storableError(retrysafe.Unmarked(err))
				return rpcidem.Result{Code: codeForKey(err), Err: marked, Reply: func() (*rpcidem.Reply, error) { return storedFailure(err) }}
			})
			if refusal != nil {
				return nil, asError(refusal)
			}
			if name, value := served.Metadata(); name != "" {
				tr.ReplyHeader().Set(name, value)
			}
			if served.Replayed {
				return readReply(reply)
			}
			return resp, err
		}
	}
}

// isReadOnly reports whether a request over HTTP uses a method without effect.
func isReadOnly(tr transport.Transporter) bool {
	h, ok := tr.(khttp.Transporter)
	return ok && (h.Request().Method == http.MethodGet || h.Request().Method == http.MethodHead)
}
