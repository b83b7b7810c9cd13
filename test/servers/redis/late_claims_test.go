package redis_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestRedisClaimAfterItsTime: the server hangs while a claim is in flight, and reads it long after
// the caller has gone. It is not applied, and the next caller runs at once.
func TestRedisClaimAfterItsTime(t *testing.T) {
	t.Parallel()
	for adapter, connect := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			server := servers.StartRedis(t)
			s := teststores.Redis(t, connect(t, "redis://"+server.Addr), nil)
			e := teststores.ShortEngine(t, s, retrysafe.Policy{})
			var w work
			_, err := retrysafe.Do(t.Context(), e, teststores.OrderKey("before"), w.run)
			assert.NoError(t, err, "a call before")
			resume := sync.OnceFunc(server.Stall())
			t.Cleanup(resume)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = retrysafe.Do(ctx, e, teststores.OrderKey("k"), w.run)
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a call to a server that hangs")
			assert.ErrorIs(t, err, context.DeadlineExceeded, "a call to a server that hangs")
			time.Sleep(300 * time.Millisecond)
			resume()
			for range 50 { // at whatever point of its input the server hangs
				rec, err := s.Lookup(t.Context(), teststores.OrderStoreKey("k"))
				assert.NoError(t, err, "look")
				assert.Equal(t, rec.State, retrysafe.State(0), "state of a key whose claim came too late")
			}
			res, err := retrysafe.Do(t.Context(), e, teststores.OrderKey("k"), w.run)
			assert.NoError(t, err, "the next call")
			assert.True(t, res.Attempt == 1 && res.Stored, "it runs at once: %+v", res)
		})
	}
}

// TestRedisClaimOfACallerThatLeft: the server hangs for a moment, and the caller leaves. The claim
// is in time, but no caller wants it. It is released, although the caller has gone.
func TestRedisClaimOfACallerThatLeft(t *testing.T) {
	t.Parallel()
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			server := servers.StartRedis(t)
			p := servers.StartRedisProxy(t, server.Addr)
			s := teststores.Redis(t, p.Through(t, adapter), nil)
			e := teststores.ShortEngine(t, s, retrysafe.Policy{})
			var w work
			_, err := retrysafe.Do(t.Context(), e, teststores.OrderKey("before"), w.run)
			assert.NoError(t, err, "a call before")
			resume := sync.OnceFunc(server.Stall())
			t.Cleanup(resume)
			// the claim is in time for that long
			ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
			p.SetHook(func(script string, n int) servers.Cut {
				if script == "acquire" && n == 1 {
					cancel() // the claim is on its way
				}
				return 0
			})
			_, err = retrysafe.Do(ctx, e, teststores.OrderKey("k"), w.run)
			assert.ErrorIs(t, err, context.Canceled, "a call whose caller goes")
			resume()
			waits.Eventually(t, "the claim is there", func() bool {
				rec, err := s.Lookup(t.Context(), teststores.OrderStoreKey("k"))
				return err == nil && rec.State != 0
			})
			waits.Eventually(t, "it is given back", func() bool {
				rec, err := s.Lookup(t.Context(), teststores.OrderStoreKey("k"))
				return err == nil && rec.State == retrysafe.StateReleased
			})
			res, err := retrysafe.Do(t.Context(), e, teststores.OrderKey("k"), w.run)
			assert.NoError(t, err, "the next call")
			assert.True(t, res.Stored && !res.Replayed, "it runs: %+v", res)
			assert.Equal(t, w.runs.Load(), int64(2), "runs")
		})
	}
}
