package shardstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/shardstore"
	"github.com/retrysafe/retrysafe/storeapi"
	"github.com/retrysafe/retrysafe/storetest"
)

// TestBatchOverANewMap: a batch that meets a newer map in its middle sends the keys that this map
// has moved with its floor, so that no fence goes back.
func TestBatchOverANewMap(t *testing.T) {
	t.Parallel()
	for _, inBatch := range []bool{false, true} {
		x, y, local := storetest.NewClock(), storetest.NewClock(), storetest.NewClock()
		y.Advance(time.Hour)
		advance := func(d time.Duration) { x.Advance(d); y.Advance(d); local.Advance(d) }
		all := shards{"x": batching{memstore.New(&memstore.Options{Now: x.Now})}, "y": batching{memstore.New(&memstore.Options{Now: y.Now})}}
		s := open(t, all, nil) // map 1: x and y
		shardstore.SetClock(s, local.Now)
		m := s.Map()
		var atX, k2, k3 storeapi.StoreKey
		for i := range 100 {
			home, _ := m.Home(keyOf(i))
			switch {
			case home == "x":
				atX = keyOf(i)
			case k2.ID == "":
				k2 = keyOf(i)
			default:
				k3 = keyOf(i)
			}
		}
		// k3 was worked on at y, and its record is gone
		first := win(t, s, k3, 1)
		assert.NoError(t, s.Release(t.Context(), storeapi.ReleaseRequest{Key: k3, Owner: first.Owner, Fence: first.Fence, Retention: time.Second}), "release")
		advance(time.Minute)
		_, err := s.Sweep(t.Context(), 100)
		assert.NoError(t, err, "sweep")
		// the shards become x alone
		step := func() (*shardstore.Map, time.Duration) {
			m, wait, err := shardstore.Step(t.Context(), all, []string{"x"})
			assert.NoError(t, err, "step")
			return m, wait
		}
		m2, _ := step()
		assert.True(t, m2.Moving(), "announced")
		advance(6 * time.Second)
		_, err = s.Lookup(t.Context(), atX) // s knows map 2
		assert.NoError(t, err, "lookup")
		_, err = s.Lookup(t.Context(), k2)
		assert.NoError(t, err, "lookup")
		assert.Equal(t, s.Map().Number, int64(2), "map")
		advance(6 * time.Second)
		_, err = s.Lookup(t.Context(), atX) // a fresh look at x; that at y is old
		assert.NoError(t, err, "lookup")
		m3, _ := step()
		assert.Equal(t, m3.Number, int64(3), "ended")
		var got storeapi.Acquired
		if inBatch {
			r, err := s.AcquireBatch(t.Context(), []storeapi.AcquireRequest{ask(atX, 2), ask(k2, 2), ask(k3, 2)})
			assert.NoError(t, err, "batch")
			assert.NoError(t, r[2].Err, "k3")
			got = r[2].Value
		} else {
			_, _ = s.Acquire(t.Context(), ask(k2, 2))
			got, err = s.Acquire(t.Context(), ask(k3, 2))
			assert.NoError(t, err, "k3")
		}
		assert.Equal(t, got.Status, storeapi.StatusAcquired, "status")
		if got.Record.Fence <= first.Fence {
			t.Errorf("in a batch %v: the fence goes back from %d to %d (floor of the map: %d)", inBatch, first.Fence, got.Record.Fence, m3.Floor)
		}
	}
}

// batching makes batches of single calls.
type batching struct{ *memstore.Store }

func (b batching) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) (all []storeapi.BatchResult[storeapi.Acquired], err error) {
	for _, r := range reqs {
		got, err := b.Acquire(ctx, r)
		all = append(all, storeapi.BatchResult[storeapi.Acquired]{Value: got, Err: err})
	}
	return all, nil
}

func (b batching) ExtendBatch(ctx context.Context, reqs []storeapi.ExtendRequest) (all []error, err error) {
	return nil, errors.ErrUnsupported
}

func (b batching) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) (all []storeapi.BatchResult[storeapi.Record], err error) {
	return nil, errors.ErrUnsupported
}

func (b batching) ReleaseBatch(ctx context.Context, reqs []storeapi.ReleaseRequest) (all []error, err error) {
	return nil, errors.ErrUnsupported
}

type gone struct {
	*memstore.Store
	away *bool
}

func (g gone) Sweep(ctx context.Context, n int) (int, error) {
	if *g.away {
		return 0, errCut
	}
	return g.Store.Sweep(ctx, n)
}

