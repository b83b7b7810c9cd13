package idgen_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
)

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is a clock that the test sets.
type clock struct{ nanos atomic.Int64 }

func newClock(at time.Time) *clock {
	c := new(clock)
	c.nanos.Store(at.UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

func snowflake(t *testing.T, w idgen.Worker, o *idgen.Options) *idgen.Snowflake {
	t.Helper()
	g, err := idgen.NewSnowflake(w, o)
	assert.NoError(t, err, "generator")
	return g
}

func next(t *testing.T, g interface {
	Next(context.Context) (idgen.ID, error)
},
) idgen.ID {
	t.Helper()
	id, err := g.Next(t.Context())
	assert.NoError(t, err, "Next")
	return id
}

// TestParts: in each layout an id contains the time when it was made, its worker and a sequence.
func TestParts(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]idgen.Layout{"Twitter": idgen.Twitter(), "Fast": idgen.Fast(), "UIDGenerator": idgen.UIDGenerator(), "Sonyflake": idgen.Sonyflake()} {
		c := newClock(day.Add(987654321 * time.Nanosecond))
		number := layout.Workers() - 1
		g := snowflake(t, idgen.Static(number), &idgen.Options{Layout: layout, Now: c.now})
		for i := range uint64(3) {
			p := layout.Split(next(t, g))
			assert.Equal(t, p, idgen.Parts{Time: c.now().UTC().Truncate(layout.Unit), Worker: number, Sequence: i}, "%s", name)
		}
		assert.True(t, layout.End().Sub(layout.Epoch) > 8*365*24*time.Hour, "%s ends on %v", name, layout.End())
	}
	assert.Equal(t, idgen.Twitter().End().Format(time.DateOnly), "2094-09-07", "the end of 41 bits of milliseconds")
	assert.Equal(t, idgen.UIDGenerator().End().Format(time.DateOnly), "2033-07-04", "the end of 28 bits of seconds")
}

// TestUnique: with many callers and all kinds of generators on one another there is no id twice,
// and each caller's ids are in order.
func TestUnique(t *testing.T) {
	t.Parallel()
	g := snowflake(t, idgen.Static(5), &idgen.Options{Layout: idgen.Fast()})
	b := idgen.NewBuffered(g)
	const callers, each = 8, 20_000
	all := make([][]idgen.ID, callers)
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() {
			for len(all[i]) < each {
				switch i % 3 {
				case 0:
					all[i] = append(all[i], next(t, g))
				case 1:
					all[i] = append(all[i], next(t, b))
				default:
					ids, err := g.NextN(t.Context(), 100)
					assert.NoError(t, err, "NextN")
					all[i] = append(all[i], ids...)
				}
			}
		})
	}
	running.Wait()
	for i, ids := range all {
		assert.True(t, slices.IsSorted(ids), "the ids of caller %d are in order", i)
	}
	ids := slices.Concat(all...)
	slices.Sort(ids)
	assert.Equal(t, len(slices.Compact(ids)), callers*each, "different ids")
}

// TestClockBack: ids continue in order while the clock lags slightly, and stop while it lags
// far.
func TestClockBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		g := snowflake(t, idgen.Static(1), &idgen.Options{Now: func() time.Time {
			return time.Now().Add(time.Until(time.Now()) + 40*365*24*time.Hour).Add(-time.Duration(back.Load()))
		}})
		last := next(t, g)
		for _, d := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
			back.Add(int64(d))
			for range 10_000 {
				id := next(t, g)
				assert.True(t, id > last, "after %v back: %d follows %d", d, id, last)
				last = id
			}
		}
		for _, d := range []time.Duration{3 * time.Second, time.Hour} {
			back.Add(int64(d))
			_, err := g.Next(t.Context())
			assert.ErrorIs(t, err, idgen.ErrClockBack, "%v back", d)
			back.Add(-int64(d))
			id := next(t, g)
			assert.True(t, id > last, "when it is right again: %d follows %d", id, last)
			last = id
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		back.Add(int64(30 * time.Millisecond))
		_, err := g.Next(ctx)
		assert.ErrorIs(t, err, context.Canceled, "a caller that has gone does not wait")
	})
}

