package http_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestMCPAgentKilled: an agent is killed while its tool runs. It starts again, reaches another
// server on the same store, and gets the result of its call. There is one payment.
func TestMCPAgentKilled(t *testing.T) {
	t.Parallel()
	for name, place := range toolStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := filepath.Join(t.TempDir(), "ledger")
			begun, end := make(chan struct{}), make(chan struct{})
			var endpoints [2]string
			for i := range endpoints {
				store, err := place.openStore(t.Context())
				assert.NoError(t, err, "open the store")
				e := newToolEngine(store)
				t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
				desk := newToolServer(e, ledger, retrysafe.Policy{Wait: time.Minute}, func() { close(begun); <-end }, func() {})
				s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return desk }, nil))
				t.Cleanup(s.Close)
				endpoints[i] = s.URL
			}
			first := child.Start(t, "mcp agent", endpoints[0])
			select {
			case <-begun:
			case <-time.After(waits.Patience):
				t.Fatalf("the agent has not called the tool")
			}
			assert.NoError(t, first.Cmd.Process.Kill(), "kill the agent")
			assert.True(t, first.Wait(t), "the agent was killed")
			close(end)
			for _, endpoint := range []string{endpoints[1], endpoints[0]} {
				res, err := callPay(t.Context(), connectTools(t, &mcp.StreamableClientTransport{Endpoint: endpoint}))
				assert.NoError(t, err, "pay again")
				assert.True(t, !res.IsError && mcpidem.Replayed(res), "the result: %+v", res)
			}
			assert.Equal(t, countPayments(t, ledger), 1, "payments")
		})
	}
}

// TestMCPServerKilled: a server dies in the middle of a tool. The agent repeats its call at another
// server on the same store. Under Refuse it learns that the outcome is unknown, whether or not the
// payment was made. Under Reexecute a call whose payment was not made is made.
func TestMCPServerKilled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		when, onDoubt string
		payments      int
		reason        string
	}{
		{"before", "refuse", 0, "OUTCOME_UNKNOWN"},
		{"after", "refuse", 1, "OUTCOME_UNKNOWN"},
		{"before", "reexecute", 1, ""},
	} {
		for name, place := range toolStores(t) {
			if name == "memory" {
				continue // it dies with the server
			}
			t.Run(name+" "+tt.when+" "+tt.onDoubt, func(t *testing.T) {
				t.Parallel()
				ledger := filepath.Join(t.TempDir(), "ledger")
				args := []string{place.kind, place.where, place.prefix, ledger, tt.onDoubt}
				_, err := callPay(t.Context(), startDesk(t, append(args, tt.when)...))
				assert.True(t, err != nil, "the server has died")
				again := startDesk(t, append(args, "never")...)
				for i := range 2 {
					res, err := callPay(t.Context(), again)
					assert.NoError(t, err, "pay again")
					reason, _ := mcpidem.Reason(res)
					assert.Equal(t, reason, tt.reason, "repeat %d: %+v", i, res)
				}
				assert.Equal(t, countPayments(t, ledger), tt.payments, "payments")
			})
		}
	}
}
