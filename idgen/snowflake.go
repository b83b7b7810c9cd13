package idgen

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
)

// The errors of generators; test with errors.Is.
var (
	// ErrClockBack: the clock is behind the last id by more than Options.MaxBack. The error says by
	// how much.
	ErrClockBack = errors.New("idgen: the clock was set back")
	// ErrReserved: the time of the worker's reservation is used up: its lease was not extended in
	// time, or this clock is ahead of the store's.
	ErrReserved = errors.New("idgen: the worker number is not held any more")
	// ErrEpochEnds: the layout has no more times.
	ErrEpochEnds = errors.New("idgen: the layout's time is used up")
)

// Options configure a generator.
type Options struct {
	// Layout is by default that of a worker that is leased, which has no other, and else [Twitter].
	Layout Layout
	// Borrow is how far the times of ids may run ahead of the clock when more are asked for than
	// the layout has; default 0: the caller waits.
	Borrow time.Duration
	// MaxBack is how long a generator waits for a clock that stands behind its last id; default 100
	// ms. More is [ErrClockBack].
	MaxBack time.Duration
	// Now is the clock; default one that begins at time.Now and goes on by the monotonic clock:
	// whoever sets the time of day while the process runs does not touch it.
	Now func() time.Time
}

// Snowflake makes ids in order, each greater than the last. The time of an id is that of its
// making, or, so that no sequence is lost while a caller sleeps, up to 10 ms or one unit before. It
// is safe for concurrent use and holds no lock.
type Snowflake struct {
	layout Layout
	worker Worker
	number uint64
	epoch  int64 // nanoseconds since 1970
	// borrow, lag and maxBack are units: how far times may be ahead of the clock and behind it, and
	// how long to wait for it.
	borrow, lag, maxBack uint64
	clock                func() int64 // nanoseconds since 1970
	first                uint64       // the first unit

	// last is time and sequence of the last id, in one number: a sequence that is full goes on in
	// the next unit by itself.
	last atomic.Uint64
}

// mostLag is how old the time of an id may be.
const mostLag = 10 * time.Millisecond

// NewSnowflake returns a generator. It refuses a worker that the layout has no room for, a leased
// one that has a generator already, and a layout with less than a year left.
func NewSnowflake(w Worker, o *Options) (*Snowflake, error) {
	if o == nil {
		o = new(Options)
	}
	g := &Snowflake{layout: o.Layout, worker: w, clock: steady()}
	held, leased := w.(*Held)
	switch {
	case g.layout == (Layout{}) && leased:
		g.layout = held.layout
	case g.layout == (Layout{}):
		g.layout = Twitter
	case leased && !g.layout.same(held.layout):
		return nil, fmt.Errorf("%w: it is %v, and the generator's is %v; leave Options.Layout empty", ErrLayout, held.layout, g.layout)
	}
	if o.Now != nil {
		g.clock = func() int64 { return o.Now().UnixNano() }
	}
	if err := g.layout.Validate(); err != nil {
		return nil, err
	}
	maxBack := o.MaxBack
	if maxBack == 0 {
		maxBack = 100 * time.Millisecond
	}
	switch {
	case w == nil:
		return nil, errors.New("idgen: NewSnowflake needs a worker: Workers.Claim leases one, and Static names one")
	case w.Number() >= g.layout.Workers():
		return nil, fmt.Errorf("idgen: worker %d; the layout has numbers below %d", w.Number(), g.layout.Workers())
	case o.Borrow < 0 || maxBack < 0 || o.Borrow > time.Hour || maxBack > time.Hour:
		return nil, fmt.Errorf("idgen: Borrow is %v and MaxBack %v; use positive times up to an hour", o.Borrow, o.MaxBack)
	}
	g.number, g.epoch = w.Number(), g.layout.Epoch.UnixNano()
	g.borrow, g.lag, g.maxBack = uint64(o.Borrow/g.layout.Unit), g.ceil(mostLag), g.ceil(maxBack) //nolint:gosec // not negative
	now, ok := g.units(g.clock())
	if !ok {
		return nil, fmt.Errorf("idgen: by the clock it is before the layout's epoch, %v", g.layout.Epoch)
	}
	if g.Left() < leastLeft {
		return nil, fmt.Errorf("%w: the layout ends on %v; ids of another one have to take over before that", ErrEpochEnds, g.layout.End().Format(time.DateOnly))
	}
	if leased && held.used.Swap(true) {
		return nil, errors.New("idgen: this worker number has a generator already, and a second one would make the same ids; share the first, or claim another number")
	}
	if from := w.From(); !from.IsZero() {
		if before, ok := g.units(from.UnixNano()); ok {
			now = max(now, before+1) // the unit that From is in may be another holder's
		}
	}
	g.first = now
	g.last.Store(now<<g.layout.SequenceBits - 1)
	return g, nil
}

// steady is a clock that nobody can set.
func steady() func() int64 {
	start := time.Now()
	wall := start.UnixNano()
	return func() int64 { return wall + int64(time.Since(start)) }
}

