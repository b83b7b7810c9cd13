package http_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

func init() {
	child.Parts["mcp desk"] = playDesk
	child.Parts["mcp agent"] = playAgent
}

// toolStore says where servers of tools keep their records.
type toolStore struct {
	kind, where, prefix string
	memory              storeapi.Store // of the servers of one test
}

// openStore opens the store as a server of its own does.
func (s toolStore) openStore(ctx context.Context) (storeapi.Store, error) {
	silent := slog.New(slog.DiscardHandler)
	switch s.kind {
	case "memory":
		return s.memory, nil
	case "sqlite":
		db, err := sql.Open("sqlite", sqltest.SQLiteDSN(s.where))
		if err != nil {
			return nil, err
		}
		store, err := sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{LockWait: time.Minute, Logger: silent})
		if err != nil {
			return nil, err
		}
		return store, store.Migrate(ctx)
	}
	at, err := redisclient.ParseURL("redis://" + s.where)
	if err != nil {
		return nil, err
	}
	client, err := rueidisclient.Open(at)
	if err != nil {
		return nil, err
	}
	return redisstore.New(ctx, client, &redisstore.Options{Prefix: s.prefix, Logger: silent})
}

// toolStores are a store of each kind.
func toolStores(t *testing.T) map[string]toolStore {
	t.Helper()
	return map[string]toolStore{
		"memory": {kind: "memory", memory: memstore.New(nil)},
		"sqlite": {kind: "sqlite", where: sqltest.NewFile(t)},
		"redis":  {kind: "redis", where: servers.RedisKinds[0].Shared.Get(t).Addr, prefix: servers.RedisPrefix()},
	}
}

type toolPayment struct {
	Amount int `json:"amount"`
}

// newToolServer returns a server with a tool that pays: it adds a line to the ledger. before and
// after run around that.
func newToolServer(e *retrysafe.Engine, ledger string, p retrysafe.Policy, before, after func()) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "desk"}, &mcp.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
	mcp.AddTool(s, &mcp.Tool{Name: "pay"}, func(_ context.Context, _ *mcp.CallToolRequest, in toolPayment) (*mcp.CallToolResult, any, error) {
		before()
		f, err := os.OpenFile(ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, retrysafe.NothingDone(err)
		}
		_, err = fmt.Fprintln(f, "paid", in.Amount)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, nil, err
		}
		after()
		return nil, "paid", nil
	})
	s.AddReceivingMiddleware(mcpidem.Server(e, &mcpidem.Options{Tenant: mcpidem.Global, Policy: p}))
	return s
}

func newToolEngine(s storeapi.Store) *retrysafe.Engine {
	return retrysafe.New(s, &retrysafe.Options{
		Namespace: "app", Secret: []byte("0123456789abcdef"), Sweep: -1, Logger: slog.New(slog.DiscardHandler),
	})
}

// countPayments returns how many payments a ledger has.
func countPayments(t *testing.T, ledger string) int {
	t.Helper()
	text, err := os.ReadFile(ledger)
	if !os.IsNotExist(err) {
		assert.NoError(t, err, "read the ledger")
	}
	return strings.Count(string(text), "paid")
}

// playDesk serves tools over standard input and output. Arguments: kind, place and prefix of the
// store, ledger, policy for a doubt, and when it dies: "never", or "before" or "after" the payment.
func playDesk(args []string) error {
	ctx := context.Background()
	store, err := toolStore{kind: args[0], where: args[1], prefix: args[2]}.openStore(ctx)
	if err != nil {
		return err
	}
	at := func(when string) func() {
		return func() {
			if args[5] == when {
				child.Die()
			}
		}
	}
	p := retrysafe.Policy{Lease: 10 * time.Second, Wait: time.Minute, OnDoubt: retrysafe.Refuse}
	if args[4] == "reexecute" {
		p.OnDoubt = retrysafe.Reexecute
	}
	e := newToolEngine(store)
	err = newToolServer(e, args[3], p, at("before"), at("after")).Run(ctx, &mcp.StdioTransport{})
	return errors.Join(err, e.Shutdown(ctx))
}

// startDesk starts a server of tools as a process, and connects to it.
func startDesk(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	exe, err := os.Executable()
	assert.NoError(t, err, "find the test binary")
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), child.ChildEnv+"=mcp desk")
	cmd.Stderr = os.Stderr
	return connectTools(t, &mcp.CommandTransport{Command: cmd})
}

// connectTools connects an agent to a server of tools.
func connectTools(t *testing.T, by mcp.Transport) *mcp.ClientSession {
	t.Helper()
	s, err := newAgent().Connect(t.Context(), by, nil)
	assert.NoError(t, err, "connect")
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newAgent() *mcp.Client {
	c := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
	c.AddSendingMiddleware(mcpidem.Client(nil))
	return c
}

// callPay calls the tool with the key of an order.
func callPay(ctx context.Context, s *mcp.ClientSession) (*mcp.CallToolResult, error) {
	return s.CallTool(httpidem.ContextWithKey(ctx, "order-7"), &mcp.CallToolParams{Name: "pay", Arguments: toolPayment{10}})
}

// playAgent pays over HTTP. Arguments: the endpoint.
func playAgent(args []string) error {
	ctx := context.Background()
	s, err := newAgent().Connect(ctx, &mcp.StreamableClientTransport{Endpoint: args[0]}, nil)
	if err != nil {
		return err
	}
	_, err = callPay(ctx, s)
	return errors.Join(errors.New("the agent was not killed"), err)
}
