package shardstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/shardstore"
	"github.com/retrysafe/retrysafe/storeapi"
	"github.com/retrysafe/retrysafe/storetest"
)

// payments counts the charges of a bank that knows each key once.
type payments map[string]int

// pay runs the work of key, which charges the bank with the key of its attempt, and then fails if
// its answer gets lost. It returns the number of the attempt.
func (p payments) pay(t *testing.T, s *shardstore.Store, key storeapi.Key, lost error) (n int) {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Namespace: "n", Policy: retrysafe.Policy{OnDoubt: storeapi.Reexecute}})
	defer func() { assert.NoError(t, e.Shutdown(t.Context()), "Shutdown") }()
	_, err := retrysafe.Do(t.Context(), e, key, func(ctx context.Context) (string, error) {
		a, _ := retrysafe.AttemptFrom(ctx)
		n = a.Number()
		p[a.KeyFor("charge")]++
		return "paid", lost
	})
	assert.True(t, errors.Is(err, lost), "the call returns %v; its work %v", err, lost)
	return n
}

// TestKeyForOverAMove: the key that the work sends to another service is the same after a change of
// shards. Otherwise that service would charge twice. Attempts are counted on.
func TestKeyForOverAMove(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	all := memories(3, clock)
	all["c"] = memstore.New(&memstore.Options{Now: func() time.Time { return clock.Now().Add(time.Hour) }})
	s := open(t, shards{"a": all["a"]}, nil)
	bank, cut := payments{}, errors.New("the connection was cut before the answer")
	before, within := keyOf(1).Key, keyOf(2).Key
	assert.Equal(t, bank.pay(t, s, before, cut), 1, "attempt")
	assert.Equal(t, bank.pay(t, s, within, cut), 1, "attempt")

	announce(t, all, []string{"b"}, clock)
	s = open(t, all, nil)
	assert.Equal(t, bank.pay(t, s, within, cut), 2, "attempt in the move")
	for i, names := range [][]string{{"b"}, {"c"}, {"a"}} {
		assert.NoError(t, finish(t, all, names, clock), "change to %q", names)
		s = open(t, all, nil)
		assert.Equal(t, bank.pay(t, s, before, cut), 2+i, "attempt on %q", names)
		assert.Equal(t, bank.pay(t, s, within, cut), 3+i, "attempt on %q", names)
	}
	bank.pay(t, s, before, nil)
	bank.pay(t, s, within, nil)
	assert.Equal(t, len(bank), 2, "keys at the bank, which charges once for each")
}

// losing loses the answers of its next releases.
type losing struct {
	*memstore.Store
	releases atomic.Int64
}

func (s *losing) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	err := s.Store.Release(ctx, req)
	if s.releases.Add(-1) >= 0 {
		return errCut
	}
	return err
}

// TestClaimsThatAreGivenBack: in a move the next home may give another fence, since it has removed
// a record with a larger one. The claim is given back, and the call claims the key again, also if
// the answer of that Release was lost. It is not told that its lease is lost.
func TestClaimsThatAreGivenBack(t *testing.T) {
	t.Parallel()
	for lost := range int64(3) {
		clock := storetest.NewClock()
		all := memories(2, clock)
		far := ask(keyOf(9), 1)
		far.MinFence = storeapi.Fence(clock.Now().Add(time.Hour).UnixMicro())
		got, err := all["b"].Acquire(t.Context(), far)
		assert.NoError(t, err, "a claim at b")
		complete(t, all["b"], got.Record, time.Second)
		a, b := &losing{Store: all["a"].(*memstore.Store)}, &losing{Store: all["b"].(*memstore.Store)} //nolint:errcheck,forcetypeassert // memories makes them
		all["a"], all["b"] = a, b
		open(t, shards{"a": a}, nil)
		announce(t, all, []string{"b"}, clock)
		clock.Advance(time.Minute)
		_, err = b.Store.Sweep(t.Context(), 100)
		assert.NoError(t, err, "Sweep")
		a.releases.Store(lost)
		b.releases.Store(lost)
		e := retrysafe.New(open(t, all, nil), &retrysafe.Options{Namespace: "n"})
		runs := 0
		res, err := retrysafe.Do(t.Context(), e, keyOf(1).Key, func(context.Context) (string, error) { runs++; return "paid", nil })
		assert.NoError(t, err, "the call, %d answers lost", lost)
		assert.True(t, res.Value == "paid" && runs == 1, "answer %q of %d runs", res.Value, runs)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_ = e.Shutdown(gone) // what it would give back waits for the clock, which stands still
	}
}
