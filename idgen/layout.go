package idgen

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Layout is the meaning of an id's bits, from the highest: the time since Epoch in Units, the
// worker, the sequence. Together they are 63 bits. Do not change it while the ids are in use:
// another layout can make ids that equal old ones.
type Layout struct {
	TimeBits, WorkerBits, SequenceBits uint8
	Unit                               time.Duration
	Epoch                              time.Time
}

// DefaultEpoch returns the epoch of the layouts of this package: 2025-01-01, in UTC.
func DefaultEpoch() time.Time { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) }

// Twitter returns the layout of Snowflake: 41 bits of milliseconds (69 years), 1024 workers, 4096
// ids a millisecond each, with [DefaultEpoch].
func Twitter() Layout { return Layout{41, 10, 12, time.Millisecond, DefaultEpoch()} }

// Fast returns a layout of 64 workers that make 65 536 ids a millisecond each: 41 bits of
// milliseconds, with [DefaultEpoch].
func Fast() Layout { return Layout{41, 6, 16, time.Millisecond, DefaultEpoch()} }

// UIDGenerator returns the layout of Baidu's uid-generator: 28 bits of seconds (8.5 years), 4 194
// 304 workers, 8192 ids a second each, with [DefaultEpoch]. It is for workers that come and go and
// never return a number.
func UIDGenerator() Layout { return Layout{28, 22, 13, time.Second, DefaultEpoch()} }

// Sonyflake returns a layout with the widths of Sonyflake: 39 bits of 10 ms (174 years), 65 536
// workers, 256 ids in 10 ms each, with [DefaultEpoch]. In Sonyflake the sequence is above the
// worker; here it is below, as in all layouts.
func Sonyflake() Layout { return Layout{39, 16, 8, 10 * time.Millisecond, DefaultEpoch()} }

// leastLeft is how much of a layout's time must be left when a generator starts, so that the
// operator learns of its end early.
const leastLeft = 365 * 24 * time.Hour

// Validate returns an error if l is invalid.
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

// String returns the bits, the unit and the epoch: 41+10+12 bits, 1ms from 2025-01-01T00:00:00Z.
func (l Layout) String() string {
	return fmt.Sprintf("%d+%d+%d bits, %v from %s", l.TimeBits, l.WorkerBits, l.SequenceBits, l.Unit, l.Epoch.UTC().Format(time.RFC3339Nano))
}

func (l Layout) equal(m Layout) bool { return l.String() == m.String() }

// End returns the first time that has no ids.
func (l Layout) End() time.Time { return l.unitStart(1 << l.TimeBits) }

// Workers returns the number of workers that the layout has room for.
func (l Layout) Workers() uint64 { return 1 << l.WorkerBits }

// Parts are the parts of an id.
type Parts struct {
	Time             time.Time // rounded down to the layout's unit
	Worker, Sequence uint64
}

// Split splits an id into its parts. For an id of another layout the parts mean nothing.
func (l Layout) Split(id ID) Parts {
	n := uint64(id) //nolint:gosec // an id is positive
	units := n >> (l.WorkerBits + l.SequenceBits)
	return Parts{
		Time:     l.unitStart(units),
		Worker:   n >> l.SequenceBits & (1<<l.WorkerBits - 1),
		Sequence: n & (1<<l.SequenceBits - 1),
	}
}

// unitStart returns the start of a unit.
func (l Layout) unitStart(units uint64) time.Time {
	high, low := bits.Mul64(units, uint64(l.Unit)) //nolint:gosec // a unit is positive
	if high >= uint64(time.Second) {
		return time.Unix(1<<40, 0).UTC() // 35 000 years: few workers, fast sequences
	}
	seconds, rest := bits.Div64(high, low, uint64(time.Second))
	return time.Unix(l.Epoch.Unix()+int64(min(seconds, 1<<40)), int64(l.Epoch.Nanosecond())+int64(rest)).UTC() //nolint:gosec // bounded
}