// units is the unit that a time is in; before the epoch it is none.
func (g *Snowflake) units(nanos int64) (uint64, bool) {
	d := nanos - g.epoch
	if d < 0 {
		return 0, false
	}
	return uint64(d) / uint64(g.layout.Unit), true //nolint:gosec // not negative
}

// ceil is d in units, rounded up.
func (g *Snowflake) ceil(d time.Duration) uint64 {
	return uint64((d + g.layout.Unit - 1) / g.layout.Unit) //nolint:gosec // not negative
}

// Layout is that of the ids.
func (g *Snowflake) Layout() Layout { return g.layout }

// Left is how much of the layout's time is left, for a metric.
func (g *Snowflake) Left() time.Duration { return g.layout.End().Sub(time.Unix(0, g.clock())) }

// Next makes an id. It waits for the clock where the layout has no more ids for now, and for one
// that stands a little behind, as long as ctx lives.
func (g *Snowflake) Next(ctx context.Context) (ID, error) {
	first, _, err := g.reserve(ctx, 1)
	if err != nil {
		return 0, err
	}
	return g.id(first), nil
}

// NextN makes n ids in order, as they come: other callers may get some in between.
func (g *Snowflake) NextN(ctx context.Context, n int) ([]ID, error) {
	if n < 1 || n > 1_000_000 {
		return nil, fmt.Errorf("idgen: %d ids at once; ask for 1 to 1000000", n)
	}
	ids := make([]ID, 0, n)
	for len(ids) < n {
		first, got, err := g.reserve(ctx, uint64(n-len(ids))) //nolint:gosec // positive
		if err != nil {
			return nil, err
		}
		for i := range got {
			ids = append(ids, g.id(first+i))
		}
	}
	return ids, nil
}

// id puts the worker between time and sequence.
func (g *Snowflake) id(n uint64) ID {
	s := g.layout.SequenceBits
	return ID(n>>s<<(s+g.layout.WorkerBits) | g.number<<s | n&(1<<s-1)) //nolint:gosec // 63 bits
}

// reserve takes up to n numbers of time and sequence in a row, at least one, whose times are no
// more than Borrow ahead of the clock.
func (g *Snowflake) reserve(ctx context.Context, n uint64) (first, got uint64, err error) {
	s := g.layout.SequenceBits
	for {
		t := g.clock()
		last := g.last.Load()
		b, err := g.bounds(t, last)
		if err == nil && b.first >= b.limit {
			// or others went on while this caller was held up behind its look at the clock
			t = g.clock()
			b, err = g.bounds(t, last)
		}
		switch {
		case err != nil:
			return 0, 0, err
		case b.first >= b.limit:
			if err := g.wait(ctx, t, b.now, b.first>>s, b.by); err != nil {
				return 0, 0, err
			}
			continue
		}
		got = min(n, b.limit-b.first)
		if g.last.CompareAndSwap(last, b.first+got-1) {
			return b.first, got, nil
		}
	}
}

// bounds are what may be taken at a time: the first number, and the first that must not be, and
// why.
type bounds struct {
	now, first, limit uint64
	by                bound
}

func (g *Snowflake) bounds(t int64, last uint64) (b bounds, err error) {
	now, ok := g.units(t)
	if !ok {
		return b, fmt.Errorf("%w: to before the layout's epoch", ErrClockBack)
	}
	b.now, b.first = now, max(last+1, (now-min(now, g.lag))<<g.layout.SequenceBits)
	b.limit, b.by = g.limit(now)
	return b, nil
}

// What bounds the numbers that may be taken.
type bound uint8

const (
	byClock bound = iota + 1
	byReservation
	byEpoch
)

// limit is the first number that must not be taken now.
func (g *Snowflake) limit(now uint64) (uint64, bound) {
	units, by := now+g.borrow+1, byClock
	if until := g.worker.Until(); until != forever {
		if reserved, _ := g.units(until); reserved < units {
			// the unit that Until is in may be the next holder's
			units, by = reserved, byReservation
		}
	}
	if end := uint64(1) << g.layout.TimeBits; end < units {
		units, by = end, byEpoch
	}
	return units << g.layout.SequenceBits, by
}

// wait waits until the clock has come to the unit of the next id, or says why it will not.
func (g *Snowflake) wait(ctx context.Context, t int64, now, next uint64, by bound) error {
	switch by {
	case byEpoch:
		return ErrEpochEnds
	case byReservation:
		return fmt.Errorf("%w: it is %v by this clock, and the reservation ends at %v; claim a number again, and look at the clocks",
			ErrReserved, utc(t), utc(g.worker.Until()))
	}
	begins := next - min(next, g.borrow)
	if begins > now+1+g.maxBack && next != g.first {
		// the first is waited for: an earlier holder has reserved what is before
		return fmt.Errorf("%w: by %v; ids go on when it has come there again", ErrClockBack, g.layout.time(begins).Sub(time.Unix(0, t)))
	}
	d := min(g.layout.time(begins).Sub(time.Unix(0, t)), g.layout.Unit)
	if d <= 0 {
		return nil
	}
	return backoff.Pause(ctx, d)
}

func utc(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano) }
