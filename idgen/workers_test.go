package idgen_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

var small = &idgen.WorkersOptions{Max: 3, Lease: 3 * time.Second, Unsafe: true}

// workersOptions returns options with a few numbers, and a layout that starts before the clock of a
// bubble.
func workersOptions(most int, now func() time.Time) *idgen.WorkersOptions {
	o := *small
	o.Max, o.Now, o.Layout = most, now, idgen.Twitter()
	o.Layout.Epoch = begun
	return &o
}

// begun is before the clock of a bubble.
var begun = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)

func claim(t *testing.T, w *idgen.Workers) *idgen.Held {
	t.Helper()
	h, err := w.Claim(t.Context())
	assert.NoError(t, err, "Claim")
	return h
}

// TestClaims: each number has one holder, no number is free when all are held, and a number whose
// holder released it or died is held again.
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

// losing is a store on which the first numbers are lost before their holders have them.
type losing struct {
	storeapi.Store

	numbers int
}

func (s *losing) Extend(ctx context.Context, r storeapi.ExtendRequest) error {
	if s.numbers > 0 {
		s.numbers--
		return storeapi.ErrLeaseLost
	}
	return s.Store.Extend(ctx, r)
}

// TestClaimOfLostNumbers: a number that is lost before its holder has it costs another try, and a
// source that loses every number ends the claim.
func TestClaimOfLostNumbers(t *testing.T) {
	t.Parallel()
	for lost, want := range map[int]error{1: nil, 3: nil, 1000: storeapi.ErrLeaseLost} {
		h, err := idgen.NewWorkers(&losing{memstore.New(nil), lost}, small).Claim(t.Context())
		assert.ErrorIs(t, err, want, "Claim after %d lost numbers", lost)
		if want == nil {
			assert.NoError(t, h.Release(t.Context()), "Release")
		}
	}
}

// TestNextHolderStartsAbove: the ids of the next holder are above all that an earlier one has made
// and may still make.
func TestNextHolderStartsAbove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		route := &cut{Store: store}
		o := workersOptions(1, nil)
		first := claim(t, idgen.NewWorkers(route, o))
		g := snowflake(t, first, nil)
		next(t, g)
		// The first process is cut off from the store, and does not know it yet. It stays so: a
		// heartbeat is due at the end of the lease, and would renew it.
		route.away.Store(true)
		time.Sleep(3 * time.Second)
		second := claim(t, idgen.NewWorkers(store, o))
		h := snowflake(t, second, nil)
		low := next(t, h)
		for { // the first holder continues as long as it can
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

// cut is a store from which a process can be cut off.
type cut struct {
	storeapi.Store
	away atomic.Bool
}

func (c *cut) Extend(ctx context.Context, r storeapi.ExtendRequest) error {
	if c.away.Load() {
		return errors.New("no route to host")
	}
	return c.Store.Extend(ctx, r)
}

// TestStoreAway: ids continue for a lease while the store is unreachable, and the number is kept if
// the store is back in time.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &cut{Store: memstore.New(nil)}
		held := claim(t, idgen.NewWorkers(store, workersOptions(3, nil)))
		g := snowflake(t, held, nil)
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

// TestClocksOfWorkers: a clock that differs from the store's is refused, and a number that was
// reserved far ahead is skipped.
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
	store := memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }})
	o := workersOptions(1, func() time.Time { return time.Now().Add(-time.Duration(back.Load())) })
	assert.NoError(t, claim(t, idgen.NewWorkers(store, o)).Release(t.Context()), "Release")
	back.Store(int64(time.Hour)) // all clocks go back
	_, err := idgen.NewWorkers(store, o).Claim(t.Context())
	assert.ErrorIs(t, err, idgen.ErrNoWorker, "the only number is reserved for an hour more")
}

