package mcpidem_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/downstore"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestOnce: of many calls with one key, over both transports and both generations of the protocol,
// one runs, and all get its result. A new session changes nothing.
func TestOnce(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		for name, join := range map[string]func(*desk) *mcp.ClientSession{
			"in memory": func(d *desk) *mcp.ClientSession { return d.join(version, nil) },
			"HTTP":      func(d *desk) *mcp.ClientSession { return d.joinHTTP(version, nil) },
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				d := newDesk(t, nil, &mcpidem.Options{Policy: retrysafe.Policy{Wait: 20 * time.Second}}, nil)
				s := join(d)
				var fresh, replayed atomic.Int64
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						res, err := s.CallTool(context.Background(), params("k", `{"amount":10}`))
						if err != nil || says(res) != "run 1" {
							return
						}
						if mcpidem.Replayed(res) {
							replayed.Add(1)
						} else {
							fresh.Add(1)
						}
					})
				}
				all.Wait()
				assert.Equal(t, [2]int64{fresh.Load(), replayed.Load()}, [2]int64{1, 19}, "first results and replays")
				assert.Equal(t, d.runs.Load(), int64(1), "runs")
				later := do(t, join(d), "k", ` { "amount" : 1e1 } `)
				assert.True(t, mcpidem.Replayed(later) && says(later) == "run 1", "another session, the same arguments: %s", says(later))
				refused(t, do(t, s, "k", `{"amount":11}`), "PAYLOAD_MISMATCH", false)
				assert.Equal(t, says(do(t, s, "k2", `{"amount":10}`)), "run 2", "another key")
				for _, want := range []string{"run 3", "run 4"} {
					res := do(t, s, "", `{"amount":10}`)
					assert.True(t, says(res) == want && !mcpidem.Replayed(res), "without a key: %s", says(res))
				}
			})
		}
	}
}

// TestKeys: which value is the key, and what is refused before anything runs.
func TestKeys(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, &mcpidem.Options{Key: mcpidem.Required, Meta: []string{"a/key", "b/key"}}, nil)
	s := d.join("", nil)
	refused(t, do(t, s, "in a member that is not listed", `{}`), "KEY_MISSING", false)
	for _, value := range []any{"", 7, nil, strings.Repeat("x", 256), "tab\t", []string{"k"}} {
		p := params("", `{}`)
		p.Meta = mcp.Meta{"b/key": value}
		res, err := call(t, s, p)
		assert.NoError(t, err, "call")
		refused(t, res, "KEY_MALFORMED", false)
	}
	assert.Equal(t, d.runs.Load(), int64(0), "runs of refused calls")
	for i, meta := range []mcp.Meta{{"b/key": "k"}, {"a/key": "k", "b/key": "other"}, {"a/key": "k"}} {
		p := params("", `{}`)
		p.Meta = meta
		res, err := call(t, s, p)
		assert.NoError(t, err, "call")
		assert.True(t, says(res) == "run 1" && mcpidem.Replayed(res) == (i > 0), "%v: %s", meta, says(res))
	}
}

// TestHeaders: over HTTP a header field can have the key, in quotes or without; _meta takes
// precedence.
func TestHeaders(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil, nil)
	bare := d.joinHTTP("", http.Header{"Idempotency-Key": {"k"}})
	quoted := d.joinHTTP("", http.Header{"Idempotency-Key": {`"k"`}})
	twice := d.joinHTTP("", http.Header{"Idempotency-Key": {"k", "k"}})
	assert.Equal(t, says(do(t, bare, "", `{}`)), "run 1", "the first")
	assert.True(t, mcpidem.Replayed(do(t, quoted, "", `{}`)), "the key in quotes")
	assert.True(t, mcpidem.Replayed(do(t, d.join("", nil), "k", `{}`)), "the key in _meta")
	assert.Equal(t, says(do(t, bare, "other", `{}`)), "run 2", "_meta before the header")
	refused(t, do(t, twice, "", `{}`), "KEY_MALFORMED", false)
	none := newDesk(t, nil, &mcpidem.Options{Headers: []string{}}, nil)
	s := none.joinHTTP("", http.Header{"Idempotency-Key": {"k"}})
	do(t, s, "", `{}`)
	assert.True(t, !mcpidem.Replayed(do(t, s, "", `{}`)), "no header is a key")
}

