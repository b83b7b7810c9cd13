package mcpidem_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func engine(t *testing.T, s storeapi.Store) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Sweep: -1, Secret: []byte("16 bytes or more"), Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// versions are the newest version of the protocol, and the last one whose sessions begin with a
// handshake and whose servers call their clients.
var versions = []string{"2026-07-28", "2025-11-25"}

var quiet = &mcp.ServerOptions{Logger: slog.New(slog.DiscardHandler)}

var schema = json.RawMessage(`{"type":"object"}`)

// desk is a server with one tool, "charge", whose runs it counts.
type desk struct {
	t      *testing.T
	server *mcp.Server
	runs   atomic.Int64
}

// newDesk returns a desk. A nil handler answers with the number of its run.
func newDesk(t *testing.T, s storeapi.Store, o *mcpidem.Options, h mcp.ToolHandler) *desk {
	t.Helper()
	if s == nil {
		s = memstore.New(nil)
	}
	own := mcpidem.Options{}
	if o != nil {
		own = *o
	}
	if own.Tenant == nil {
		own.Tenant = mcpidem.Global
	}
	d := &desk{t: t, server: mcp.NewServer(&mcp.Implementation{Name: "desk"}, quiet)}
	d.server.AddTool(&mcp.Tool{Name: "charge", InputSchema: schema}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		n := d.runs.Add(1)
		if h == nil {
			return text("run %d", n), nil
		}
		return h(ctx, req)
	})
	d.server.AddReceivingMiddleware(mcpidem.Server(engine(t, s), &own))
	d.server.AddReceivingMiddleware(recovers)
	return d
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// recovers ends the call of a handler that panics.
func recovers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if recover() != nil {
				res, err = nil, fmt.Errorf("recovered")
			}
		}()
		return next(ctx, method, req)
	}
}

// join connects a client to the desk in memory.
func (d *desk) join(version string, o *mcp.ClientOptions, m ...mcp.Middleware) *mcp.ClientSession {
	d.t.Helper()
	there, here := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	d.t.Cleanup(cancel)
	serving, err := d.server.Connect(ctx, there, nil)
	assert.NoError(d.t, err, "connect the server")
	d.t.Cleanup(func() { _ = serving.Close() })
	return joinBy(d.t, here, version, o, m...)
}

// joinBy connects a client by a transport.
func joinBy(t *testing.T, by mcp.Transport, version string, o *mcp.ClientOptions, m ...mcp.Middleware) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, o)
	client.AddSendingMiddleware(m...)
	session, err := client.Connect(t.Context(), by, &mcp.ClientSessionOptions{ProtocolVersion: version})
	assert.NoError(t, err, "connect the client")
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// joinHTTP connects a client to the desk by streamable HTTP. Each of its requests has these header
// fields.
func (d *desk) joinHTTP(version string, fields http.Header) *mcp.ClientSession {
	d.t.Helper()
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return d.server }, nil))
	d.t.Cleanup(s.Close)
	by := &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: headers{fields}}, DisableStandaloneSSE: true}
	return joinBy(d.t, by, version, nil)
}

type headers struct{ fields http.Header }

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h.fields {
		r.Header[name] = values
	}
	return http.DefaultTransport.RoundTrip(r)
}

// params are those of a call with a key; an empty one sends none.
func params(key string, args string) *mcp.CallToolParams {
	p := &mcp.CallToolParams{Name: "charge", Arguments: json.RawMessage(args)}
	if key != "" {
		p.Meta = mcp.Meta{mcpidem.DefaultMeta: key}
	}
	return p
}

// call calls the tool, and returns an error of the protocol as one.
func call(t *testing.T, s *mcp.ClientSession, p *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.CallTool(ctx, p)
}

// do calls the tool, and fails the test on an error of the protocol.
func do(t *testing.T, s *mcp.ClientSession, key, args string) *mcp.CallToolResult {
	t.Helper()
	res, err := call(t, s, params(key, args))
	assert.NoError(t, err, "call with the key %q", key)
	return res
}

// says returns the first text of a result.
func says(res *mcp.CallToolResult) string {
	if len(res.Content) == 0 {
		return ""
	}
	c, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		return ""
	}
	return c.Text
}

// refused checks that a result is the tool error with this reason.
func refused(t *testing.T, res *mcp.CallToolResult, reason string, again bool) {
	t.Helper()
	got, ok := mcpidem.Reason(res)
	assert.True(t, ok && got == reason, "reason: %q, want %q: %s", got, reason, says(res))
	_, told := res.Meta[mcpidem.RetryAfterMeta]
	assert.Equal(t, told, again, "%s says when to come again", reason)
	assert.Contains(t, says(res), reason+": ", "the text")
	assert.True(t, !mcpidem.Replayed(res), "%s is marked as a replay", reason)
}
