package mcpidem_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// fast retries without long waits.
var fast = rpcidem.Retry{MinWait: time.Millisecond, MaxWait: 20 * time.Second}

// TestClientKeys: which key a client sends. The caller's parameters stay as they are.
func TestClientKeys(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	d := newDesk(t, nil, nil, nil)
	plain := d.join("", nil, mcpidem.Client(nil))
	making := d.join("", nil, mcpidem.Client(&rpcidem.ClientOptions{NewKey: func() string {
		made.Add(1)
		return strings.Repeat("x", int(made.Load()))
	}}))
	ctx := httpidem.ContextWithKey(t.Context(), "a key, quoted")
	p := params("", `{}`)
	for i, s := range []*mcp.ClientSession{plain, making} {
		res, err := s.CallTool(ctx, p)
		assert.NoError(t, err, "call")
		assert.True(t, says(res) == "run 1" && mcpidem.Replayed(res) == (i == 1), "the key of the context: %s", says(res))
	}
	assert.True(t, mcpidem.Replayed(do(t, plain, "a key, quoted", `{}`)), "it is the same in _meta")
	res, err := making.CallTool(ctx, params("in _meta", `{}`))
	assert.True(t, err == nil && says(res) == "run 2", "the key in _meta takes precedence: %v", err)
	assert.Equal(t, made.Load(), int64(0), "keys made")
	for _, want := range []string{"run 3", "run 4"} {
		assert.Equal(t, says(do(t, making, "", `{}`)), want, "a new key for each call")
	}
	for _, want := range []string{"run 5", "run 6"} {
		assert.Equal(t, says(do(t, plain, "", `{}`)), want, "no key")
	}
	_, ok := p.Meta[mcpidem.DefaultMeta]
	assert.True(t, !ok, "the caller's parameters: %v", p.Meta)
	_, err = plain.CallTool(httpidem.ContextWithKey(t.Context(), "secret\t"), params("", `{}`))
	assert.True(t, err != nil && !strings.Contains(err.Error(), "secret"), "a key that cannot be sent: %v", err)
	assert.Equal(t, d.runs.Load(), int64(6), "runs")
	other := d.join("", nil, mcpidem.Client(&rpcidem.ClientOptions{Metadata: "x/other"}))
	_, err = other.CallTool(ctx, params("", `{}`))
	assert.True(t, err == nil && d.runs.Load() == 7, "another name: %v", err)
}

// TestClientRetries: what a client tries again, and what not.
func TestClientRetries(t *testing.T) {
	t.Parallel()
	refusal := func(reason string, after any) *mcp.CallToolResult {
		res := text("%s", reason)
		res.IsError, res.Meta = true, mcp.Meta{mcpidem.ReasonMeta: reason}
		if after != nil {
			res.Meta[mcpidem.RetryAfterMeta] = after
		}
		return res
	}
	for _, tt := range []struct {
		what  string
		first func() (mcp.Result, error)
		tries int64
	}{
		{"in progress", func() (mcp.Result, error) { return refusal("IN_PROGRESS", 1), nil }, 2},
		{"a store that is away", func() (mcp.Result, error) { return refusal("STORE_UNAVAILABLE", 1), nil }, 2},
		{"an unknown outcome", func() (mcp.Result, error) { return refusal("OUTCOME_UNKNOWN", nil), nil }, 1},
		{"an unknown outcome that will be asked for", func() (mcp.Result, error) { return refusal("OUTCOME_UNKNOWN", 1), nil }, 2},
		{"other arguments", func() (mcp.Result, error) { return refusal("PAYLOAD_MISMATCH", 1), nil }, 1},
		{"a wait that is too long", func() (mcp.Result, error) { return refusal("IN_PROGRESS", 60_000), nil }, 1},
		{"a reason of another's", func() (mcp.Result, error) { return refusal("BUSY", 1), nil }, 1},
		{"an error of the tool", func() (mcp.Result, error) { return nil, errors.New("no") }, 1},
	} {
		var tries atomic.Int64
		d := newDesk(t, nil, nil, nil)
		d.server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if method == "tools/call" && tries.Add(1) == 1 {
					return tt.first()
				}
				return next(ctx, method, req)
			}
		})
		s := d.join("", nil, mcpidem.Client(&rpcidem.ClientOptions{Retry: fast}))
		_, _ = call(t, s, params("k", `{}`))
		assert.Equal(t, tries.Load(), tt.tries, "tries after %s", tt.what)
		tries.Store(0)
		_, _ = call(t, s, params("", `{}`))
		assert.Equal(t, tries.Load(), int64(1), "tries without a key after %s", tt.what)
	}
}

// TestClientLostReply: a transport that loses a reply, and goes on, gets the same call again.
func TestClientLostReply(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	loses := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, req)
			if method == "tools/call" && tries.Add(1) == 1 {
				return nil, errors.New("connection reset")
			}
			return res, err
		}
	}
	d := newDesk(t, nil, nil, nil)
	s := d.join("", nil, mcpidem.Client(&rpcidem.ClientOptions{Retry: fast}), loses)
	res := do(t, s, "k", `{}`)
	assert.True(t, says(res) == "run 1" && mcpidem.Replayed(res), "the second try: %s", says(res))
	assert.Equal(t, tries.Load(), int64(2), "tries")
	_ = s.Close()
	begun := time.Now()
	_, err := call(t, s, params("k", `{}`))
	assert.ErrorIs(t, err, mcp.ErrConnectionClosed, "a session that is closed")
	assert.True(t, time.Since(begun) < time.Minute, "it is not tried again and again")
}