// TestTenants: tenants do not share keys; who is not known is refused, and the cause is not told.
func TestTenants(t *testing.T) {
	t.Parallel()
	var who atomic.Pointer[string]
	be := func(name string) { who.Store(&name) }
	d := newDesk(t, nil, &mcpidem.Options{Tenant: func(context.Context, *mcp.CallToolRequest) (string, error) {
		if *who.Load() == "unknown" {
			return "", errors.New("the secret reason")
		}
		return *who.Load(), nil
	}}, nil)
	s := d.join("", nil)
	be("ann")
	do(t, s, "k", `{}`)
	be("bob")
	assert.Equal(t, says(do(t, s, "k", `{}`)), "run 2", "another tenant")
	be("unknown")
	res := do(t, s, "k", `{}`)
	refused(t, res, "TENANT_MISSING", false)
	assert.True(t, !strings.Contains(says(res), "secret"), "the cause is told: %s", says(res))
	be("")
	refused(t, do(t, s, "short", `{}`), "KEY_TOO_SHORT", false)

	user := newDesk(t, nil, &mcpidem.Options{Tenant: mcpidem.User}, nil)
	refused(t, do(t, user.join("", nil), "k", `{}`), "TENANT_MISSING", false)

	var secret atomic.Pointer[[]byte]
	bound := newDesk(t, nil, &mcpidem.Options{Binding: func(context.Context, *mcp.CallToolRequest) []byte { return *secret.Load() }}, nil)
	s = bound.join("", nil)
	secret.Store(&[]byte{1})
	do(t, s, "k", `{}`)
	secret.Store(&[]byte{2})
	refused(t, do(t, s, "k", `{}`), "PRINCIPAL_CHANGED", false)
}

// TestTools: tools that only read are left alone, and what else the options say. A tool that is
// not listed is guarded.
func TestTools(t *testing.T) {
	t.Parallel()
	hints := func(o *mcpidem.Options, a *mcp.ToolAnnotations) *desk {
		d := newDesk(t, nil, o, nil)
		d.server.AddTool(&mcp.Tool{Name: "charge", InputSchema: schema, Annotations: a}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("run %d", d.runs.Add(1)), nil
		})
		return d
	}
	for i, tt := range []struct {
		d    *desk
		runs int64
	}{
		{hints(nil, &mcp.ToolAnnotations{}), 1},
		{hints(nil, &mcp.ToolAnnotations{ReadOnlyHint: true}), 2},
		{hints(nil, &mcp.ToolAnnotations{IdempotentHint: true}), 1},
		{hints(&mcpidem.Options{SkipIdempotent: true}, &mcp.ToolAnnotations{IdempotentHint: true}), 2},
		{hints(&mcpidem.Options{SkipIdempotent: true}, nil), 1},
		{hints(&mcpidem.Options{Tools: func(tool *mcp.Tool) bool { return tool.Name != "charge" }}, nil), 2},
	} {
		s := tt.d.join("", nil)
		do(t, s, "k", `{}`)
		do(t, s, "k", `{}`)
		assert.Equal(t, tt.d.runs.Load(), tt.runs, "runs of row %d", i)
	}
	// a desk hides its tool from the list, inside of the guard
	d := &desk{t: t, server: mcp.NewServer(&mcp.Implementation{Name: "desk"}, quiet)}
	d.server.AddTool(&mcp.Tool{Name: "charge", InputSchema: schema, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("run %d", d.runs.Add(1)), nil
		})
	d.server.AddReceivingMiddleware(mcpidem.Server(engine(t, memstore.New(nil)), &mcpidem.Options{Tenant: mcpidem.Global}), func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				return &mcp.ListToolsResult{}, nil
			}
			return next(ctx, method, req)
		}
	})
	s := d.join("", nil)
	do(t, s, "k", `{}`)
	assert.True(t, mcpidem.Replayed(do(t, s, "k", `{}`)), "a tool that is not listed")
}

