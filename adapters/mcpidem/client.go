package mcpidem

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// Client returns sending middleware for a client (mcp.Client.AddSendingMiddleware) that sends the
// key of a call of a tool in its _meta. The key is the one that _meta has, or else that of
// httpidem.ContextWithKey, or else one of NewKey. Options.Metadata is the name in _meta; default
// [DefaultMeta].
//
// It retries the call with the same key if that is safe and useful: after a tool error of this
// package that says when, and after an error of the transport whose session goes on. A call without
// a key is sent once. The context covers all tries. The middleware can be used concurrently; nil
// options have the defaults. After a lost session, connect again and call with the same key.
func Client(o *rpcidem.ClientOptions) mcp.Middleware {
	own := rpcidem.ClientOptions{Metadata: DefaultMeta}
	if o != nil {
		own = *o
		if own.Metadata == "" {
			own.Metadata = DefaultMeta
		}
	}
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			params, ok := req.GetParams().(*mcp.CallToolParams)
			session, isClient := req.GetSession().(*mcp.ClientSession)
			if method != callTool || !ok || !isClient || params == nil {
				return next(ctx, method, req)
			}
			keyed, err := withKey(ctx, &own, params)
			switch {
			case err != nil:
				return nil, err
			case keyed == nil:
				return next(ctx, method, req)
			}
			var res mcp.Result
			own.Retry.Do(ctx, func() *rpcidem.Failure {
				// a copy for each try, since inner middleware may change it
				mine := *keyed
				mine.Meta = maps.Clone(keyed.Meta)
				res, err = next(ctx, method, &mcp.ClientRequest[mcp.Params]{Session: session, Params: &mine})
				return failureOf(ctx, res, err)
			})
			return res, err
		}
	}
}

// withKey returns a copy of params that has the key of the call. It returns nil if the call has
// none. An error does not show the key, and means that nothing was sent.
func withKey(ctx context.Context, o *rpcidem.ClientOptions, params *mcp.CallToolParams) (*mcp.CallToolParams, error) {
	own := *params
	if _, ok := params.Meta[o.Metadata]; ok {
		return &own, nil
	}
	line, err := o.MetadataValue(ctx)
	if err != nil || line == "" {
		return nil, err
	}
	key, err := httpidem.ParseKey([]string{line})
	if err != nil {
		return nil, err
	}
	own.Meta = withMeta(params.Meta, o.Metadata, key)
	return &own, nil
}

// failureOf returns what a try failed with, or nil if its answer is final.
func failureOf(ctx context.Context, raw mcp.Result, err error) *rpcidem.Failure {
	if err != nil {
		_, answered := errors.AsType[*jsonrpc.Error](err)
		if answered || ctx.Err() != nil || errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, mcp.ErrSessionMissing) {
			return nil
		}
		return &rpcidem.Failure{Code: rpcidem.Unavailable}
	}
	res, _ := raw.(*mcp.CallToolResult)
	reason, ok := Reason(res)
	if !ok {
		return nil
	}
	f := &rpcidem.Failure{Code: rpcidem.NewRefusal(reason, nil).Code, Reason: reason}
	if ms, ok := res.Meta[RetryAfterMeta].(float64); ok {
		f.Delay(time.Duration(ms) * time.Millisecond)
	}
	return f
}