// TestRate: a generator makes as many ids as the layout has, loses none while a caller sleeps, and
// does not run ahead of the clock further than allowed.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, borrow := range []time.Duration{0, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			epoch := time.Now().AddDate(-1, 0, 0)
			// 32 ids a millisecond
			layout := idgen.Layout{TimeBits: 41, WorkerBits: 17, SequenceBits: 5, Unit: time.Millisecond, Epoch: epoch}
			g := snowflake(t, idgen.Static(1), &idgen.Options{Layout: layout, Borrow: borrow, Now: time.Now})
			begun := time.Now()
			n := 0
			for time.Since(begun) < time.Second {
				for range 7 {
					id := next(t, g)
					n++
					ahead := time.Until(layout.Split(id).Time)
					assert.True(t, ahead <= borrow && ahead > -12*time.Millisecond, "an id is %v ahead of the clock", ahead)
				}
				if n%700 == 0 {
					time.Sleep(9 * time.Millisecond) //nolint:forbidigo // the clock of the bubble
				}
			}
			most := 32 * (1000 + int(borrow/time.Millisecond) + 1)
			assert.True(t, n <= most+7 && n >= 32*1000*99/100, "%d ids in a second, with %v ahead", n, borrow)
		})
	}
}

// TestEpoch: a layout's end is reported a year ahead, and there are no ids after it.
func TestEpoch(t *testing.T) {
	t.Parallel()
	layout := idgen.Twitter()
	for left, ok := range map[time.Duration]bool{366 * 24 * time.Hour: true, 364 * 24 * time.Hour: false, -time.Hour: false} {
		c := newClock(layout.End().Add(-left))
		g, err := idgen.NewSnowflake(idgen.Static(1), &idgen.Options{Layout: layout, Now: c.now})
		if !ok {
			assert.ErrorIs(t, err, idgen.ErrEpochEnds, "%v left", left)
			continue
		}
		assert.NoError(t, err, "%v left", left)
		assert.Equal(t, g.Left().Round(time.Hour), left, "Left")
		next(t, g)
		c.advance(left + 11*time.Millisecond) // an id's time may be that old
		_, err = g.Next(t.Context())
		assert.ErrorIs(t, err, idgen.ErrEpochEnds, "at the end")
	}
	early := newClock(layout.Epoch.Add(-time.Hour))
	_, err := idgen.NewSnowflake(idgen.Static(1), &idgen.Options{Now: early.now})
	assert.True(t, err != nil, "before the epoch")
}

func TestOptionsOfGenerators(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		w idgen.Worker
		o *idgen.Options
	}{
		"no worker":       {nil, nil},
		"a large worker":  {idgen.Static(1024), nil},
		"too few bits":    {idgen.Static(1), &idgen.Options{Layout: idgen.Layout{TimeBits: 41, WorkerBits: 10, SequenceBits: 11, Unit: 1e6, Epoch: idgen.DefaultEpoch()}}},
		"no unit":         {idgen.Static(1), &idgen.Options{Layout: idgen.Layout{TimeBits: 41, WorkerBits: 10, SequenceBits: 12, Epoch: idgen.DefaultEpoch()}}},
		"no epoch":        {idgen.Static(1), &idgen.Options{Layout: idgen.Layout{TimeBits: 41, WorkerBits: 10, SequenceBits: 12, Unit: 1e6}}},
		"no sequence":     {idgen.Static(1), &idgen.Options{Layout: idgen.Layout{TimeBits: 41, WorkerBits: 22, Unit: 1e6, Epoch: idgen.DefaultEpoch()}}},
		"a long borrow":   {idgen.Static(1), &idgen.Options{Borrow: 2 * time.Hour}},
		"a negative wait": {idgen.Static(1), &idgen.Options{MaxBack: -1}},
	} {
		_, err := idgen.NewSnowflake(tt.w, tt.o)
		assert.True(t, err != nil, "%s is refused", name)
	}
	g := snowflake(t, idgen.Static(0), nil)
	for _, n := range []int{0, -1, 1_000_001} {
		_, err := g.NextN(t.Context(), n)
		assert.True(t, err != nil, "%d ids at once", n)
	}
}

// TestUUIDv7: version, variant, time and strict order, also if the clock stands still or goes back
// and if the counter is full.
func TestUUIDv7(t *testing.T) {
	t.Parallel()
	c := newClock(day)
	m := &idgen.UUIDs{Now: c.now}
	last := m.Next()
	assert.Equal(t, last.Time(), day, "time")
	for i := range 50_000 {
		switch i {
		case 20_000:
			c.advance(-time.Hour)
		case 40_000:
			c.advance(2 * time.Hour)
		}
		u := m.Next()
		assert.True(t, slices.Compare(u[:], last[:]) > 0, "%v follows %v", u, last)
		assert.True(t, u[6]>>4 == 7 && u[8]>>6 == 2, "version and variant of %v", u)
		last = u
	}
	assert.Equal(t, last.Time(), day.Add(time.Hour), "time at the end")
	text := last.String()
	assert.True(t, len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' && text[14] == '7', "form %s", text)
	seen := map[idgen.UUID]bool{}
	for range 1000 {
		u := idgen.UUIDv7()
		assert.True(t, !seen[u], "twice")
		seen[u] = true
	}
}
