package retrysafe_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

var errWork = errors.New("the card machine is on fire")

// charge is a key. Each test has its own store.
var charge = retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "k-1"}

// bubble runs f with a fake clock, by which waiting takes no time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// engineOn returns an engine that is shut down with the test.
func engineOn(t *testing.T, s storeapi.Store, p retrysafe.Policy) *retrysafe.Engine {
	t.Helper()
	return engineWith(t, s, &retrysafe.Options{Policy: p, Sweep: -1, Secret: []byte("a secret of tests")})
}

func engineWith(t *testing.T, s storeapi.Store, o *retrysafe.Options) *retrysafe.Engine {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	e := retrysafe.New(s, o)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Shutdown(ctx)
	})
	return e
}

// crashed claims charge in a process that dies: its heartbeats stop, and its lease expires.
func crashed(t *testing.T, s storeapi.Store, p retrysafe.Policy) {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Policy: p})
	_, _, err := e.Begin(ctx, charge)
	assert.NoError(t, err, "begin")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_ = e.Shutdown(gone)
}

// counter is work that counts how often it was started.
type counter struct{ n atomic.Int64 }

func (c *counter) work(context.Context) (string, error) {
	return "receipt", c.fail(nil)
}

func (c *counter) fail(err error) error {
	c.n.Add(1)
	return err
}

func (c *counter) started(t *testing.T, want int64) {
	t.Helper()
	assert.Equal(t, c.n.Load(), want, "starts of the work")
}

// only returns a hook that faults the given calls of one op.
func only(op string, f storetest.Fault, from, to int) func(string, int) storetest.Fault {
	return func(o string, call int) storetest.Fault {
		if o == op && call >= from && call <= to {
			return f
		}
		return 0
	}
}

// outage faults every call while it is on.
type outage struct{ on atomic.Bool }

func (o *outage) hook(string, int) storetest.Fault {
	if o.on.Load() {
		return storetest.LoseRequest
	}
	return 0
}

func lookup(t *testing.T, e *retrysafe.Engine, k retrysafe.Key) retrysafe.Record {
	t.Helper()
	rec, err := e.Lookup(context.Background(), k)
	assert.NoError(t, err, "lookup")
	return rec
}

var ctx = context.Background()

func newStore() *memstore.Store { return memstore.New(nil) }

const long = 100 * time.Hour
