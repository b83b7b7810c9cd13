package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// cutOff disconnects a replica from its primary until the returned function is called.
func cutOff(t *testing.T, primary, replica *servers.Redis) (mend func()) {
	t.Helper()
	servers.RedisDo(replica.Addr, "CONFIG", "SET", "masterauth", "no such password")
	servers.RedisDo(primary.Addr, "CLIENT", "KILL", "TYPE", "replica")
	waits.Eventually(t, "the replica is cut off", func() bool {
		servers.RedisDo(primary.Addr, "CLIENT", "KILL", "TYPE", "replica")
		return !servers.Linked(primary)
	})
	return func() {
		servers.RedisDo(replica.Addr, "CONFIG", "SET", "masterauth", "")
		waits.Eventually(t, "the replica is back", func() bool { return servers.Linked(primary) })
	}
}

// patientOn returns a store on the same server that waits for the replica as long as a busy machine
// takes.
func patientOn(t *testing.T, primary *servers.Redis) *redisstore.Store {
	t.Helper()
	return teststores.Redis(t, servers.RueidisTo(t, primary.Addr), &redisstore.Options{Replicas: redisstore.All, ReplicaTime: time.Minute})
}

// TestRedisShortOfReplicas: while the replica is disconnected, nothing new runs and the caller gets
// an error that the store is unavailable. The key is released by itself.
func TestRedisShortOfReplicas(t *testing.T) {
	t.Parallel()
	for adapter, connect := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			primary, replica := servers.StartCouple(t)
			s := teststores.Redis(t, connect(t, "redis://"+primary.Addr), &redisstore.Options{Replicas: redisstore.All, ReplicaTime: 100 * time.Millisecond})
			e := teststores.ShortEngine(t, s, retrysafe.Policy{})
			patient := teststores.ShortEngine(t, patientOn(t, primary), retrysafe.Policy{})
			var w work
			mend := cutOff(t, primary, replica)
			key, err := retrysafe.Key{}, error(nil)
			for n := range 20 { // on a slow machine no answer may come in time
				key = teststores.OrderKey(fmt.Sprint(adapter, n))
				// Its claim is released after that.
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				_, err = retrysafe.Do(ctx, e, key, w.run)
				cancel()
				if err == nil || strings.Contains(err.Error(), "replicas") {
					break
				}
			}
			assert.True(t, !errors.Is(err, retrysafe.ErrLeaseLost), "nothing was held that could be lost: %v", err)
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a claim that no replica has")
			assert.Contains(t, err.Error(), "0 of 1 replicas", "what it says")
			assert.Equal(t, w.runs.Load(), int64(0), "runs")
			mend()
			waits.Eventually(t, "the key is given back", func() bool {
				rec, err := e.Lookup(t.Context(), key)
				return err == nil && rec.State == retrysafe.StateReleased
			})
			res, err := retrysafe.Do(t.Context(), patient, key, w.run)
			assert.NoError(t, err, "the next call")
			assert.True(t, res.Stored && !res.Replayed, "it runs: %+v", res)
			assert.Equal(t, len(listInDoubt(t, s)), 0, "records in doubt")
		})
	}
}

// TestRedisShortResolution: a resolution that too few replicas have leaves the key in doubt. That
// the resolver did nothing says nothing about the earlier attempt.
func TestRedisShortResolution(t *testing.T) {
	t.Parallel()
	primary, replica := servers.StartCouple(t)
	s := teststores.Redis(t, servers.RueidisTo(t, primary.Addr), &redisstore.Options{Replicas: redisstore.All, ReplicaTime: 100 * time.Millisecond})
	e := teststores.ShortEngine(t, s, retrysafe.Policy{})
	patient := teststores.ShortEngine(t, patientOn(t, primary), retrysafe.Policy{})
	var w work
	_, err := retrysafe.Do(t.Context(), patient, teststores.OrderKey("k"), func(ctx context.Context) (int64, error) {
		n, _ := w.run(ctx)
		return n, errFaultWork // it may have happened
	})
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "work that may have happened")
	rec, err := e.Lookup(t.Context(), teststores.OrderKey("k"))
	assert.NoError(t, err, "look")
	mend := cutOff(t, primary, replica)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err = e.Resolve(ctx, teststores.OrderKey("k"), retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.Done})
	mend()
	assert.True(t, err != nil, "a resolution that no replica has")
	waits.Eventually(t, "the key is in doubt again", func() bool {
		rec, err := e.Lookup(t.Context(), teststores.OrderKey("k"))
		assert.NoError(t, err, "look")
		assert.True(t, rec.State == retrysafe.StateInProgress, "state is %v", rec.State)
		return rec.InDoubt()
	})
	_, err = retrysafe.Do(t.Context(), patient, teststores.OrderKey("k"), w.run)
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a repeat")
	assert.Equal(t, w.runs.Load(), int64(1), "runs")
}
