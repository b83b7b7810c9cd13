package redis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// jump is a store that loses its server to one with another clock, while attempts run.
type jump struct {
	p                *servers.RedisProxy
	primary, replica *servers.Redis
	store            *redisstore.Store
	refuse, again    *retrysafe.Engine // the second engine is under Reexecute
	fences           map[string]retrysafe.Fence
}

// jumpLease is longer than a failover takes; heartbeats are sent after a third of it.
const jumpLease = 15 * time.Second

func newJump(t *testing.T, adapter string, shift time.Duration) *jump {
	t.Helper()
	j := &jump{primary: servers.StartRedis(t, "--repl-diskless-sync-delay", "0"), fences: map[string]retrysafe.Fence{}}
	host, port, _ := strings.Cut(j.primary.Addr, ":")
	j.replica = servers.RedisKinds[0].New(t)
	j.replica.Shift = shift
	j.replica.Start(t, t.TempDir(), "--repl-diskless-sync-delay", "0", "--replicaof", host+" "+port)
	waits.Eventually(t, "the replica follows", func() bool { return servers.Linked(j.primary) })
	j.p = servers.StartRedisProxy(t, j.primary.Addr)
	j.store = teststores.Redis(t, j.p.Through(t, adapter), nil)
	j.refuse = teststores.ShortEngine(t, j.store, retrysafe.Policy{Lease: jumpLease})
	j.again = teststores.ShortEngine(t, j.store, retrysafe.Policy{Lease: jumpLease, OnDoubt: retrysafe.Reexecute})
	return j
}

// promoteReplica makes the replica the primary, manually.
func (j *jump) promoteReplica(t *testing.T) {
	t.Helper()
	for id := range j.fences {
		rec := j.lookUp(t, id)
		j.fences[id] = rec.Fence
	}
	waits.Eventually(t, "the replica has everything", func() bool { return servers.Linked(j.primary) })
	j.p.Move(j.replica.Addr)
	j.primary.Murder()
	assert.Equal(t, servers.RedisDo(j.replica.Addr, "REPLICAOF", "NO", "ONE"), "OK", "failover")
}

func (j *jump) lookUp(t *testing.T, id string) (rec retrysafe.Record) {
	t.Helper()
	waits.Eventually(t, "a look", func() bool {
		var err error
		rec, err = j.store.Lookup(t.Context(), teststores.OrderStoreKey(id))
		return err == nil
	})
	return rec
}

// claimForDead claims a key for a process that then does nothing more.
func (j *jump) claimForDead(t *testing.T, id string, onDoubt retrysafe.OnDoubt, lease time.Duration) {
	t.Helper()
	got, err := j.store.Acquire(t.Context(), storeapi.AcquireRequest{
		Key: teststores.OrderStoreKey(id), Owner: storeapi.Owner{9}, Lease: lease, Retention: 24 * time.Hour, OnDoubt: onDoubt,
	})
	assert.NoError(t, err, "claim of %s", id)
	assert.Equal(t, got.Status, storeapi.StatusAcquired, "claim of %s", id)
	j.fences[id] = got.Record.Fence
}

// startWork starts work that runs until end is closed.
func startWork(t *testing.T, e *retrysafe.Engine, id string, end chan struct{}) (ended chan error) {
	t.Helper()
	began := make(chan struct{})
	ended = make(chan error, 1)
	go func() {
		_, err := retrysafe.Do(t.Context(), e, teststores.OrderKey(id), func(ctx context.Context) (string, error) {
			close(began)
			<-end
			return "the first", ctx.Err()
		})
		ended <- err
	}()
	<-began
	return ended
}

// makeRecords makes a record of every kind.
func (j *jump) makeRecords(t *testing.T) {
	t.Helper()
	_, err := retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey("done"), func(context.Context) (string, error) { return "kept", nil })
	assert.NoError(t, err, "done")
	_, err = retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey("brief"), func(context.Context) (string, error) { return "kept for half an hour", nil },
		retrysafe.WithPolicy(retrysafe.Policy{Retention: 30 * time.Minute}))
	assert.NoError(t, err, "brief")
	_, err = retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey("released"), func(context.Context) (string, error) { return "", retrysafe.NothingDone(errFaultWork) })
	assert.ErrorIs(t, err, errFaultWork, "released")
	_, err = retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey("doubt"), func(context.Context) (string, error) { return "", errFaultWork })
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "doubt")
	j.claimForDead(t, "dead", retrysafe.Refuse, 10*time.Minute)
	j.claimForDead(t, "dead, again", retrysafe.Reexecute, 10*time.Minute)
	j.claimForDead(t, "lapsed", retrysafe.Refuse, 20*time.Millisecond)
	waits.Eventually(t, "a lease lapses", func() bool { rec := j.lookUp(t, "lapsed"); return rec.InDoubt() })
	for _, id := range []string{"done", "brief", "released", "doubt"} {
		j.fences[id] = 0
	}
}

