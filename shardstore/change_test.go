package shardstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/shardstore"
	"github.com/retrysafe/retrysafe/storeapi"
	"github.com/retrysafe/retrysafe/storetest"
)

// brief is a lease of maps that is short enough to wait for.
var brief = &shardstore.Options{Lease: 20 * time.Millisecond}

func keyOf(i int) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: storeapi.Key{Operation: "pay", ID: fmt.Sprint("key ", i)}}
}

func ask(key storeapi.StoreKey, owner byte) storeapi.AcquireRequest {
	return storeapi.AcquireRequest{
		Key: key, Owner: storeapi.Owner{owner, 1}, Lease: time.Hour, Retention: time.Hour, OnDoubt: storeapi.Refuse,
	}
}

func complete(t *testing.T, s storeapi.Store, rec storeapi.Record, keep time.Duration) {
	t.Helper()
	_, err := s.Complete(t.Context(), storeapi.CompleteRequest{
		Key: rec.Key, Owner: rec.Owner, Fence: rec.Fence, State: storeapi.StateCompleted, Retention: keep,
		Answer: storeapi.Answer{Codec: "raw", Body: []byte("done"), Kept: true},
	})
	assert.NoError(t, err, "Complete")
}

func win(t *testing.T, s storeapi.Store, key storeapi.StoreKey, owner byte) storeapi.Record {
	t.Helper()
	got, err := s.Acquire(t.Context(), ask(key, owner))
	assert.NoError(t, err, "Acquire")
	assert.Equal(t, got.Status, storeapi.StatusAcquired, "status of a claim that may run")
	return got.Record
}

var errCut = errors.New("connection cut")

// TestHomes: all processes agree on homes, for ever. A new shard takes its share from all others
// and moves nothing between them.
func TestHomes(t *testing.T) {
	t.Parallel()
	three := shardstore.Map{Names: []string{"a", "b", "c"}}
	four := shardstore.Map{Names: []string{"d", "c", "b", "a"}}
	count := map[string]int{}
	for i := range 8000 {
		was, _ := three.Home(keyOf(i))
		is, _ := four.Home(keyOf(i))
		assert.True(t, was == is || is == "d", "key %d moves from %s to %s and not to the shard that came", i, was, is)
		count[is]++
	}
	for name, n := range count {
		assert.True(t, n > 1700 && n < 2300, "shard %s has %d keys of 8000", name, n)
	}
	frozen := ""
	for i := range 12 {
		home, _ := four.Home(keyOf(i))
		frozen += home
	}
	assert.Equal(t, frozen, "acccddbaadcc", "homes of some keys, which never change")
}

// TestAway: a shard that does not answer makes only its own keys unavailable. They are not sent to
// another shard, also not by a new process.
func TestAway(t *testing.T) {
	t.Parallel()
	all := memories(3, nil)
	open(t, all, brief)
	down := new(atomic.Bool)
	all["b"] = &away{Store: all["b"], down: down}
	down.Store(true)
	s := open(t, all, nil)
	m := s.Map()
	served, refused := 0, 0
	for i := range 60 {
		home, _ := m.Home(keyOf(i))
		got, err := s.Acquire(t.Context(), ask(keyOf(i), 1))
		if home == "b" {
			assert.ErrorIs(t, err, storeapi.ErrUnavailable, "a key whose home is away")
			refused++
			continue
		}
		assert.NoError(t, err, "a key whose home is there")
		assert.Equal(t, got.Status, storeapi.StatusAcquired, "status of a key whose home is there")
		served++
	}
	assert.True(t, served > 20 && refused > 5, "%d served, %d refused", served, refused)
	down.Store(false)
	for i := range 60 {
		if home, _ := m.Home(keyOf(i)); home == "b" {
			win(t, s, keyOf(i), 2)
		}
	}
	down.Store(true)
	_, err := shardstore.Change(t.Context(), all, []string{"a", "c"})
	assert.ErrorIs(t, err, storeapi.ErrUnavailable, "a change without one of the shards")
	assert.Equal(t, s.Map().Names, []string{"a", "b", "c"}, "shards after a change that did not begin")
	_, err = shardstore.New(t.Context(), shards{"x": memstore.New(nil), "y": &away{Store: memstore.New(nil), down: down}}, nil)
	assert.ErrorIs(t, err, storeapi.ErrUnavailable, "a first map without one of the shards")
}

