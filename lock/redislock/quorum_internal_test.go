package redislock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// mute is a server that grants every lock and does not answer when one is released.
type mute struct{ fence atomic.Int64 }

var errCut = errors.New("connection cut")

func (m *mute) Eval(_ context.Context, c redisclient.Call) redisclient.Reply {
	switch c.Script {
	case unlockScript:
		return redisclient.Reply{Err: errCut}
	case lockScript:
		return redisclient.Reply{Value: m.fence.Add(1)}
	}
	return redisclient.Reply{Value: int64(1)}
}

// quorumOf returns a quorum without asking the servers for their configuration.
func quorumOf(t *testing.T, o *Options, clients ...redisclient.Client) *Quorum {
	t.Helper()
	q := &Quorum{majority: len(clients)/2 + 1, votes: map[storeapi.Owner]vote{}}
	for _, c := range clients {
		b, err := newBackend(c, o)
		assert.NoError(t, err, "a backend")
		q.servers, q.serverTime = append(q.servers, b), b.o.ServerTime
	}
	return q
}

// TestVotesAreBounded: the vote of a lock whose release no server has answered is kept no longer
// than the servers can have it. One that is extended stays.
func TestVotesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := quorumOf(t, nil, new(mute), new(mute), new(mute))
		request := func(i int) lock.Request {
			return lock.Request{Name: "x", Owner: storeapi.Owner{byte(i), byte(i >> 8), byte(i >> 16)}, Lease: 10 * time.Second}
		}
		held := request(1 << 20)
		_, err := q.TryLock(t.Context(), held)
		assert.NoError(t, err, "TryLock")
		for i := range 10_000 {
			r := request(i)
			_, err := q.TryLock(t.Context(), r)
			assert.NoError(t, err, "TryLock")
			assert.ErrorIs(t, q.Unlock(t.Context(), r), errCut, "Unlock")
			if i%50 == 0 {
				assert.NoError(t, q.Extend(t.Context(), held), "Extend of a lock that is held")
			}
			time.Sleep(100 * time.Millisecond)
		}
		// A lease is 100 locks here.
		assert.True(t, len(q.votes) < 1000, "votes: %d", len(q.votes))
		assert.NoError(t, q.Extend(t.Context(), held), "Extend of a lock that is held")
		time.Sleep(time.Minute)
		assert.ErrorIs(t, q.Extend(t.Context(), request(9999)), lock.ErrLost, "Extend of a lock that has ended")
	})
}

// TestVotesLastAsLongAsTheLease: the vote of a lock with a long lease outlives later calls that ask
// for a shorter one, as the lease on the servers does.
func TestVotesLastAsLongAsTheLease(t *testing.T) {
	t.Parallel()
	for name, shorter := range map[string]func(context.Context, *Quorum, lock.Request) error{
		"Extend": func(ctx context.Context, q *Quorum, r lock.Request) error { return q.Extend(ctx, r) },
		"TryLock": func(ctx context.Context, q *Quorum, r lock.Request) error {
			_, err := q.TryLock(ctx, r)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := quorumOf(t, nil, new(mute), new(mute), new(mute))
				r := lock.Request{Name: "x", Owner: storeapi.Owner{1}, Lease: 10 * time.Second}
				_, err := q.TryLock(t.Context(), r)
				assert.NoError(t, err, "TryLock")
				long := r
				long.Lease = time.Hour
				assert.NoError(t, q.Extend(t.Context(), long), "Extend to an hour")
				assert.NoError(t, shorter(t.Context(), q, r), "a call with the shorter lease")
				time.Sleep(59 * time.Minute)
				assert.NoError(t, q.Extend(t.Context(), r), "Extend within the hour")
			})
		})
	}
}

// slow is a server that needs 700 ms for each call.
type slow struct{ mute }

func (s *slow) Eval(ctx context.Context, c redisclient.Call) redisclient.Reply {
	select {
	case <-time.After(700 * time.Millisecond):
		return s.mute.Eval(ctx, c)
	case <-ctx.Done():
		return redisclient.Reply{Err: context.Cause(ctx)}
	}
}

// TestServerTime: a quorum whose majority is slow fails after ServerTime, and one that may wait
// longer gets the lock.
func TestServerTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := lock.Request{Name: "x", Owner: storeapi.Owner{1}, Lease: 10 * time.Second}
		began := time.Now()
		_, err := quorumOf(t, nil, new(mute), new(slow), new(slow)).TryLock(t.Context(), r)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "slower than the default")
		assert.Equal(t, time.Since(began), time.Second, "the lock and its release, 500 ms each")
		q := quorumOf(t, &Options{ServerTime: time.Second}, new(mute), new(slow), new(slow))
		_, err = q.TryLock(t.Context(), r)
		assert.NoError(t, err, "TryLock with a longer ServerTime")
		assert.NoError(t, q.Extend(t.Context(), r), "Extend with a longer ServerTime")
		time.Sleep(time.Second) // the servers that are still asked
	})
	_, err := newBackend(new(mute), &Options{ServerTime: -1})
	assert.Contains(t, err.Error(), "ServerTime -1ns", "no time at all")
}