// makeExpired makes a record that expires at once, and returns its fence.
func (j *jump) makeExpired(t *testing.T) retrysafe.Fence {
	t.Helper()
	j.claimForDead(t, "gone", retrysafe.Refuse, time.Minute)
	fence := j.fences["gone"]
	delete(j.fences, "gone")
	_, err := j.store.Complete(t.Context(), storeapi.CompleteRequest{
		Key: teststores.OrderStoreKey("gone"), Owner: storeapi.Owner{9}, Fence: fence, State: retrysafe.StateCompleted, Retention: time.Millisecond,
	})
	assert.NoError(t, err, "complete")
	waits.Eventually(t, "it expires", func() bool { return j.lookUp(t, "gone").State == 0 })
	text, _ := teststores.OrderStoreKey("gone").MarshalText()
	// A replica whose clock lags has it until the primary removes it.
	waits.Eventually(t, "the replica has removed it", func() bool { return servers.RedisDo(j.replica.Addr, "EXISTS", "rs:"+string(text)) == "0" })
	return fence
}

// wantFences checks that no live record has a smaller fence than before, and that new claims get a
// larger one.
func (j *jump) wantFences(t *testing.T, won ...string) {
	t.Helper()
	for id, before := range j.fences {
		rec := j.lookUp(t, id)
		assert.True(t, rec.State == 0 || rec.Fence >= before, "fence of %s goes from %d back to %d", id, before, rec.Fence)
	}
	for _, id := range won {
		rec := j.lookUp(t, id)
		assert.True(t, rec.Fence > j.fences[id], "fence of %s, won anew: %d after %d", id, rec.Fence, j.fences[id])
	}
}

func runAnew(context.Context) (string, error) { return "anew", nil }

// TestRedisClockAhead: the server that takes over is an hour ahead. Leases end at once: under
// Refuse that is a doubt and nothing runs again, but the holder can still complete. Under Reexecute
// the next caller takes over. Answers are kept for an hour less.
func TestRedisClockAhead(t *testing.T) {
	t.Parallel()
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			j := newJump(t, adapter, time.Hour)
			j.makeRecords(t)
			end := make(chan struct{})
			held := startWork(t, j.refuse, "live", end)
			overtaken := startWork(t, j.again, "live, again", end)
			j.fences["live"], j.fences["live, again"] = 0, 0
			j.promoteReplica(t)

			rec := j.lookUp(t, "live")
			ahead := time.Until(rec.Now)
			assert.True(t, ahead > 50*time.Minute, "the clock is ahead by %v", ahead)
			t.Logf("right after the failover, lease left of a live attempt: %v", rec.LeaseLeft)
			res, err := retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey("live"), runAnew)
			assert.True(t, err != nil && (errors.Is(err, retrysafe.ErrInDoubt) || errors.Is(err, retrysafe.ErrInProgress)), "a repeat under Refuse: %+v %v", res, err)
			t.Logf("a repeat beside a live attempt under Refuse is told: %v", err)
			res, err = retrysafe.Do(t.Context(), j.again, teststores.OrderKey("live, again"), runAnew)
			t.Logf("a repeat beside a live attempt under Reexecute is told: %+v, %v", res, err)
			assert.True(t, err == nil && res.Value == "anew" || errors.Is(err, retrysafe.ErrInProgress), "a repeat under Reexecute")
			tookOver := err == nil

			for id, want := range map[string]error{"dead": retrysafe.ErrInDoubt, "doubt": retrysafe.ErrInDoubt, "lapsed": retrysafe.ErrInDoubt} {
				_, err = retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey(id), runAnew)
				assert.ErrorIs(t, err, want, "%s", id)
			}
			for id, want := range map[string]string{"done": "kept", "released": "anew", "brief": "anew"} {
				// An hour is more than half an hour.
				res, err = retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey(id), runAnew)
				assert.NoError(t, err, "%s", id)
				assert.Equal(t, res.Value, want, "answer of %s", id)
			}
			res, err = retrysafe.Do(t.Context(), j.again, teststores.OrderKey("dead, again"), runAnew)
			assert.NoError(t, err, "takeover of a dead attempt")
			assert.Equal(t, res.Attempt, 2, "its attempt")
			j.wantFences(t, "released", "brief", "dead, again")

			waits.Eventually(t, "a heartbeat renews the lease of the live attempt", func() bool { rec := j.lookUp(t, "live"); return rec.LeaseLeft > 0 })
			close(end)
			assert.NoError(t, <-held, "the live attempt under Refuse completes")
			err = <-overtaken
			assert.Equal(t, err != nil, tookOver, "the live attempt under Reexecute: %v", err)
			if tookOver {
				t.Logf("the overtaken attempt is told: %v", err)
			}
			res, err = retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey("live"), runAnew)
			assert.NoError(t, err, "a repeat")
			assert.Equal(t, res.Value, "the first", "answer of a repeat")
		})
	}
}