// TestLostReplies: after a claim or an extension whose reply was lost, no two holders share a time.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"acquire", "extend", "complete", "release"} {
		for call := 1; call <= 3; call++ {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New(nil)
				store := storetest.NewFaulty(mem, func(o string, n int) storetest.Fault {
					if o == op && n == call {
						return storetest.LoseReply
					}
					return 0
				})
				w := idgen.NewWorkers(store, workersOptions(1, nil))
				var last idgen.ID
				for holders, tries := 0, 0; holders < 4; tries++ {
					assert.True(t, tries < 50, "nobody gets the number any more")
					h, err := w.Claim(t.Context())
					if err != nil {
						time.Sleep(time.Second) // its lease expires
						continue
					}
					holders++
					g := snowflake(t, h, nil)
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
		"a layout": {Layout: idgen.Layout{TimeBits: 1}}, "more than its layout has": {Layout: idgen.Fast(), Max: 65},
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

// keeping is a store that says whether it keeps what it confirms.
type keeping struct {
	storeapi.Store
	err error
}

func (k keeping) Keeps(context.Context) error { return k.err }

// TestStoresThatForget: a store that may lose reservations assigns no number, nor does one that
// cannot tell. Unsafe accepts them.
func TestStoresThatForget(t *testing.T) {
	t.Parallel()
	for why, store := range map[string]storeapi.Store{
		"gone with the process": memstore.New(nil),
		"appendonly":            keeping{memstore.New(nil), errors.New("appendonly is off")},
		"does not tell":         struct{ storeapi.Store }{memstore.New(nil)},
		"passes calls to":       keeping{memstore.New(nil), errors.ErrUnsupported},
	} {
		_, err := idgen.NewWorkers(store, &idgen.WorkersOptions{Max: 1}).Claim(t.Context())
		assert.True(t, err != nil, "Claim where the store: %s", why)
		assert.Contains(t, err.Error(), why, "why it is refused")
		assert.Contains(t, err.Error(), "set Unsafe", "what to do")
		h, err := idgen.NewWorkers(store, &idgen.WorkersOptions{Max: 1, Unsafe: true}).Claim(t.Context())
		assert.NoError(t, err, "Claim with Unsafe where the store: %s", why)
		assert.NoError(t, h.Release(t.Context()), "Release")
	}
	h, err := idgen.NewWorkers(keeping{memstore.New(nil), nil}, &idgen.WorkersOptions{Max: 1}).Claim(t.Context())
	assert.NoError(t, err, "Claim on a store that keeps what it confirms")
	assert.NoError(t, h.Release(t.Context()), "Release")
}

// TestOneLayout: the ids of a namespace have one layout, whichever process claims first and however
// many claim at once.
func TestOneLayout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, oneLayout)
}

func oneLayout(t *testing.T) {
	t.Helper()
	store := memstore.New(nil)
	layouts := []idgen.Layout{idgen.Twitter(), idgen.Fast()}
	for i := range layouts {
		layouts[i].Epoch = begun
	}
	workers := make([]*idgen.Workers, len(layouts))
	var claimed, refused [2]atomic.Int32
	var all sync.WaitGroup
	for i, layout := range layouts {
		workers[i] = idgen.NewWorkers(store, &idgen.WorkersOptions{Layout: layout, Max: 8, Unsafe: true})
		for range 8 {
			all.Go(func() {
				h, err := workers[i].Claim(t.Context())
				if err != nil {
					assert.ErrorIs(t, err, idgen.ErrLayout, "Claim")
					refused[i].Add(1)
					return
				}
				claimed[i].Add(1)
				g, err := idgen.NewSnowflake(h, nil)
				if assert.NoError(t, err, "generator"); g.Layout() != layouts[i] {
					t.Errorf("the generator has the layout %v, want %v", g.Layout(), layout)
				}
				assert.NoError(t, h.Release(t.Context()), "Release")
			})
		}
	}
	all.Wait()
	first := 0
	if claimed[1].Load() > 0 {
		first = 1
	}
	assert.Equal(t, claimed[first].Load(), int32(8), "claims of the layout that came first")
	assert.Equal(t, refused[1-first].Load(), int32(8), "refusals of the other")
	h := claim(t, workers[first])
	_, err := idgen.NewSnowflake(h, &idgen.Options{Layout: layouts[1-first]})
	assert.ErrorIs(t, err, idgen.ErrLayout, "a generator of another layout")
	assert.NoError(t, h.Release(t.Context()), "Release")
	h, err = idgen.NewWorkers(store, &idgen.WorkersOptions{Namespace: "others", Layout: layouts[1-first], Unsafe: true}).Claim(t.Context())
	assert.NoError(t, err, "another namespace")
	assert.NoError(t, h.Release(t.Context()), "Release")
}