// away is a shard that can be cut off.
type away struct {
	storeapi.Store
	down *atomic.Bool
}

func (a *away) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if a.down.Load() {
		return storeapi.Acquired{}, errCut
	}
	return a.Store.Acquire(ctx, req)
}

func (a *away) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	if a.down.Load() {
		return storeapi.Record{}, errCut
	}
	return a.Store.Lookup(ctx, key)
}

// TestChange makes a change step by step: blocking records are reported, and none of them is lost.
func TestChange(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	all := memories(2, clock)
	s := open(t, shards{"a": all["a"]}, nil)
	old := win(t, s, keyOf(1), 1)
	doubt := win(t, s, keyOf(2), 1)
	assert.NoError(t, s.Release(t.Context(), storeapi.ReleaseRequest{Key: doubt.Key, Owner: doubt.Owner, Fence: doubt.Fence, InDoubt: true}), "doubt")
	announce(t, all, []string{"b"}, clock)

	stale := s // knows only a: the map names a shard that it was not given
	_, err := stale.Acquire(t.Context(), ask(keyOf(1), 9))
	assert.ErrorIs(t, err, storeapi.ErrUnavailable, "a process that was not given the new shard")
	s = open(t, all, nil)
	complete(t, s, old, time.Hour)
	moving := win(t, s, keyOf(3), 1)
	_, err = s.Home(t.Context(), keyOf(3))
	assert.ErrorIs(t, err, storeapi.ErrUnavailable, "the home of a key that moves")

	step := func() error {
		_, left, err := shardstore.Step(t.Context(), all, []string{"b"})
		clock.Advance(left)
		return err
	}
	assert.NoError(t, step(), "wait for the lease")
	var blocked *shardstore.BlockedError
	assert.True(t, errors.As(step(), &blocked), "old records stand in the way")
	assert.Equal(t, blocked.Records, 1, "records in the way: one in doubt; not one that was completed, which is copied, nor one that both have")
	copied, err := s.Acquire(t.Context(), ask(keyOf(1), 5))
	assert.NoError(t, err, "a repeat of what was copied")
	assert.Equal(t, string(copied.Record.Answer.Body), "done", "answer of what was copied")
	assert.True(t, blocked.Shard == "a" && blocked.Until.IsZero(), "a doubt does not expire: %v", blocked)
	req := ask(keyOf(2), 7)
	req.IfFence = doubt.Fence
	got, err := s.Acquire(t.Context(), req)
	assert.NoError(t, err, "resolve")
	complete(t, s, got.Record, time.Minute)
	clock.Advance(time.Hour + time.Second)
	complete(t, s, moving, time.Hour)
	assert.NoError(t, step(), "the end of the move")
	assert.NoError(t, step(), "what is left is cleaned")
	m, left, err := shardstore.Step(t.Context(), all, []string{"b"})
	assert.True(t, err == nil && left == 0 && !m.Moving() && m.Number == 3, "the change is done: %+v %v %v", m, left, err)
	answer, err := s.Acquire(t.Context(), ask(keyOf(3), 8))
	assert.NoError(t, err, "a repeat after the move")
	assert.Equal(t, answer.Status, storeapi.StatusFinished, "status of a repeat after the move")
	home, err := s.Home(t.Context(), keyOf(3))
	assert.True(t, err == nil && home == "b", "home after the move: %s %v", home, err)
	again := win(t, s, keyOf(1), 1)
	assert.True(t, again.Fence > old.Fence, "the fence grows over the move")
}

