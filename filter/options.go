package filter

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/bits-and-blooms/bloom/v3"
)

// Options say how large a filter is and how long it remembers. Only Items is required.
type Options struct {
	// Items is how many different ids come in one window at most, or in all where Window is zero; 1
	// to 10 billion. With more than that the filter says "maybe" more often, and reports it
	// (Stats.Overfull). [HyperLogLog] has no use for it.
	Items int
	// FalsePositive is the share of new ids that are said to be maybe seen when all windows are
	// full. Default 0.01; above 0, below 1. [HyperLogLog] has no use for it.
	FalsePositive float64
	// Window is the time after which the filter begins with an empty window and forgets the oldest;
	// at least a millisecond. Zero: it forgets nothing. Time is counted by the wall clock as it was
	// when the filter was made, and on from there.
	Window time.Duration
	// Windows is how many windows there are, 2 to 64. An id is remembered for at least (Windows−1)
	// × Window after it was last added. So that nothing is forgotten while its row is there, let
	// that cover the time for which rows are kept. Zero: as many as Retention needs, or 2.
	Windows int
	// Retention is how long rows are kept. Where it is given the filter refuses windows that are
	// too few for it.
	Retention time.Duration
	// Empty says that the table has no rows yet, so that the filter has all of them from its
	// beginning. Default: it says "maybe" to all until a Rebuild has come to its end, or MarkWhole
	// was called, as a process has to that starts again. Filters on Redis have no use for it: they
	// know whether the one there is whole.
	Empty bool
	// Precision is for HyperLogLog alone: it has 2^Precision registers, 4 to 18. Default 14, as on
	// Redis, where it cannot be changed.
	Precision int
	// Prefix stands before the keys of filters on Redis; default "rs-filter:".
	Prefix string
	// Logger is told once in each window that more ids came than Items, and by filters on Redis
	// that ids were lost. Default slog.Default().
	Logger *slog.Logger
}

// most are the largest numbers that are taken.
const (
	mostItems   = 10_000_000_000
	mostWindows = 64
)

// checked is a copy with the defaults, or what is wrong with o.
func (o Options) checked() (Options, error) {
	if o.FalsePositive == 0 {
		o.FalsePositive = 0.01
	}
	if o.Precision == 0 {
		o.Precision = 14
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := o.checkWindows(); err != nil {
		return o, err
	}
	switch {
	case o.Items < 1 || o.Items > mostItems:
		return o, fmt.Errorf("filter: Items is %d; say how many different ids come in one window, 1 to %d", o.Items, int64(mostItems))
	case !(o.FalsePositive > 1e-12 && o.FalsePositive < 1):
		return o, fmt.Errorf("filter: FalsePositive is %v; use a share below 1, such as 0.01, or zero for that", o.FalsePositive)
	case o.Precision < 4 || o.Precision > 18:
		return o, fmt.Errorf("filter: Precision is %d; use 4 to 18, or zero for 14", o.Precision)
	}
	return o, nil
}

func (o *Options) checkWindows() error {
	if o.Window == 0 {
		if o.Windows > 1 || o.Retention != 0 {
			return errors.New("filter: Windows or Retention without Window; say how long a window is, or leave them out and nothing is forgotten")
		}
		o.Windows = 1
		return nil
	}
	if o.Window < time.Millisecond || o.Retention < 0 {
		return fmt.Errorf("filter: Window is %v and Retention %v; a window is a millisecond at least, and no time is negative", o.Window, o.Retention)
	}
	needed := 2
	if o.Retention > 0 {
		needed = int(min((o.Retention+o.Window-1)/o.Window, mostWindows)) + 1
		needed = max(needed, 2)
	}
	if o.Windows == 0 {
		o.Windows = needed
	}
	switch {
	case o.Windows < needed:
		return fmt.Errorf("filter: %d windows of %v forget what is kept for %v; use %d windows, or longer ones", o.Windows, o.Window, o.Retention, needed)
	case o.Windows > mostWindows:
		return fmt.Errorf("filter: %d windows; at most %d are allowed, so use longer ones", o.Windows, mostWindows)
	}
	return nil
}

// shape is how the bits of one window are laid out: parts that are filters of their own, of which
// an id has one. In a process each part has a lock; on Redis it has a key.
type shape struct {
	parts int
	bits  uint // of a part, a multiple of 64
	k     uint // bits for each id
}

// shape divides what a window needs, so that the windows together keep to FalsePositive. The size
// of a part is such that chance, by which some parts get more ids than others, raises the share of
// false positives by less than a hundredth.
func (o *Options) shape(most int, least uint) shape {
	m, k := bloom.EstimateParameters(uint(o.Items), o.FalsePositive/float64(o.Windows))
	parts := max(1, min(most, int(m/least)))
	bits := (m/uint(parts) + 64) / 64 * 64
	return shape{parts: parts, bits: bits, k: max(1, k)}
}

// filled is the share of bits that ids have set, by the usual formula.
func (s shape) filled(ids float64) float64 {
	return 1 - math.Exp(-float64(s.k)*ids/(float64(s.bits)*float64(s.parts)))
}

// falsePositive is the share of new ids that a window with so many ids says maybe to.
func (s shape) falsePositive(ids float64) float64 {
	return math.Pow(s.filled(ids), float64(s.k))
}
