package mcpidem

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// findTool returns the tool of a call as the server lists it. If the server does not list it, or
// cannot list its tools, findTool returns a tool that has only a name.
func findTool(ctx context.Context, req *mcp.CallToolRequest, next mcp.MethodHandler) (tool *mcp.Tool, listed bool) {
	name := req.Params.Name
	params := new(mcp.ListToolsParams)
	for {
		got, err := next(ctx, "tools/list", &mcp.ListToolsRequest{Session: req.Session, Params: params, Extra: req.Extra})
		list, ok := got.(*mcp.ListToolsResult)
		if err != nil || !ok || list == nil {
			return &mcp.Tool{Name: name}, false
		}
		for _, t := range list.Tools {
			if t.Name == name {
				return t, true
			}
		}
		if list.NextCursor == "" {
			return &mcp.Tool{Name: name}, false
		}
		params = &mcp.ListToolsParams{Cursor: list.NextCursor}
	}
}

// isGuarded reports whether a tool is guarded.
func (g *guards) isGuarded(t *mcp.Tool) bool {
	if g.o.Tools != nil {
		return g.o.Tools(t)
	}
	hints := t.Annotations
	return hints == nil || !hints.ReadOnlyHint && (!g.o.SkipIdempotent || !hints.IdempotentHint)
}
