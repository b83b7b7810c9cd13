package idgen

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Layout says what the bits of an id mean, from the highest: the time since Epoch in Units, the
// worker, the sequence. Together they are 63. It is kept for as long as the ids are: another layout
// makes ids that may meet the old ones.
type Layout struct {
	TimeBits, WorkerBits, SequenceBits uint8
	Unit                               time.Duration
	Epoch                              time.Time
}

// DefaultEpoch is that of the layouts of this package.
var DefaultEpoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// The layouts that are known by name, with [DefaultEpoch]. Their widths are those of the programs
// that they are named after.
var (
	// Twitter is that of Snowflake: 41 bits of milliseconds (69 years), 1024 workers, 4096 ids a
	// millisecond each.
	Twitter = Layout{41, 10, 12, time.Millisecond, DefaultEpoch}
	// Fast has 64 workers that make 65 536 ids a millisecond each.
	Fast = Layout{41, 6, 16, time.Millisecond, DefaultEpoch}
	// UIDGenerator is that of Baidu's uid-generator: 28 bits of seconds (8.5 years), 4 194 304
	// workers, 8192 ids a second each. For workers that come and go without ever giving a number
	// back.
	UIDGenerator = Layout{28, 22, 13, time.Second, DefaultEpoch}
	// Sonyflake has the widths of Sonyflake: 39 bits of 10 ms (174 years), 65 536 workers, 256 ids
	// in 10 ms each. There the sequence stands above the worker; here below, as in all layouts.
	Sonyflake = Layout{39, 16, 8, 10 * time.Millisecond, DefaultEpoch}
)

// leastLeft is what must be left of a layout's time when a generator starts: so long before its end
// nobody wants to learn of it.
const leastLeft = 365 * 24 * time.Hour

// Validate says what is wrong with l.
func (l Layout) Validate() error {
	var errs []error
	if n := int(l.TimeBits) + int(l.WorkerBits) + int(l.SequenceBits); n != 63 || l.TimeBits == 0 || l.SequenceBits == 0 {
		errs = append(errs, fmt.Errorf("idgen: the layout has %d bits of time, %d of worker and %d of sequence; they must be 63 together, time and sequence above 0",
			l.TimeBits, l.WorkerBits, l.SequenceBits))
	}
	if l.Unit < time.Microsecond || l.Unit > time.Minute {
		errs = append(errs, fmt.Errorf("idgen: the layout's Unit is %v; use 1us to 1m", l.Unit))
	}
	if l.Epoch.Year() < 1970 || l.Epoch.Year() > 2200 {
		errs = append(errs, errors.New("idgen: the layout has no Epoch; take a day before the first id, and keep it"))
	}
	return errors.Join(errs...)
}

// String names the bits, the unit and the epoch: 41+10+12 bits, 1ms from 2025-01-01T00:00:00Z.
func (l Layout) String() string {
	return fmt.Sprintf("%d+%d+%d bits, %v from %s", l.TimeBits, l.WorkerBits, l.SequenceBits, l.Unit, l.Epoch.UTC().Format(time.RFC3339Nano))
}

func (l Layout) same(m Layout) bool { return l.String() == m.String() }

// End is the first moment that has no ids.
func (l Layout) End() time.Time { return l.time(1 << l.TimeBits) }

// Workers is how many workers the layout has room for.
func (l Layout) Workers() uint64 { return 1 << l.WorkerBits }

// Parts of an id.
type Parts struct {
	Time             time.Time // to the layout's unit
	Worker, Sequence uint64
}

// Split takes an id apart. An id of another layout gives parts that mean nothing.
func (l Layout) Split(id ID) Parts {
	n := uint64(id) //nolint:gosec // an id is positive
	units := n >> (l.WorkerBits + l.SequenceBits)
	return Parts{
		Time:     l.time(units),
		Worker:   n >> l.SequenceBits & (1<<l.WorkerBits - 1),
		Sequence: n & (1<<l.SequenceBits - 1),
	}
}

// time is when a unit begins.
func (l Layout) time(units uint64) time.Time {
	high, low := bits.Mul64(units, uint64(l.Unit)) //nolint:gosec // a unit is positive
	if high >= uint64(time.Second) {
		return time.Unix(1<<40, 0).UTC() // 35 000 years: layouts of few workers and fast sequences
	}
	seconds, rest := bits.Div64(high, low, uint64(time.Second))
	return time.Unix(l.Epoch.Unix()+int64(min(seconds, 1<<40)), int64(l.Epoch.Nanosecond())+int64(rest)).UTC() //nolint:gosec // bounded
}