// TestSweepPassesAShardThatIsAway: the other shards are swept, and the error says which is away.
func TestSweepPassesAShardThatIsAway(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	away := false
	a, b := memstore.New(&memstore.Options{Now: clock.Now}), memstore.New(&memstore.Options{Now: clock.Now})
	all := shards{"a": gone{a, &away}, "b": b}
	s := open(t, all, nil)
	for i := range 100 {
		rec := win(t, s, keyOf(i), 1)
		complete(t, s, rec, time.Second)
	}
	clock.Advance(time.Hour)
	before := b.Len()
	away = true
	n, err := s.Sweep(t.Context(), 1000)
	assert.ErrorIs(t, err, errCut, "error")
	assert.True(t, n > 0 && b.Len() == before-n, "swept %d of %d, %d are left", n, before, b.Len())
}

// TestReleasedTokensMove: a token whose use did nothing is good for its life. A change of shards
// takes it along.
func TestReleasedTokensMove(t *testing.T) {
	t.Parallel()
	clock, local := storetest.NewClock(), storetest.NewClock()
	advance := func(d time.Duration) { clock.Advance(d); local.Advance(d) }
	all := shards{"x": memstore.New(&memstore.Options{Now: clock.Now})}
	open(t, all, nil) // map 1: x
	all["y"] = memstore.New(&memstore.Options{Now: clock.Now})
	s := open(t, all, nil)
	shardstore.SetClock(s, local.Now)
	key := keyOf(1)
	st, err := s.Issue(t.Context(), storeapi.IssueRequest{Key: key, Owner: storeapi.Owner{9}, Retention: 24 * time.Hour})
	assert.True(t, err == nil && st == storeapi.StatusAcquired, "issued: %v %v", st, err)
	use := func(owner byte) storeapi.Acquired {
		req := ask(key, owner)
		req.MustBeIssued, req.Retention = true, 24*time.Hour
		got, err := s.Acquire(t.Context(), req)
		assert.NoError(t, err, "use of the token")
		return got
	}
	rec := use(1).Record
	back := storeapi.ReleaseRequest{Key: key, Owner: rec.Owner, Fence: rec.Fence, Cause: "nothing-done"}
	assert.NoError(t, s.Release(t.Context(), back), "nothing was done")
	var ended error
	for range 4 {
		_, _, err := shardstore.Step(t.Context(), all, []string{"y"})
		ended = errors.Join(ended, err)
		advance(20 * time.Second)
	}
	assert.NoError(t, ended, "the change")
	assert.Equal(t, s.Map().Names, []string{"x"}, "shards that this process knows yet")
	got := use(2)
	assert.Equal(t, s.Map().Names, []string{"y"}, "shards when it has looked")
	assert.True(t, got.Status == storeapi.StatusAcquired && got.Record.Issued && got.Record.Attempt == 2, "the token after the change: %+v", got)
}

// TestSlowCleaning: a process that still removes what a move has left, while another process has
// begun the next one, does not touch what that one has brought.
func TestSlowCleaning(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	all := memories(2, clock)
	s := open(t, shards{"a": all["a"]}, nil)
	rec := win(t, s, keyOf(2), 1)
	assert.NoError(t, s.Release(t.Context(), storeapi.ReleaseRequest{Key: rec.Key, Owner: rec.Owner, Fence: rec.Fence}), "release")
	assert.NoError(t, finish(t, all, []string{"b"}, clock), "the move to b")
	s = open(t, all, nil)
	m := s.Map()
	rec = win(t, s, keyOf(2), 2)
	assert.NoError(t, s.Release(t.Context(), storeapi.ReleaseRequest{Key: rec.Key, Owner: rec.Owner, Fence: rec.Fence}), "release")
	doubt := win(t, s, keyOf(5), 1) // holds up the move back
	announce(t, all, []string{"a"}, clock)
	s = open(t, all, nil)
	held := win(t, s, keyOf(1), 1)
	assert.True(t, finish(t, all, []string{"a"}, clock) != nil, "the move back, which copies what was released")
	complete(t, s, doubt, time.Hour)

	assert.NoError(t, shardstore.Clean(t.Context(), all, &m), "the slow process")
	assert.NoError(t, finish(t, all, []string{"a"}, clock), "the move back")
	s = open(t, all, nil)
	complete(t, s, held, time.Hour)
	assert.Equal(t, win(t, s, keyOf(2), 3).Attempt, 3, "attempt of the released record")
}
