package redisnode

import (
	"context"
	"strings"

	"github.com/retrysafe/retrysafe/redisclient"
)

// EvalMany makes calls, in few round trips if the client can.
func EvalMany(ctx context.Context, c redisclient.Client, calls []redisclient.Call) []redisclient.Reply {
	if p, ok := c.(redisclient.Pipeliner); ok {
		return p.EvalMany(ctx, calls)
	}
	replies := make([]redisclient.Reply, len(calls))
	for i, call := range calls {
		replies[i] = c.Eval(ctx, call)
	}
	return replies
}

// Begins returns the pattern of SCAN for names that begin with prefix.
func Begins(prefix string) string { return escaped.Replace(prefix) + "*" }

// escaped escapes the pattern characters of SCAN.
var escaped = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// Scanned reads the reply to SCAN: the next cursor, and names. It reports false for anything else.
func Scanned(v any) (next string, names []string, ok bool) {
	pair, _ := v.([]any)
	if len(pair) != 2 {
		return "", nil, false
	}
	next, ok = pair[0].(string)
	list, isList := pair[1].([]any)
	for _, k := range list {
		name, isName := k.(string)
		names, ok = append(names, name), ok && isName
	}
	return next, names, ok && isList
}
