package mcpidem

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/rpcidem"
)

const callTool = "tools/call"

// guards guard the tools of a server.
type guards struct {
	o           Options
	rule        *fingerprint.Compiled
	clientKeys  *rpcidem.Guard // keys that clients send
	derivedKeys *rpcidem.Guard // nil unless Key is Derived
}

// Server returns receiving middleware for a server (mcp.Server.AddReceivingMiddleware) that runs a
// tool once for each key. It panics on options that [Options.Validate] refuses. The middleware can
// be used concurrently. Add it after middleware that changes results, such as a filter, and before
// middleware that logs: the last that is added sees a call first.
func Server(e *retrysafe.Engine, o *Options) mcp.Middleware {
	if e == nil {
		panic("mcpidem: Server needs an engine; retrysafe.New makes one")
	}
	if o == nil {
		o = new(Options)
	}
	if err := o.Validate(e.Policy()); err != nil {
		panic(err)
	}
	g := newGuards(e, *o)
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			req, ok := r.(*mcp.CallToolRequest)
			if method != callTool || !ok {
				return next(ctx, method, r)
			}
			return g.serveCall(ctx, req, next)
		}
	}
}

func newGuards(e *retrysafe.Engine, o Options) *guards {
	if o.Meta == nil {
		o.Meta = []string{DefaultMeta}
	}
	if o.Headers == nil {
		o.Headers = []string{"Idempotency-Key"}
	}
	g := &guards{o: o, clientKeys: rpcidem.NewGuard(e, o.guardOptions(layer, o.Policy))}
	g.rule, _ = o.compareRule().Compile() // validated
	if o.Key == Derived {
		g.derivedKeys = rpcidem.NewGuard(e, o.guardOptions(derivedLayer, o.derivedPolicy(e.Policy())))
	}
	return g
}

type requestKey struct{}

// requestFrom returns the request whose call a guard serves.
func requestFrom(ctx context.Context) *mcp.CallToolRequest {
	req, _ := ctx.Value(requestKey{}).(*mcp.CallToolRequest)
	return req
}

// serveCall answers a call of a tool.
func (g *guards) serveCall(ctx context.Context, req *mcp.CallToolRequest, next mcp.MethodHandler) (mcp.Result, error) {
	tool, listed := findTool(ctx, req, next)
	if !g.isGuarded(tool) {
		return next(ctx, callTool, req)
	}
	guard, call, refusal := g.identifyCall(req)
	if refusal != nil {
		return g.toolError(req, refusal), nil
	}
	var a answer
	ctx = context.WithValue(ctx, requestKey{}, req)
	reply, told, refusal := guard.Serve(ctx, call, func(ctx context.Context) rpcidem.Result {
		res, err := next(ctx, callTool, req)
		a = answerOf(res, err)
		return a.guardResult(listed)
	})
	switch {
	case refusal != nil:
		return g.toolError(req, refusal), nil
	case told.Replayed:
		return replayAnswer(req, reply)
	case told.Unconfirmed && a.res != nil:
		return withResultMeta(a.res, StoredMeta, "unconfirmed"), nil
	}
	return a.raw, retrysafe.Unmarked(a.err)
}