// TestRedisClockBehind: the server that takes over lags by an hour. Leases last an hour longer: a
// key whose holder is dead stays in progress, also one that was in doubt only by its lease. Live
// attempts and answers are as before.
func TestRedisClockBehind(t *testing.T) {
	t.Parallel()
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			j := newJump(t, adapter, -time.Hour)
			j.makeRecords(t)
			gone := j.makeExpired(t)
			end := make(chan struct{})
			held := startWork(t, j.refuse, "live", end)
			j.fences["live"] = 0
			j.promoteReplica(t)

			rec := j.lookUp(t, "live")
			behind := time.Since(rec.Now)
			assert.True(t, behind > 50*time.Minute, "the clock is behind by %v", behind)
			waits.Eventually(t, "a heartbeat makes the lease of a live attempt what it was", func() bool {
				rec := j.lookUp(t, "live")
				return rec.LeaseLeft > 0 && rec.LeaseLeft <= jumpLease
			})
			for id, want := range map[string]error{
				"live": retrysafe.ErrInProgress, "dead": retrysafe.ErrInProgress, "lapsed": retrysafe.ErrInProgress, "doubt": retrysafe.ErrInDoubt,
			} {
				_, err := retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey(id), runAnew)
				assert.ErrorIs(t, err, want, "%s", id)
			}
			_, err := retrysafe.Do(t.Context(), j.again, teststores.OrderKey("dead, again"), runAnew)
			assert.ErrorIs(t, err, retrysafe.ErrInProgress, "a dead attempt under Reexecute")
			for _, id := range []string{"dead", "dead, again", "lapsed"} {
				rec := j.lookUp(t, id)
				t.Logf("lease left of %q: %v", id, rec.LeaseLeft.Round(time.Second))
				assert.True(t, rec.LeaseLeft > 55*time.Minute && rec.LeaseLeft < 75*time.Minute, "lease left of %s: %v", id, rec.LeaseLeft)
			}
			for id, want := range map[string]string{"done": "kept", "brief": "kept for half an hour", "released": "anew"} {
				res, err := retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey(id), runAnew)
				assert.NoError(t, err, "%s", id)
				assert.Equal(t, res.Value, want, "answer of %s", id)
			}
			j.wantFences(t, "released")
			close(end)
			assert.NoError(t, <-held, "the live attempt completes")

			// A record that had expired before is forgotten, with its fence: only the clock bounds
			// the next.
			j.claimForDead(t, "gone", retrysafe.Refuse, time.Minute)
			t.Logf("fence of a key whose record had expired before the failover: %d, now %d", gone, j.fences["gone"])

			// An operator does not have to wait for the hour.
			rec = j.lookUp(t, "dead")
			err = j.refuse.Resolve(t.Context(), teststores.OrderKey("dead"), retrysafe.Resolution{Fence: rec.Fence, Force: true, Outcome: retrysafe.NotDone})
			assert.NoError(t, err, "resolve with force")
			_, err = retrysafe.Do(t.Context(), j.refuse, teststores.OrderKey("dead"), runAnew)
			assert.NoError(t, err, "a call after that")
			j.wantFences(t, "dead")
		})
	}
}
