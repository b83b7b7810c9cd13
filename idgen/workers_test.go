package idgen_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/storetest"
)

var small = &idgen.WorkersOptions{Max: 3, Lease: 3 * time.Second}

func claim(t *testing.T, w *idgen.Workers) *idgen.Held {
	t.Helper()
	h, err := w.Claim(t.Context())
	assert.NoError(t, err, "Claim")
	return h
}

// TestClaims: each number has one holder, none is left when all are held, and what is released or died is held again.
func TestClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		w := idgen.NewWorkers(store, small)
		var held [3]*idgen.Held
		var all sync.WaitGroup
		for i := range held {
			all.Go(func() { held[i] = claim(t, w) })
		}
		all.Wait()
		numbers := map[uint64]bool{}
		for _, h := range held {
			numbers[h.Number()] = true
		}
		assert.Equal(t, len(numbers), 3, "numbers")
		_, err := w.Claim(t.Context())
		assert.ErrorIs(t, err, idgen.ErrNoWorker, "a fourth")
		time.Sleep(time.Minute) //nolint:forbidigo // the clock of the bubble
		_, err = w.Claim(t.Context())
		assert.ErrorIs(t, err, idgen.ErrNoWorker, "after a minute of heartbeats")

		assert.NoError(t, held[1].Release(t.Context()), "Release")
		<-held[1].Done()
		again := claim(t, w)
		assert.Equal(t, again.Number(), held[1].Number(), "the number that was given back")
		assert.True(t, again.Fence() > held[1].Fence(), "the fence grows")
		for _, h := range []*idgen.Held{held[0], held[2], again} {
			assert.NoError(t, h.Release(t.Context()), "Release")
		}
	})
}

// TestNextHolderStartsAbove: whatever an earlier holder has made, and may still make, the ids of the next one are above.
func TestNextHolderStartsAbove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &cut{Store: memstore.New(nil)}
		o := &idgen.WorkersOptions{Max: 1, Lease: 3 * time.Second}
		first := claim(t, idgen.NewWorkers(store, o))
		layout := idgen.Layout{TimeBits: 41, WorkerBits: 10, SequenceBits: 12, Unit: time.Millisecond, Epoch: time.Now().AddDate(-1, 0, 0)}
		g := snowflake(t, first, &idgen.Options{Layout: layout})
		next(t, g)
		store.away.Store(true) // the process is cut off from the store, and knows nothing of it yet
		time.Sleep(3 * time.Second)
		store.away.Store(false)
		second := claim(t, idgen.NewWorkers(store, o))
		h := snowflake(t, second, &idgen.Options{Layout: layout})
		low := next(t, h)
		for { // the first holder goes on as long as it can
			id, err := g.Next(t.Context())
			if err != nil {
				assert.ErrorIs(t, err, idgen.ErrReserved, "the end of the first holder")
				break
			}
			assert.True(t, id < low, "the first holder makes %d, and the next began with %d", id, low)
		}
		<-first.Done()
		assert.NoError(t, second.Release(t.Context()), "Release")
	})
}

// cut is a store that a process is cut off from.
type cut struct {
	retrysafe.Store
	away atomic.Bool
}

func (c *cut) Extend(ctx context.Context, r retrysafe.ExtendRequest) error {
	if c.away.Load() {
		return errors.New("no route to host")
	}
	return c.Store.Extend(ctx, r)
}

// TestStoreAway: ids go on for a lease while the store is away, and the number is kept if it comes back in time.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &cut{Store: memstore.New(nil)}
		held := claim(t, idgen.NewWorkers(store, small))
		layout := idgen.Layout{TimeBits: 41, WorkerBits: 10, SequenceBits: 12, Unit: time.Millisecond, Epoch: time.Now().AddDate(-1, 0, 0)}
		g := snowflake(t, held, &idgen.Options{Layout: layout})
		for range 5 {
			store.away.Store(true)
			time.Sleep(1900 * time.Millisecond)
			next(t, g)
			store.away.Store(false)
			time.Sleep(1100 * time.Millisecond)
			next(t, g)
		}
		store.away.Store(true)
		<-held.Done()
		time.Sleep(time.Second)
		_, err := g.Next(t.Context())
		assert.ErrorIs(t, err, idgen.ErrReserved, "after a lease")
		assert.NoError(t, held.Release(t.Context()), "Release")
	})
}

