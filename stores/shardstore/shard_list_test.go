package shardstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestOtherList: a process with other shards, or with another kind of home, does not start, since
// its keys would run again elsewhere.
func TestOtherList(t *testing.T) {
	t.Parallel()
	all := memoryShards(3, nil)
	two := shards{"a": all["a"], "b": all["b"]}
	openStore(t, two, nil)
	openStore(t, two, nil)
	for what, c := range map[string]struct {
		with shards
		o    *shardstore.Options
	}{
		"one more": {with: all}, "one less": {with: shards{"a": all["a"]}}, "another name": {with: shards{"a": all["a"], "z": all["b"]}},
		"a Home": {with: two, o: byLast("a", "b")},
	} {
		_, err := shardstore.New(t.Context(), c.with, c.o)
		assert.True(t, err != nil && strings.Contains(err.Error(), "ChangeList") && strings.Contains(err.Error(), `["a" "b"]`), "%s: %v", what, err)
	}
	// one shard that answers is enough to know the list
	_, err := shardstore.New(t.Context(), shards{"a": &away{all["a"]}, "b": all["b"], "c": all["c"]}, nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), "ChangeList"), "with a shard that is away: %v", err)
}

// TestFirstList: shards that have records of keys whose home would be another shard are refused.
func TestFirstList(t *testing.T) {
	t.Parallel()
	all := memoryShards(2, nil)
	for i := range 20 {
		_, err := all["a"].Acquire(t.Context(), newRequest(keyOf(i)))
		assert.NoError(t, err, "Acquire")
	}
	var misplaced *shardstore.MisplacedError
	_, err := shardstore.New(t.Context(), all, nil)
	assert.True(t, errors.As(err, &misplaced), "New: %v", err)
	assert.True(t, misplaced.Shard == "a" && misplaced.Records > 0 && misplaced.Records < 20 && misplaced.First == "pay" && misplaced.Until.IsZero(), "%+v", misplaced)
	// they are at home there
	openStore(t, all, &shardstore.Options{Home: func(storeapi.StoreKey) string { return "a" }})
	openStore(t, shards{"x": memoryShards(1, nil)["a"]}, nil)
}

// TestChangeList: a list changes when no record would be lost, and not before.
func TestChangeList(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	all := memoryShards(3, clock)
	two := shards{"a": all["a"], "b": all["b"]}
	s := openStore(t, two, nil)
	for i := range 20 {
		got, err := s.Acquire(t.Context(), newRequest(keyOf(i)))
		assert.NoError(t, err, "Acquire")
		_, err = s.Complete(t.Context(), storeapi.CompleteRequest{Key: keyOf(i), Owner: storeapi.Owner{1}, Fence: got.Record.Fence, State: storeapi.StateCompleted})
		assert.NoError(t, err, "Complete")
	}
	ended := clock.Now().Add(time.Hour)
	var misplaced *shardstore.MisplacedError
	for _, names := range [][]string{{"a", "b", "c"}, {"a"}, {"b", "c"}} {
		err := shardstore.ChangeList(t.Context(), all, names, nil)
		assert.True(t, errors.As(err, &misplaced), "to %q: %v", names, err)
		assert.True(t, misplaced.Until.Equal(ended), "until %v, want %v", misplaced.Until, ended)
	}
	openStore(t, two, nil) // nothing was changed

	// Older keys stay where they are: no wait is needed.
	older := func(names ...string) *shardstore.Options {
		return &shardstore.Options{Home: func(key storeapi.StoreKey) string { return shardstore.Pick(names, key) }}
	}
	assert.NoError(t, shardstore.ChangeList(t.Context(), all, []string{"a", "b", "c"}, older("a", "b")), "with a Home")
	grown := openStore(t, all, older("a", "b"))
	rec, err := grown.Lookup(t.Context(), keyOf(1))
	assert.True(t, err == nil && rec.State == storeapi.StateCompleted, "an older key: %v, %v", rec, err)
	_, err = shardstore.New(t.Context(), two, nil)
	assert.True(t, err != nil, "a process with the list before starts again")

	clock.Advance(time.Hour + time.Second)
	assert.NoError(t, shardstore.ChangeList(t.Context(), all, []string{"b", "c"}, nil), "when all have expired")
	openStore(t, shards{"b": all["b"], "c": all["c"]}, nil)
	for _, old := range []shards{all, two, {"a": all["a"]}} {
		_, err := shardstore.New(t.Context(), old, nil)
		assert.True(t, err != nil, "a process with %d shards of the lists before", len(old))
	}
	assert.NoError(t, shardstore.ChangeList(t.Context(), all, []string{"b", "c"}, nil), "once more")
	err = shardstore.ChangeList(t.Context(), all, []string{"b", "mars"}, nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), `"mars"`), "an unknown shard: %v", err)
}