// TestMissingTool: a call of a tool that the server does not have leaves its key free.
func TestMissingTool(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil, nil)
	d.server.RemoveTools("charge")
	s := d.join("", nil)
	_, err := call(t, s, params("k", `{}`))
	assert.True(t, err != nil, "the tool is not there")
	d.server.AddTool(&mcp.Tool{Name: "charge", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("now"), nil })
	assert.Equal(t, says(do(t, s, "k", `{}`)), "now", "after it was added")
}

// TestHangUp: a client that gives up does not stop the tool, and its retry gets the result.
func TestHangUp(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		d := newDesk(t, nil, &mcpidem.Options{Policy: retrysafe.Policy{Wait: 20 * time.Second}}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			close(begun)
			<-end
			ended <- ctx.Err()
			return text("done"), nil
		})
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		s := d.join(version, nil)
		go func() {
			_, err := s.CallTool(ctx, params("k", `{}`))
			gone <- err
		}()
		<-begun
		leave()
		assert.True(t, <-gone != nil, "the client has gone")
		close(end)
		assert.NoError(t, <-ended, "the tool's context")
		res := do(t, d.join(version, nil), "k", `{}`)
		assert.True(t, says(res) == "done" && mcpidem.Replayed(res), "the retry: %s", says(res))
		assert.Equal(t, d.runs.Load(), int64(1), "runs")
	}
}

// TestInProgress: a duplicate of a call that runs gets a tool error.
func TestInProgress(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	d := newDesk(t, nil, nil, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(begun)
		<-end
		return text("done"), nil
	})
	s := d.join("", nil)
	first := make(chan *mcp.CallToolResult, 1)
	go func() {
		res, _ := s.CallTool(context.Background(), params("k", `{}`))
		first <- res
	}()
	<-begun
	refused(t, do(t, s, "k", `{}`), "IN_PROGRESS", true)
	refused(t, do(t, d.join(versions[1], nil), "k", `{}`), "IN_PROGRESS", true)
	close(end)
	assert.Equal(t, says(<-first), "done", "the first")
	assert.True(t, mcpidem.Replayed(do(t, s, "k", `{}`)), "afterwards")
}

// TestStoreDown: without its store nothing runs. A result that the store has not confirmed is
// marked.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	store := &downstore.Store{Store: memstore.New(nil)}
	d := newDesk(t, store, nil, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		store.Down.Store(true)
		return text("done"), nil
	})
	defer store.Down.Store(false) // otherwise nothing would end
	s := d.join("", nil)
	res := do(t, s, "k", `{}`)
	assert.True(t, says(res) == "done" && res.Meta[mcpidem.StoredMeta] == "unconfirmed", "the work is done: %+v", res)
	res = do(t, s, "l", `{}`)
	refused(t, res, "STORE_UNAVAILABLE", true)
	assert.True(t, !strings.Contains(says(res), "secret-host"), "the cause is told: %s", says(res))
	assert.Equal(t, d.runs.Load(), int64(1), "runs")
}

// TestLimits: limits of the policy and of the options hold for tools.
func TestLimits(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, &mcpidem.Options{Policy: retrysafe.Policy{Limits: retrysafe.Limits{Live: 1}}}, nil)
	s := d.join("", nil)
	do(t, s, "a", `{}`)
	refused(t, do(t, s, "b", `{}`), "TOO_MANY_KEYS", true)
	often := newDesk(t, nil, &mcpidem.Options{Rate: retrysafe.Rate{PerSecond: 0.001, Burst: 1}}, nil)
	s = often.join("", nil)
	do(t, s, "a", `{}`)
	refused(t, do(t, s, "b", `{}`), "TOO_MANY_REQUESTS", true)
	rejected := newDesk(t, nil, &mcpidem.Options{Policy: retrysafe.Policy{Duplicate: retrysafe.Reject}}, nil)
	s = rejected.join("", nil)
	do(t, s, "a", `{}`)
	refused(t, do(t, s, "a", `{}`), "ALREADY_DONE", false)
}