// TestClocksOfWorkers: a clock that is not the store's is refused, and a number that was reserved far ahead is passed over.
func TestClocksOfWorkers(t *testing.T) {
	t.Parallel()
	for off, ok := range map[time.Duration]bool{0: true, 200 * time.Millisecond: true, -200 * time.Millisecond: true, time.Second: false, -time.Second: false, time.Hour: false} {
		o := *small
		o.Now = func() time.Time { return time.Now().Add(off) }
		h, err := idgen.NewWorkers(memstore.New(nil), &o).Claim(t.Context())
		if !ok {
			assert.ErrorIs(t, err, idgen.ErrClockOff, "%v off", off)
			continue
		}
		assert.NoError(t, err, "%v off", off)
		assert.NoError(t, h.Release(t.Context()), "Release")
	}
	var back atomic.Int64
	store := memstore.New(&memstore.Options{Clock: func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }})
	o := &idgen.WorkersOptions{Max: 1, Lease: 3 * time.Second, Now: func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }}
	assert.NoError(t, claim(t, idgen.NewWorkers(store, o)).Release(t.Context()), "Release")
	back.Store(int64(time.Hour)) // all clocks go back
	_, err := idgen.NewWorkers(store, o).Claim(t.Context())
	assert.ErrorIs(t, err, idgen.ErrNoWorker, "the only number is reserved for an hour more")
}

// TestLostReplies: a claim or an extension whose reply was lost gives nobody a time that another one has.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"acquire", "extend", "release"} {
		for call := 1; call <= 3; call++ {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(nil)
				store := storetest.NewFaulty(mem, func(o string, n int) storetest.Fault {
					if o == op && n == call {
						return storetest.LoseReply
					}
					return 0
				})
				w := idgen.NewWorkers(store, &idgen.WorkersOptions{Max: 1, Lease: 3 * time.Second})
				layout := idgen.Layout{TimeBits: 41, WorkerBits: 10, SequenceBits: 12, Unit: time.Millisecond, Epoch: time.Now().AddDate(-1, 0, 0)}
				var last idgen.ID
				for holders, tries := 0, 0; holders < 4; tries++ {
					assert.True(t, tries < 50, "nobody gets the number any more")
					h, err := w.Claim(t.Context())
					if err != nil {
						time.Sleep(time.Second) // its lease lapses
						continue
					}
					holders++
					g := snowflake(t, h, &idgen.Options{Layout: layout})
					for range 3 {
						id := next(t, g)
						assert.True(t, id > last, "%s %d: %d follows %d", op, call, id, last)
						last = id
						time.Sleep(time.Second)
					}
					_ = h.Release(t.Context())
				}
			})
		}
	}
}

func TestWorkersOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*idgen.WorkersOptions{
		"max": {Max: -1}, "a short lease": {Lease: time.Millisecond}, "a long lease": {Lease: 2 * time.Hour}, "skew": {Lease: time.Second, MaxSkew: time.Second},
	} {
		func() {
			defer func() { assert.True(t, recover() != nil, "%s is refused", name) }()
			idgen.NewWorkers(memstore.New(nil), o)
		}()
	}
	for name, f := range map[string]func(){
		"no store": func() { idgen.NewWorkers(nil, nil) }, "no source": func() { idgen.NewWorkersOn(nil, nil) },
	} {
		func() {
			defer func() { assert.True(t, recover() != nil, "%s is refused", name) }()
			f()
		}()
	}
}
