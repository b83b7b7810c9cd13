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
	// ErrClockBack means that the clock lags behind the last id by more than Options.MaxBack. The
	// error says by how much.
	ErrClockBack = errors.New("idgen: the clock was set back")
	// ErrReserved means that the worker's reserved time is used up: its lease was not extended in
	// time, or this clock is ahead of the store's.
	ErrReserved = errors.New("idgen: the worker number is not held any more")
	// ErrEpochEnds means that the layout has no more times.
	ErrEpochEnds = errors.New("idgen: the layout's time is used up")
)

// Options configures a generator.
type Options struct {
	// Layout is the layout of the ids. For a leased worker it is the worker's, and no other is
	// allowed; else the default is [Twitter].
	Layout Layout
	// Borrow is how far the times of ids may run ahead of the clock when the demand is higher than
	// the layout's rate; default 0: the caller waits.
	Borrow time.Duration
	// MaxBack is how long a generator waits for a clock that lags behind its last id; default
	// 100 ms. If it lags by more, the error is [ErrClockBack].
	MaxBack time.Duration
	// Now is the clock. The default starts at time.Now and continues with the monotonic clock, so
	// setting the time of day while the process runs does not affect it.
	Now func() time.Time
}

// Snowflake makes ids in order, each greater than the last. The time of an id is the time when it
// was made, or up to 10 ms or one unit earlier, so that no sequence is lost while a caller sleeps.
// It is safe for concurrent use and holds no lock.
type Snowflake struct {
	layout Layout
	worker Worker
	number uint64
	epoch  int64 // nanoseconds since 1970
	// borrow, lag and maxBack are in units: how far times may be after the clock and before it,
	// and how long to wait for the clock.
	borrow, lag, maxBack uint64
	clock                func() int64 // nanoseconds since 1970
	first                uint64       // the first unit

	// lastTaken is time and sequence of the last id, in one number: a full sequence overflows into
	// the next unit.
	lastTaken atomic.Uint64
}

// mostLag is the maximum age of an id's time.
const mostLag = 10 * time.Millisecond

// NewSnowflake returns a generator. It refuses a worker number that is too large for the layout, a
// leased worker that already has a generator, and a layout with less than a year left.
func NewSnowflake(w Worker, o *Options) (*Snowflake, error) {
	if o == nil {
		o = new(Options)
	}
	g := &Snowflake{layout: o.Layout, worker: w, clock: steadyClock()}
	held, leased := w.(*Held)
	switch {
	case g.layout == (Layout{}) && leased:
		g.layout = held.layout
	case g.layout == (Layout{}):
		g.layout = Twitter()
	case leased && !g.layout.equal(held.layout):
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
	g.borrow, g.lag, g.maxBack = uint64(o.Borrow/g.layout.Unit), g.unitsRoundedUp(mostLag), g.unitsRoundedUp(maxBack) //nolint:gosec // not negative
	now, ok := g.unitOf(g.clock())
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
		if before, ok := g.unitOf(from.UnixNano()); ok {
			now = max(now, before+1) // another holder may have used the unit that contains From
		}
	}
	g.first = now
	g.lastTaken.Store(now<<g.layout.SequenceBits - 1)
	return g, nil
}

// steadyClock returns a clock that is not affected when the time of day is set.
func steadyClock() func() int64 {
	start := time.Now()
	wall := start.UnixNano()
	return func() int64 { return wall + int64(time.Since(start)) }
}

// unitOf returns the unit that a time is in, and false for a time before the epoch.
func (g *Snowflake) unitOf(nanos int64) (uint64, bool) {
	d := nanos - g.epoch
	if d < 0 {
		return 0, false
	}
	return uint64(d) / uint64(g.layout.Unit), true //nolint:gosec // not negative
}

// unitsRoundedUp returns d in units, rounded up.
func (g *Snowflake) unitsRoundedUp(d time.Duration) uint64 {
	return uint64((d + g.layout.Unit - 1) / g.layout.Unit) //nolint:gosec // not negative
}

// Layout returns the layout of the ids.
func (g *Snowflake) Layout() Layout { return g.layout }

// Left returns how much of the layout's time is left, for a metric.
func (g *Snowflake) Left() time.Duration { return g.layout.End().Sub(time.Unix(0, g.clock())) }

