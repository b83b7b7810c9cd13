package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/linear"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// linearRun makes histories on a store behind a proxy that loses messages, and checks each. It
// returns those that no order explains.
func linearRun(t *testing.T, adapter string, rounds int, wrap func(storeapi.Store, *servers.Redis) storeapi.Store) (bad [][]porcupine.Operation) {
	t.Helper()
	server := servers.StartRedis(t)
	p := servers.StartRedisProxy(t, server.Addr)
	var s storeapi.Store = teststores.Redis(t, p.Through(t, adapter), nil)
	if wrap != nil {
		s = wrap(s, server)
	}
	seed := uint64(time.Now().UnixNano())
	weather := rand.New(rand.NewPCG(seed, 99))
	var cuts atomic.Int64
	known := func() int64 { return 0 }
	kinds := []servers.Cut{servers.LoseReply, servers.LoseReply, servers.LoseRequest, servers.LateRequest}
	if adapter != "rueidis" {
		// what such a client sends again must not arrive twice: the store does not know about it
		kinds, known = kinds[:3], cuts.Load
	}
	p.SetHook(func(string, int) servers.Cut { // under the proxy's lock
		if weather.IntN(30) == 0 {
			cuts.Add(1)
			return kinds[weather.IntN(len(kinds))]
		}
		return 0
	})
	ctx, stop := context.WithCancel(t.Context())
	delivered := make(chan int)
	go func() { // late messages arrive after a while
		n := 0
		for ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
			n += p.Deliver()
		}
		delivered <- n
	}()
	calls, unknowns, undecided := 0, 0, 0
	for round := range rounds {
		ops, unknown := linear.History(t, func(int) storeapi.Store { return s }, teststores.OrderStoreKey(fmt.Sprint(round)), seed+uint64(round), known)
		calls, unknowns = calls+len(ops), unknowns+unknown
		switch porcupine.CheckOperationsTimeout(linear.Model, ops, time.Minute) {
		case porcupine.Illegal:
			bad = append(bad, ops)
		case porcupine.Unknown:
			undecided++
		}
	}
	stop()
	t.Logf("seed %d: %d histories, %d calls, %d of them without an answer, %d came late, %d histories not decided in time, %d without an order",
		seed, rounds, calls, unknowns, <-delivered, undecided, len(bad))
	assert.True(t, undecided <= rounds/10, "nearly all histories are decided")
	return bad
}

// TestRedisLinearizable: whatever a proxy loses, some order of the calls for a key explains what
// its callers got.
func TestRedisLinearizable(t *testing.T) {
	t.Parallel()
	checkLinearizable(t, 100)
}

func TestSoakRedisLinearizable(t *testing.T) {
	t.Parallel()
	rounds := 10
	if waits.LongSoak() {
		rounds = 5_000
	}
	checkLinearizable(t, rounds)
}

func checkLinearizable(t *testing.T, rounds int) {
	t.Helper()
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			for _, ops := range linearRun(t, adapter, rounds, nil) {
				for _, op := range ops {
					t.Logf("%9d-%9d caller %d: %s", op.Call, op.Return, op.ClientId, linear.Described(op))
				}
				t.Fatal("no order of these calls explains what their callers were told")
			}
		})
	}
}

// wiping is a store with a fault: Release of a finished record removes it.
type wiping struct {
	storeapi.Store
	server *servers.Redis
}

func (w *wiping) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	err := w.Store.Release(ctx, req)
	if errors.Is(err, retrysafe.ErrLeaseLost) {
		if rec, look := w.Lookup(ctx, req.Key); look == nil && rec.Owner == req.Owner && rec.State.Finished() {
			text, _ := req.Key.MarshalText()
			servers.RedisDo(w.server.Addr, "DEL", "rs:"+string(text))
			return nil
		}
	}
	return err
}

// TestRedisLinearizableFails: the check finds a faulty store.
func TestRedisLinearizableFails(t *testing.T) {
	t.Parallel()
	bad := linearRun(t, "rueidis", 80, func(s storeapi.Store, server *servers.Redis) storeapi.Store { return &wiping{s, server} })
	assert.True(t, len(bad) > 0, "histories that no order explains")
}