// TestFirstMap: records from before the first map stay where they are.
func TestFirstMap(t *testing.T) {
	t.Parallel()
	used := memstore.New(nil)
	win(t, used, keyOf(1), 1)
	_, err := shardstore.New(t.Context(), shards{"a": used, "b": memstore.New(nil)}, nil)
	assert.True(t, err != nil, "two shards, of which one has records")
	open(t, shards{"a": used}, nil)
	for name, wrong := range map[string]shards{"none": {}, "nil": {"a": nil}, "name": {"a b": memstore.New(nil)}} {
		_, err := shardstore.New(t.Context(), wrong, nil)
		assert.True(t, err != nil, "shards that are wrong: %s", name)
	}
	_, err = shardstore.New(t.Context(), shards{"c": memstore.New(nil)}, &shardstore.Options{Lease: time.Microsecond})
	assert.True(t, err != nil, "a lease that is too short")
	mine := storeapi.StoreKey{Namespace: "retrysafe-shardstore", Layer: "map", Key: storeapi.Key{Operation: "map", ID: "1"}}
	_, err = open(t, memories(2, nil), nil).Lookup(t.Context(), mine)
	assert.ErrorIs(t, err, storeapi.ErrInvalidKey, "the namespace of the maps")
}

// TestRace: callers hammer keys through several handles while shards are added and removed. No key
// runs twice.
func TestRace(t *testing.T) {
	t.Parallel()
	all := memories(4, nil)
	open(t, shards{"a": all["a"]}, brief)
	var handles []*shardstore.Store
	for range 3 {
		handles = append(handles, open(t, all, nil))
	}
	const keys = 100_000
	var runs [keys]atomic.Int32
	var ended [keys]atomic.Int64 // since began
	var expired atomic.Int64     // keys whose second caller came after the answer had expired
	began := time.Now()
	var calls atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for g := range 6 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				i := int(calls.Add(1) / 6) // the same key for six callers, at about the same time
				if i >= keys {
					return
				}
				req := ask(keyOf(i), byte(g+1))
				got, err := handles[g%3].Acquire(t.Context(), req)
				if err != nil { // briefly unavailable: given back, as the engine does
					settle(t, func() error { return giveBack(t, handles[g%3], req) })
				} else if got.Status == storeapi.StatusAcquired {
					if n, end := runs[i].Add(1), ended[i].Load(); n > 1 && (end == 0 || time.Since(began) < time.Duration(end)+900*time.Millisecond) {
						t.Errorf("key %d ran again; the first run had ended at %v, and now it is %v", i, time.Duration(end), time.Since(began))
					} else if n > 1 {
						expired.Add(1)
					}
					// the retention of the answer does not begin before this
					ended[i].Store(int64(time.Since(began)))
					settle(t, func() error {
						_, err := handles[g%3].Complete(t.Context(), storeapi.CompleteRequest{
							Key: req.Key, Owner: req.Owner, Fence: got.Record.Fence, State: storeapi.StateCompleted,
							Answer: storeapi.Answer{Codec: "raw", Body: []byte("x"), Kept: true}, Retention: time.Second,
						})
						return err
					})
				}
			}
		})
	}
	moves := 0
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "c"}, {"b", "c", "d"}} {
		for {
			_, err := shardstore.Change(t.Context(), all, names)
			var blocked *shardstore.BlockedError
			if errors.As(err, &blocked) {
				<-time.After(20 * time.Millisecond) // records expire
				continue
			}
			assert.NoError(t, err, "Change")
			moves++
			break
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d moves beside %d calls; %d keys ran again when their answers had expired", moves, calls.Load(), expired.Load())
}

// settle repeats a call until it is answered.
func settle(t *testing.T, call func() error) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
		err := call()
		if err == nil || !errors.Is(err, storeapi.ErrUnavailable) {
			if err != nil {
				t.Errorf("a holder is told: %v", err)
			}
			return
		}
	}
	t.Error("a call was not answered for minutes")
}

// giveBack releases a claim that had no answer but may have succeeded.
func giveBack(t *testing.T, s storeapi.Store, req storeapi.AcquireRequest) error {
	t.Helper()
	rec, err := s.Lookup(t.Context(), req.Key)
	if err != nil || rec.State != storeapi.StateInProgress || rec.Owner != req.Owner {
		return err
	}
	err = s.Release(t.Context(), storeapi.ReleaseRequest{Key: req.Key, Owner: req.Owner, Fence: rec.Fence})
	if errors.Is(err, storeapi.ErrLeaseLost) {
		return nil
	}
	return err
}