// Next returns a new id. If the layout has no more ids for now, or the clock lags slightly, it
// waits for the clock until ctx ends.
func (g *Snowflake) Next(ctx context.Context) (ID, error) {
	first, _, err := g.reserve(ctx, 1)
	if err != nil {
		return 0, err
	}
	return g.makeID(first), nil
}

// NextN returns n new ids in order. Other callers may get some in between.
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
			ids = append(ids, g.makeID(first+i))
		}
	}
	return ids, nil
}

// makeID inserts the worker between time and sequence.
func (g *Snowflake) makeID(n uint64) ID {
	s := g.layout.SequenceBits
	return ID(n>>s<<(s+g.layout.WorkerBits) | g.number<<s | n&(1<<s-1)) //nolint:gosec // 63 bits
}

// reserve reserves up to n consecutive numbers of time and sequence, at least one. Their times are
// at most Borrow ahead of the clock.
func (g *Snowflake) reserve(ctx context.Context, n uint64) (first, got uint64, err error) {
	s := g.layout.SequenceBits
	for {
		t := g.clock()
		last := g.lastTaken.Load()
		b, err := g.boundsAt(t, last)
		if err == nil && b.first >= b.limit {
			// Or other callers went on while this one was delayed after it read the clock.
			t = g.clock()
			b, err = g.boundsAt(t, last)
		}
		switch {
		case err != nil:
			return 0, 0, err
		case b.first >= b.limit:
			if err := g.waitForClock(ctx, t, b.now, b.first>>s, b.reason); err != nil {
				return 0, 0, err
			}
			continue
		}
		got = min(n, b.limit-b.first)
		if g.lastTaken.CompareAndSwap(last, b.first+got-1) {
			return b.first, got, nil
		}
	}
}

// bounds are what may be taken at a time: the first number, the first that must not be taken, and
// the reason.
type bounds struct {
	now, first, limit uint64
	reason            limitReason
}

func (g *Snowflake) boundsAt(t int64, last uint64) (b bounds, err error) {
	now, ok := g.unitOf(t)
	if !ok {
		return b, fmt.Errorf("%w: to before the layout's epoch", ErrClockBack)
	}
	b.now, b.first = now, max(last+1, (now-min(now, g.lag))<<g.layout.SequenceBits)
	b.limit, b.reason = g.firstForbidden(now)
	return b, nil
}

// limitReason is what limits the numbers that may be taken.
type limitReason uint8

const (
	byClock limitReason = iota + 1
	byReservation
	byEpoch
)

// firstForbidden returns the first number that must not be taken now.
func (g *Snowflake) firstForbidden(now uint64) (uint64, limitReason) {
	units, by := now+g.borrow+1, byClock
	if until := g.worker.Until(); !until.IsZero() {
		if reserved, _ := g.unitOf(until.UnixNano()); reserved < units {
			// The next holder may use the unit that contains Until.
			units, by = reserved, byReservation
		}
	}
	if end := uint64(1) << g.layout.TimeBits; end < units {
		units, by = end, byEpoch
	}
	return units << g.layout.SequenceBits, by
}

// waitForClock waits until the clock has reached the unit of the next id, or returns an error if it
// will not.
func (g *Snowflake) waitForClock(ctx context.Context, t int64, now, next uint64, by limitReason) error {
	switch by {
	case byEpoch:
		return ErrEpochEnds
	case byReservation:
		return fmt.Errorf("%w: it is %v by this clock, and the reservation ends at %v; claim a number again, and look at the clocks",
			ErrReserved, formatUTC(time.Unix(0, t)), formatUTC(g.worker.Until()))
	}
	begins := next - min(next, g.borrow)
	if begins > now+1+g.maxBack && next != g.first {
		// The first unit is waited for: an earlier holder has reserved the times before it.
		return fmt.Errorf("%w: by %v; ids go on when it has come there again", ErrClockBack, g.layout.unitStart(begins).Sub(time.Unix(0, t)))
	}
	d := min(g.layout.unitStart(begins).Sub(time.Unix(0, t)), g.layout.Unit)
	if d <= 0 {
		return nil
	}
	return backoff.Pause(ctx, d)
}

func formatUTC(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
