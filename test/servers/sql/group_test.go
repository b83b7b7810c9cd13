package sql_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// groupStorm lets processes acquire and release the same few keys at once, in any order: no call
// fails, and each success is one attempt.
func groupStorm(t *testing.T, stores ...*sqlstore.Store) {
	t.Helper()
	keys := numberedNames("key ", 8)
	wins := make([]atomic.Int32, len(keys))
	var all sync.WaitGroup
	for _, s := range stores {
		for w := range 12 {
			all.Go(func() {
				for round := range 10 {
					i := rand.N(len(keys))
					req := teststores.Request(keys[i])
					req.Owner = teststores.Owner(fmt.Sprintf("%p %d %d", s, w, round)[4:])
					a, err := s.Acquire(t.Context(), req)
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					if a.Status != storeapi.StatusAcquired {
						continue
					}
					wins[i].Add(1)
					held := storeapi.ExtendRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, Lease: time.Minute}
					if err := s.Extend(t.Context(), held); err != nil {
						t.Errorf("Extend: %v", err)
					}
					if err := s.Release(t.Context(), storeapi.ReleaseRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence}); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
	}
	all.Wait()
	for i, key := range keys {
		rec, err := stores[0].Lookup(t.Context(), teststores.Request(key).Key)
		assert.NoError(t, err, "Lookup")
		assert.Equal(t, int32(rec.Attempt), wins[i].Load(), "attempts of %s", key)
	}
}

// groupBesideHeldRows: rows that another transaction holds block only the calls for those rows.
func groupBesideHeldRows(t *testing.T, s *sqlstore.Store, hold func(storeapi.StoreKey) (release func())) {
	t.Helper()
	there := teststores.Request("there")
	a, err := s.Acquire(t.Context(), there)
	assert.NoError(t, err, "Acquire")
	free := []func(){hold(there.Key), hold(teststores.Request("absent").Key)}
	ends := make(chan error, 2)
	go func() {
		ends <- s.Release(t.Context(), storeapi.ReleaseRequest{Key: there.Key, Owner: there.Owner, Fence: a.Record.Fence})
	}()
	go func() { _, err := s.Acquire(t.Context(), teststores.Request("absent")); ends <- err }()
	var others sync.WaitGroup
	for w := range 8 {
		others.Go(func() {
			for i := range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
				a, err := s.Acquire(ctx, teststores.Request(fmt.Sprint(w, i)))
				cancel()
				if err != nil || a.Status != storeapi.StatusAcquired {
					t.Errorf("a call for another key: %d, %v", a.Status, err)
				}
			}
		})
	}
	others.Wait()
	select {
	case err := <-ends:
		t.Errorf("a call for a row that is held has ended: %v", err)
	default:
	}
	for _, f := range free {
		f()
	}
	for range 2 {
		assert.NoError(t, waits.Soon(t, ends, "a call for a row that was held"), "a call for a row that was held")
	}
}

// groupRepeats makes many concurrent calls, and repeats those whose outcome is unknown: every key
// has one attempt.
func groupRepeats(t *testing.T, s *sqlstore.Store) (unknown int) {
	t.Helper()
	keys := numberedNames("key ", 40)
	failed := make([]bool, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() { _, err := s.Acquire(t.Context(), teststores.Request(key)); failed[i] = err != nil })
	}
	all.Wait()
	for i, key := range keys {
		a, err := s.Acquire(t.Context(), teststores.Request(key))
		assert.NoError(t, err, "Acquire again")
		assert.Equal(t, a.Status, storeapi.StatusAcquired, "Acquire again by the same owner")
		assert.Equal(t, a.Record.Attempt, 1, "attempts of %s", key)
		if failed[i] {
			unknown++
		}
	}
	return unknown
}
