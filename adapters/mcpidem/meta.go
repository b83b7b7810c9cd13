package mcpidem

import (
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Names in the _meta of a result.
const (
	// ReplayedMeta is true if the result is that of an earlier call.
	ReplayedMeta = "retrysafe/replayed"
	// StoredMeta is "unconfirmed" if the store has not yet confirmed that it has the result.
	StoredMeta = "retrysafe/stored"
	// ReasonMeta is the reason of a tool error of this package, for example IN_PROGRESS.
	ReasonMeta = "retrysafe/reason"
	// RetryAfterMeta is how long to wait before a retry with the same key, in milliseconds. It is
	// missing if a retry gets the same answer.
	RetryAfterMeta = "retrysafe/retryAfterMs"
)

// withResultMeta returns a copy of res with a value in its _meta.
func withResultMeta(res *mcp.CallToolResult, name string, value any) *mcp.CallToolResult {
	own := *res
	own.Meta = withMeta(res.Meta, name, value)
	return &own
}

// withMeta returns a copy of m that has a value.
func withMeta(m mcp.Meta, name string, value any) mcp.Meta {
	own := maps.Clone(m)
	if own == nil {
		own = mcp.Meta{}
	}
	own[name] = value
	return own
}