// stopping fails its writes from some call on.
type stopping struct {
	*memstore.Store
	left int
	// applied: the write that fails first is applied, and its reply is lost.
	applied bool
}

func (s *stopping) Acquire(ctx context.Context, req storeapi.AcquireRequest) (got storeapi.Acquired, err error) {
	s.left--
	if s.left >= 0 || s.left == -1 && s.applied {
		got, err = s.Store.Acquire(ctx, req)
	}
	if s.left < 0 && err == nil {
		err = errAway
	}
	return got, err
}

// TestListIsInterrupted: the list is written to one shard after the other. A process that dies
// between two of them, or does not get a reply, leaves nothing that a later one cannot finish.
func TestListIsInterrupted(t *testing.T) {
	t.Parallel()
	for writes := range 3 {
		for _, applied := range []bool{false, true} {
			all := memoryShards(3, nil)
			breaking := shards{}
			for i, name := range []string{"a", "b", "c"} {
				left := 1
				if i >= writes {
					left = 0
				}
				breaking[name] = &stopping{Store: all[name].(*memstore.Store), left: left, applied: applied} //nolint:errcheck,forcetypeassert // memories makes them
			}
			_, err := shardstore.New(t.Context(), breaking, nil)
			assert.Equal(t, err == nil, applied, "New that is interrupted after %d writes: %v", writes, err)
			openStore(t, all, nil)
			err = shardstore.ChangeList(t.Context(), all, []string{"a", "c"}, nil)
			assert.NoError(t, err, "ChangeList after that")
			openStore(t, shards{"a": all["a"], "c": all["c"]}, nil)
		}
	}
}

// TestTwoFirstLists: of two processes that begin with different shards, one is refused.
func TestTwoFirstLists(t *testing.T) {
	t.Parallel()
	all := memoryShards(3, nil)
	openStore(t, shards{"a": all["a"], "b": all["b"]}, nil)
	_, err := shardstore.New(t.Context(), shards{"b": all["b"], "c": all["c"]}, nil)
	assert.True(t, err != nil, "the second one starts")
}

// TestMapsOfTheFirstVersion: v0.1.0 kept numbered maps instead of the list. They are read, and a
// move that it has not ended is refused.
func TestMapsOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	write := func(s storeapi.Store, id, body string) {
		key := storeapi.StoreKey{Namespace: "retrysafe-shardstore", Layer: "map", Key: storeapi.Key{Operation: "map", ID: id}}
		got, err := s.Acquire(t.Context(), storeapi.AcquireRequest{Key: key, Owner: storeapi.Owner{2}, Lease: time.Second, Retention: storeapi.Forever, OnDoubt: storeapi.Reexecute})
		assert.NoError(t, err, "Acquire")
		_, err = s.Complete(t.Context(), storeapi.CompleteRequest{
			Key: key, Owner: storeapi.Owner{2}, Fence: got.Record.Fence, State: storeapi.StateCompleted, Retention: storeapi.Forever,
			Answer: storeapi.Answer{Codec: "shardmap", Body: []byte(body), Kept: true},
		})
		assert.NoError(t, err, "Complete")
	}
	all := memoryShards(2, nil)
	for _, s := range all {
		write(s, "1", `{"number":1,"names":["a"],"lease_ns":15000000000}`)
		write(s, "2", `{"number":2,"names":["a","b"],"was":["a"],"lease_ns":15000000000}`)
	}
	_, err := shardstore.New(t.Context(), all, nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), "end the move"), "in a move: %v", err)
	for _, s := range all {
		write(s, "3", `{"number":3,"names":["a","b"],"lease_ns":15000000000,"floor":7}`)
	}
	_, err = shardstore.New(t.Context(), shards{"a": all["a"]}, nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), `["a" "b"]`), "other shards: %v", err)
	openStore(t, all, nil)
	openStore(t, all, nil) // by the list that the first one has written
	page, err := openStore(t, all, nil).List(t.Context(), storeapi.ListRequest{})
	assert.True(t, err == nil && len(page.Records) == 0, "neither maps nor lists are records of a caller: %v, %v", page.Records, err)
}
