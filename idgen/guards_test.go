package idgen_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestClockBackAcrossRestart: all clocks, also the store's, are set back while the number has no
// holder. The next holder begins when the last one's times are over, and above all of its ids.
func TestClockBackAcrossRestart(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{time.Millisecond, 3 * time.Second, time.Hour} {
		for _, killed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var off atomic.Int64
				now := func() time.Time { return time.Now().Add(-time.Duration(off.Load())) }
				store := &cut{Store: memstore.New(&memstore.Options{Now: now})}
				workers := idgen.NewWorkers(store, workersOptions(1, now))
				first := claim(t, workers)
				g := snowflake(t, first, &idgen.Options{Now: now})
				time.Sleep(2500 * time.Millisecond)
				last := next(t, g)
				if killed { // it is cut off; its lease and its reservation stay
					store.away.Store(true)
					<-first.Done()
					store.away.Store(false)
				} else {
					assert.NoError(t, first.Release(t.Context()), "Release")
				}
				off.Store(int64(back))
				var second *idgen.Held
				for waited := time.Now(); second == nil; {
					assert.True(t, time.Since(waited) < 2*time.Hour, "%v back: nobody gets the number any more", back)
					var err error
					if second, err = workers.Claim(t.Context()); err != nil {
						assert.ErrorIs(t, err, idgen.ErrNoWorker, "%v back", back)
						time.Sleep(time.Second)
					}
				}
				low := next(t, snowflake(t, second, &idgen.Options{Now: now}))
				for { // the old holder continues until its times are over
					id, err := g.Next(t.Context())
					if err != nil {
						break
					}
					last = max(last, id)
				}
				assert.True(t, low > last, "%v back, killed %v: the next holder begins with %d, and %d was made", back, killed, low, last)
				if !killed {
					_ = first.Release(t.Context())
				}
				assert.NoError(t, second.Release(t.Context()), "Release")
			})
		}
	}
}

// TestStaticTwice shows what a number from a file does not guarantee: two processes with the same
// number make the same ids, and so does a process whose clock was set back across a restart. Only a
// unique index can detect that. Leased numbers have neither problem.
func TestStaticTwice(t *testing.T) {
	t.Parallel()
	c := newClock(day)
	one, two := snowflake(t, idgen.Static(7), &idgen.Options{Now: c.now}), snowflake(t, idgen.Static(7), &idgen.Options{Now: c.now})
	assert.Equal(t, next(t, one), next(t, two), "two processes with one number")
	before := next(t, one)
	c.advance(-time.Millisecond)
	again := snowflake(t, idgen.Static(7), &idgen.Options{Now: c.now})
	c.advance(time.Millisecond)
	for range 2 * 4096 {
		if next(t, again) == before {
			return
		}
	}
	t.Error("a clock that was set back across a restart did no harm; say so in the documentation")
}

// TestHeldHasOneGenerator: a second generator of a leased number would make the same ids as the
// first, and is refused.
func TestHeldHasOneGenerator(t *testing.T) {
	t.Parallel()
	held := claim(t, idgen.NewWorkers(memstore.New(nil), small))
	_, err := idgen.NewSnowflake(held, &idgen.Options{Layout: idgen.Layout{TimeBits: 1}})
	assert.True(t, err != nil, "a layout that is none")
	next(t, snowflake(t, held, nil)) // a refused generator does not count
	_, err = idgen.NewSnowflake(held, nil)
	assert.True(t, err != nil, "a second generator is refused")
	assert.Contains(t, err.Error(), "has a generator", "why")
	assert.NoError(t, held.Release(t.Context()), "Release")
}

// TestNextHolderWithAnotherClock: the clock of the next holder lags behind the last one's by less
// than MaxSkew, so by that clock the number is free before the last one's times are over. The next
// holder begins above them.
func TestNextHolderWithAnotherClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &cut{Store: memstore.New(nil)}
		of := func(off time.Duration) (*idgen.Workers, *idgen.Options) {
			now := func() time.Time { return time.Now().Add(off) }
			return idgen.NewWorkers(store, workersOptions(1, now)), &idgen.Options{Now: now}
		}
		ahead, o := of(250 * time.Millisecond)
		first := claim(t, ahead)
		g := snowflake(t, first, o)
		store.away.Store(true)
		time.Sleep(2990 * time.Millisecond) // the lease is nearly over
		last := next(t, g)
		time.Sleep(10 * time.Millisecond)
		store.away.Store(false)
		behind, o := of(-40 * time.Millisecond)
		second := claim(t, behind)
		low := next(t, snowflake(t, second, o))
		assert.True(t, low > last, "the next holder begins with %d, and %d was made", low, last)
		assert.NoError(t, second.Release(t.Context()), "Release")
		<-first.Done()
	})
}

// TestSlowCallerIsNoClock: a caller that is delayed after it reads the clock, while others
// continue, does not mistake that for a clock that was set back.
func TestSlowCallerIsNoClock(t *testing.T) {
	t.Parallel()
	var g *idgen.Snowflake
	c := newClock(day)
	var others atomic.Bool
	g = snowflake(t, idgen.Static(1), &idgen.Options{Now: func() time.Time {
		at := c.now()
		if others.CompareAndSwap(true, false) {
			c.advance(time.Hour)
			next(t, g)
		}
		return at
	}})
	first := next(t, g)
	others.Store(true)
	second := next(t, g)
	assert.True(t, second > first, "%d follows %d", second, first)
}
