package redislock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/redisclient"
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

// TestVotesAreBounded: the vote of a lock whose release no server has answered is kept no longer
// than the servers can have it. One that is extended stays.
func TestVotesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &Quorum{need: 2, votes: map[retrysafe.Owner]vote{}}
		for range 3 {
			b, err := newBackend(new(mute), nil)
			assert.NoError(t, err, "a backend")
			q.servers = append(q.servers, b)
		}
		request := func(i int) lock.Request {
			return lock.Request{Name: "x", Owner: retrysafe.Owner{byte(i), byte(i >> 8), byte(i >> 16)}, Lease: 10 * time.Second}
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
