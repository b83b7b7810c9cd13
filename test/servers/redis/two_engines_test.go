package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestRedisTwoEngines sends every key to two engines with separate clients at the same time: it
// runs once, and both get the same answer. TestSoakRedisTwoEngines does it with more keys in the
// long run.
func TestRedisTwoEngines(t *testing.T) {
	t.Parallel()
	twoEngines(t, 1_000)
}

func TestSoakRedisTwoEngines(t *testing.T) {
	t.Parallel()
	if waits.LongSoak() {
		twoEngines(t, 50_000)
	} else {
		twoEngines(t, 100)
	}
}

func twoEngines(t *testing.T, keys int) {
	t.Helper()
	server := servers.StartRedis(t)
	var engines []*retrysafe.Engine
	for _, connect := range servers.RedisClients {
		s := teststores.Redis(t, connect(t, "redis://"+server.Addr), nil)
		engines = append(engines, teststores.ShortEngine(t, s, retrysafe.Policy{Wait: waits.Patience}))
	}
	var doubles, ran, replayed atomic.Int64
	var wrong sync.Map
	next := make(chan int)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range next {
				var runs atomic.Int64
				var answers [2]string
				var unstored atomic.Bool
				var both sync.WaitGroup
				for j, e := range engines {
					both.Go(func() {
						res, err := retrysafe.Do(t.Context(), e, teststores.OrderKey(fmt.Sprint(i)), func(context.Context) (string, error) {
							ran.Add(1)
							return fmt.Sprintf("engine %d, run %d of %d", j, runs.Add(1), i), nil
						})
						if !res.Stored { // the store took longer than a caller waits for that
							unstored.Store(true)
						}
						if err != nil {
							wrong.Store(fmt.Sprint(i), fmt.Sprint(res, err))
						}
						if res.Replayed {
							replayed.Add(1)
						}
						answers[j] = res.Value
					})
				}
				both.Wait()
				if unstored.Load() {
					res, err := retrysafe.Do(t.Context(), engines[0], teststores.OrderKey(fmt.Sprint(i)), func(context.Context) (string, error) {
						return fmt.Sprintf("a further run: %d", runs.Add(1)), nil
					})
					if err != nil || !res.Replayed || res.Value != answers[0] {
						wrong.Store(fmt.Sprint(i), fmt.Sprint("a duplicate: ", res, err))
					}
				}
				if runs.Load() != 1 {
					doubles.Add(1)
				}
				if answers[0] != answers[1] {
					wrong.Store(fmt.Sprint(i), fmt.Sprint(answers))
				}
			}
		})
	}
	for i := range keys {
		next <- i
	}
	close(next)
	all.Wait()
	t.Logf("%d calls of %d keys: %d runs, %d replays, %d doubles", 2*keys, keys, ran.Load(), replayed.Load(), doubles.Load())
	wrong.Range(func(key, what any) bool {
		t.Errorf("key %v: %v", key, what)
		return true
	})
	assert.Equal(t, doubles.Load(), int64(0), "keys that did not run once")
	assert.Equal(t, ran.Load(), int64(keys), "runs")
	assert.Equal(t, replayed.Load(), int64(keys), "replays")
}

// TestRedisScriptsFlushed: the server forgets its scripts again and again, between calls and during
// them. Nothing fails.
func TestRedisScriptsFlushed(t *testing.T) {
	t.Parallel()
	for adapter, connect := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			server := servers.StartRedis(t)
			s := teststores.Redis(t, connect(t, "redis://"+server.Addr), nil)
			e := teststores.ShortEngine(t, s, retrysafe.Policy{})
			ctx, stop := context.WithCancel(t.Context())
			var flushes atomic.Int64
			flusher := make(chan struct{})
			go func() {
				defer close(flusher)
				for ctx.Err() == nil {
					if servers.RedisDo(server.Addr, "SCRIPT", "FLUSH") == "OK" {
						flushes.Add(1)
					}
				}
			}()
			var errs sync.Map
			var all sync.WaitGroup
			for g := range 4 {
				all.Go(func() {
					for i := range 50 {
						id := fmt.Sprint(g, " ", i)
						for call := range 2 {
							res, err := retrysafe.Do(t.Context(), e, teststores.OrderKey(id), func(ctx context.Context) (int, error) { return i, ctx.Err() })
							if err != nil || !res.Stored || res.Value != i || res.Replayed != (call == 1) {
								errs.Store(id, fmt.Sprint(res, err))
							}
						}
						_, err := retrysafe.Do(t.Context(), e, teststores.OrderKey("not "+id), func(context.Context) (int, error) {
							return 0, retrysafe.NothingDone(errFaultWork)
						})
						if !errors.Is(err, errFaultWork) {
							errs.Store("not "+id, err)
						}
					}
				})
			}
			beats := storeapi.AcquireRequest{
				Key: teststores.OrderStoreKey("heartbeats"), Owner: storeapi.Owner{1}, Lease: time.Minute, Retention: time.Hour, OnDoubt: retrysafe.Refuse,
			}
			got, err := s.Acquire(t.Context(), beats)
			assert.NoError(t, err, "claim")
			for range 50 {
				err := s.Extend(t.Context(), storeapi.ExtendRequest{Key: beats.Key, Owner: beats.Owner, Fence: got.Record.Fence, Lease: time.Minute})
				assert.NoError(t, err, "heartbeat")
				_, err = s.List(t.Context(), storeapi.ListRequest{})
				assert.NoError(t, err, "list")
			}
			waits.Eventually(t, "flushes", func() bool { return flushes.Load() > 50 })
			all.Wait()
			stop()
			<-flusher
			t.Logf("%d flushes", flushes.Load())
			errs.Range(func(key, what any) bool {
				t.Errorf("key %v: %v", key, what)
				return true
			})
			page, err := s.List(t.Context(), storeapi.ListRequest{State: retrysafe.StateReleased, Limit: 1000})
			assert.NoError(t, err, "list")
			assert.Equal(t, len(page.Records), 200, "released records")
		})
	}
}
