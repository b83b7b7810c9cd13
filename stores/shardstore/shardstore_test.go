package shardstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

type shards = map[string]storeapi.Store

// memoryShards returns n empty stores with a common clock.
func memoryShards(n int, clock *storetest.Clock) shards {
	all := shards{}
	for i := range n {
		o := new(memstore.Options)
		if clock != nil {
			o.Now = clock.Now
		}
		all[string(rune('a'+i))] = memstore.New(o)
	}
	return all
}

func openStore(t *testing.T, all shards, o *shardstore.Options) *shardstore.Store {
	t.Helper()
	s, err := shardstore.New(t.Context(), all, o)
	assert.NoError(t, err, "New")
	return s
}

func keyOf(n int) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: storeapi.Key{Tenant: "ann", Operation: "pay", ID: fmt.Sprint(n)}}
}

func newRequest(key storeapi.StoreKey) storeapi.AcquireRequest {
	return storeapi.AcquireRequest{Key: key, Owner: storeapi.Owner{1}, Lease: time.Minute, Retention: time.Hour, OnDoubt: storeapi.Refuse}
}

// byLast is a Home that depends on the key's last character alone.
func byLast(names ...string) *shardstore.Options {
	return &shardstore.Options{Home: func(key storeapi.StoreKey) string {
		if key.ID == "" { // the counts of a tenant
			return names[0]
		}
		return names[int(key.ID[len(key.ID)-1])%len(names)]
	}}
}

// TestStore: the contract holds over shards, whether Pick or the application says which one is the
// home.
func TestStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n int
		o *shardstore.Options
	}{"one shard": {n: 1}, "three shards": {n: 3}, "homes by the application": {n: 3, o: byLast("a", "b", "c")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Backend {
				t.Helper()
				clock := storetest.NewClock()
				all := memoryShards(c.n, clock)
				return storetest.Backend{
					Store: openStore(t, all, c.o), Advance: clock.Advance, Rewind: clock.Rewind,
					Reopen: func() storeapi.Store { return openStore(t, all, c.o) },
				}
			}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true, Durable: true})
		})
	}
}

// TestHomes: each key has one home, in every process, and the records are there and nowhere else.
func TestHomes(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*shardstore.Options{"Pick": nil, "Options.Home": byLast("a", "b", "c")} {
		all := memoryShards(3, nil)
		one, two := openStore(t, all, o), openStore(t, all, o)
		used := map[string]int{}
		for i := range 300 {
			key := keyOf(i)
			home, err := one.Home(key)
			assert.NoError(t, err, "%s: home", name)
			other, err := two.Home(key)
			assert.NoError(t, err, "%s: home", name)
			assert.Equal(t, other, home, "%s: home in another process", name)
			_, err = one.Acquire(t.Context(), newRequest(key))
			assert.NoError(t, err, "%s: Acquire", name)
			for shard, s := range all {
				rec, err := s.Lookup(t.Context(), key)
				assert.NoError(t, err, "%s: Lookup", name)
				assert.Equal(t, rec.State != 0, shard == home, "%s: shard %s has the record of key %d, whose home is %s", name, shard, i, home)
			}
			used[home]++
		}
		assert.Equal(t, len(used), 3, "%s: shards in use: %v", name, used)
	}
}

// TestPickMovesFew: one more name takes keys from the others, and moves none between them.
func TestPickMovesFew(t *testing.T) {
	t.Parallel()
	moved := 0
	for i := range 1000 {
		before, after := shardstore.Pick([]string{"a", "b", "c"}, keyOf(i)), shardstore.Pick([]string{"d", "c", "a", "b"}, keyOf(i))
		if after != before {
			assert.Equal(t, after, "d", "the new home of key %d", i)
			moved++
		}
	}
	assert.True(t, moved > 150 && moved < 350, "%d of 1000 keys move to the fourth shard", moved)
	assert.Equal(t, shardstore.Pick(nil, keyOf(1)), "", "no names")
}

// TestUnknownHome: a Home that names no shard gets a clear error, and nothing is stored.
func TestUnknownHome(t *testing.T) {
	t.Parallel()
	all := memoryShards(2, nil)
	s := openStore(t, all, &shardstore.Options{Home: func(storeapi.StoreKey) string { return "mars" }})
	_, err := s.Acquire(t.Context(), newRequest(keyOf(1)))
	assert.ErrorIs(t, err, storeapi.ErrInvalidKey, "Acquire")
	assert.True(t, strings.Contains(err.Error(), `"mars"`) && strings.Contains(err.Error(), `["a" "b"]`), "the error names both: %v", err)
	_, err = s.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "n", Tenant: "ann", Keys: 1, For: time.Hour})
	assert.ErrorIs(t, err, storeapi.ErrInvalidKey, "Charge")
	got, err := s.AcquireBatch(t.Context(), []storeapi.AcquireRequest{newRequest(keyOf(1))})
	if !errors.Is(err, errors.ErrUnsupported) {
		assert.ErrorIs(t, got[0].Err, storeapi.ErrInvalidKey, "AcquireBatch")
	}
}

// away is a store that does not answer.
type away struct{ storeapi.Store }

var errAway = errors.New("connection refused")

func (away) Acquire(context.Context, storeapi.AcquireRequest) (storeapi.Acquired, error) {
	return storeapi.Acquired{}, errAway
}

func (away) Lookup(context.Context, storeapi.StoreKey) (storeapi.Record, error) {
	return storeapi.Record{}, errAway
}

// TestAway: a shard that does not answer makes its keys unavailable, and no others. They are sent
// nowhere else. A process can start meanwhile.
func TestAway(t *testing.T) {
	t.Parallel()
	all := memoryShards(3, nil)
	openStore(t, all, nil)
	s := openStore(t, shards{"a": all["a"], "b": &away{all["b"]}, "c": all["c"]}, nil)
	e := retrysafe.New(s, &retrysafe.Options{Namespace: "n"})
	defer func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Shutdown(ended) // a claim that may have reached b is given back in the background
	}()
	unavailable := false
	for i := range 20 {
		home, err := s.Home(storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: keyOf(i).Key})
		assert.NoError(t, err, "home")
		if home == "b" && unavailable {
			continue // each takes as long as a call waits for a store
		}
		_, err = retrysafe.Do(t.Context(), e, keyOf(i).Key, func(context.Context) (string, error) { return "paid", nil })
		if home == "b" {
			unavailable = true
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "key %d", i)
			assert.True(t, strings.Contains(err.Error(), `shard "b"`), "the error names the shard: %v", err)
			for _, other := range []string{"a", "c"} {
				rec, err := all[other].Lookup(t.Context(), keyOf(i))
				assert.True(t, err == nil && rec.State == 0, "key %d is in shard %s: %v, %v", i, other, rec, err)
			}
			continue
		}
		assert.NoError(t, err, "key %d, whose home is %s", i, home)
	}
	assert.True(t, unavailable, "a key of b was asked for")
}

// TestNewRefuses: a setup that cannot keep the guarantee is refused at the start.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	one := memstore.New(nil)
	for what, all := range map[string]shards{
		"no shards": {}, "nil": {"a": nil}, "no name": {"": one}, "white space": {"a b": one}, "not ASCII": {"ä": one},
		"too long": {strings.Repeat("x", 129): one}, "away": {"a": one, "b": &away{memstore.New(nil)}},
	} {
		_, err := shardstore.New(t.Context(), all, nil)
		assert.True(t, err != nil, "%s", what)
	}
}
