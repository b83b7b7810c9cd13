package retrysafe_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestOutageLeavesOneCaller: however many claims an outage leaves unanswered, one goroutine looks
// whether the store is back, less and less often, and then gives back all claims.
func TestOutageLeavesOneCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const calls = 2000
		var away atomic.Bool
		f := storetest.NewFaulty(newStore(), func(op string, _ int) storetest.Fault {
			switch {
			case !away.Load():
				return 0
			case op == "acquire":
				return storetest.LoseReply
			}
			return storetest.LoseRequest
		})
		e := engineOn(t, f, retrysafe.Policy{})
		// So that the engine knows the store's clock.
		_, err := retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.NoError(t, err, "before the outage")
		away.Store(true)
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				_, err := retrysafe.Do(ctx, e, numbered("x", i), new(counter).work)
				assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a call")
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		before := f.Calls("lookup")
		time.Sleep(30 * time.Minute)
		looks := f.Calls("lookup") - before
		assert.True(t, looks > 300 && looks < 900, "looks in half an hour: %d", looks)
		away.Store(false)
		time.Sleep(time.Minute)
		for i := range calls {
			rec := lookup(t, e, numbered("x", i))
			assert.True(t, rec.State == retrysafe.StateReleased, "record %d: %v", i, rec.State)
		}
	})
}

// TestClaimsThatDoNotFit: claims over the bound expire, and the trace gets each of them.
func TestClaimsThatDoNotFit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const room, over, callers = 1 << 16, 100, 512
		var lapsed, next atomic.Int64
		var away atomic.Bool
		f := storetest.NewFaulty(newStore(), func(string, int) storetest.Fault {
			if away.Load() {
				return storetest.LoseRequest
			}
			return 0
		})
		e := engineWith(t, f, &retrysafe.Options{Sweep: -1, Trace: &retrysafe.Trace{
			Lapse: func(context.Context, retrysafe.AttemptInfo) { lapsed.Add(1) },
		}})
		_, err := retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.NoError(t, err, "before the outage")
		away.Store(true)
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for i := next.Add(1); i <= room+over; i = next.Add(1) {
					_, _ = retrysafe.Do(ctx, e, numbered("x", int(i)), new(counter).work)
				}
			})
		}
		all.Wait()
		assert.Equal(t, lapsed.Load(), int64(over), "claims that are left to lapse")
	})
}

// deaf is a store whose lookups do not end with their contexts.
type deaf struct {
	storeapi.Store
	hangs, end chan struct{}
}

func (d *deaf) Acquire(context.Context, storeapi.AcquireRequest) (storeapi.Acquired, error) {
	return storeapi.Acquired{}, storetest.ErrFault
}

func (d *deaf) Lookup(ctx context.Context, k storeapi.StoreKey) (retrysafe.Record, error) {
	select {
	case <-d.hangs:
		<-d.end
	default:
	}
	return d.Store.Lookup(ctx, k)
}

// TestShutdownReturns: Shutdown returns although a store call ignores its context.
func TestShutdownReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &deaf{Store: newStore(), hangs: make(chan struct{}), end: make(chan struct{})}
		e := engineOn(t, d, retrysafe.Policy{})
		_, err := retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a claim whose reply is lost")
		close(d.hangs)
		time.Sleep(20 * time.Second) // a lookup of it runs
		begun := time.Now()
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		err = e.Shutdown(within)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "shutdown")
		took := time.Since(begun)
		assert.True(t, took >= 5*time.Second && took <= 7*time.Second, "it took %v", took)
		close(d.end)
	})
}

// split is a store whose keys of the tenant "away" are on a part that is away.
type split struct {
	storeapi.Store
	lose atomic.Bool
}

func (s *split) Acquire(ctx context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if r.Key.Tenant == "away" {
		return storeapi.Acquired{}, storetest.ErrFault
	}
	got, err := s.Store.Acquire(ctx, r)
	if s.lose.Load() {
		return storeapi.Acquired{}, storetest.ErrFault
	}
	return got, err
}

func (s *split) Lookup(ctx context.Context, k storeapi.StoreKey) (retrysafe.Record, error) {
	if k.Tenant == "away" {
		return retrysafe.Record{}, storetest.ErrFault
	}
	return s.Store.Lookup(ctx, k)
}

// TestPartThatIsAwayHoldsUpNoOther: a part of the store is away. A reply of another part is lost
// once: its key is given back soon.
func TestPartThatIsAwayHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &split{Store: newStore()}
		e := engineOn(t, s, retrysafe.Policy{})
		_, _ = retrysafe.Do(ctx, e, charge, new(counter).work)
		for i := range 300 {
			k := numbered("x", i)
			k.Tenant = "away"
			go func() { _, _ = retrysafe.Do(ctx, e, k, new(counter).work) }()
		}
		time.Sleep(time.Minute)
		k := retrysafe.Key{Tenant: "here", Operation: "charge", ID: "2"}
		s.lose.Store(true)
		_, err := retrysafe.Do(ctx, e, k, new(counter).work)
		s.lose.Store(false)
		assert.True(t, err != nil, "the reply was lost")
		begun := time.Now()
		for {
			time.Sleep(time.Second)
			_, err = retrysafe.Do(ctx, e, k, new(counter).work)
			if err == nil || time.Since(begun) > time.Hour {
				break
			}
		}
		assert.True(t, time.Since(begun) < time.Minute, "the key of a healthy shard is free soon")
	})
}
