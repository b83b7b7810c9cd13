package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisstore"
)

// cutOff disconnects a replica from its primary until the returned function is called.
func cutOff(t *testing.T, primary, replica *redisServer) (mend func()) {
	t.Helper()
	redisDo(replica.addr, "CONFIG", "SET", "masterauth", "no such password")
	redisDo(primary.addr, "CLIENT", "KILL", "TYPE", "replica")
	eventually(t, "the replica is cut off", func() bool {
		redisDo(primary.addr, "CLIENT", "KILL", "TYPE", "replica")
		return !linked(primary)
	})
	return func() {
		redisDo(replica.addr, "CONFIG", "SET", "masterauth", "")
		eventually(t, "the replica is back", func() bool { return linked(primary) })
	}
}

// patientOn returns a store on the same server that waits for the replica as long as a busy machine
// takes.
func patientOn(t *testing.T, primary *redisServer) *redisstore.Store {
	t.Helper()
	return redisOn(t, rueidisTo(t, primary.addr), &redisstore.Options{Replicas: redisstore.All, ReplicaTime: time.Minute})
}

// TestRedisShortOfReplicas: while the replica is disconnected, nothing new runs and the caller gets
// an error that the store is unavailable. The key is released by itself.
func TestRedisShortOfReplicas(t *testing.T) {
	t.Parallel()
	for adapter, connect := range redisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			primary, replica := startCouple(t)
			s := redisOn(t, connect(t, "redis://"+primary.addr), &redisstore.Options{Replicas: redisstore.All, ReplicaTime: 100 * time.Millisecond})
			e := redisEngine(t, s, retrysafe.Policy{})
			patient := redisEngine(t, patientOn(t, primary), retrysafe.Policy{})
			var w work
			mend := cutOff(t, primary, replica)
			// Its claim is released after that.
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := retrysafe.Do(ctx, e, orderKey(adapter), w.run)
			assert.True(t, !errors.Is(err, retrysafe.ErrLeaseLost), "nothing was held that could be lost: %v", err)
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a claim that no replica has")
			assert.Contains(t, err.Error(), "0 of 1 replicas", "what it says")
			assert.Equal(t, w.runs.Load(), int64(0), "runs")
			mend()
			eventually(t, "the key is given back", func() bool {
				rec, err := e.Lookup(t.Context(), orderKey(adapter))
				return err == nil && rec.State == retrysafe.StateReleased
			})
			res, err := retrysafe.Do(t.Context(), patient, orderKey(adapter), w.run)
			assert.NoError(t, err, "the next call")
			assert.True(t, res.Stored && !res.Replayed, "it runs: %+v", res)
			assert.Equal(t, len(doubts(t, s)), 0, "records in doubt")
		})
	}
}

// TestRedisShortResolution: a resolution that too few replicas have leaves the key in doubt. That
// the resolver did nothing says nothing about the earlier attempt.
func TestRedisShortResolution(t *testing.T) {
	t.Parallel()
	primary, replica := startCouple(t)
	s := redisOn(t, rueidisTo(t, primary.addr), &redisstore.Options{Replicas: redisstore.All, ReplicaTime: 100 * time.Millisecond})
	e := redisEngine(t, s, retrysafe.Policy{})
	patient := redisEngine(t, patientOn(t, primary), retrysafe.Policy{})
	var w work
	_, err := retrysafe.Do(t.Context(), patient, orderKey("k"), func(ctx context.Context) (int64, error) {
		n, _ := w.run(ctx)
		return n, errFaultWork // it may have happened
	})
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "work that may have happened")
	rec, err := e.Lookup(t.Context(), orderKey("k"))
	assert.NoError(t, err, "look")
	mend := cutOff(t, primary, replica)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err = e.Resolve(ctx, orderKey("k"), retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.Done})
	mend()
	assert.True(t, err != nil, "a resolution that no replica has")
	eventually(t, "the key is in doubt again", func() bool {
		rec, err := e.Lookup(t.Context(), orderKey("k"))
		assert.NoError(t, err, "look")
		assert.True(t, rec.State == retrysafe.StateInProgress, "state is %v", rec.State)
		return rec.InDoubt()
	})
	_, err = retrysafe.Do(t.Context(), patient, orderKey("k"), w.run)
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a repeat")
	assert.Equal(t, w.runs.Load(), int64(1), "runs")
}
