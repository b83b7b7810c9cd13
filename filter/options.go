package filter

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options set the size of a filter and how long it remembers. Only Items is required. For a
// [HyperLogLog], nil means the defaults.
type Options struct {
	// Items is the largest number of different ids in one window, or in total if Window is zero; 1
	// to 10 billion. With more ids, the filter says "maybe" more often, and reports it
	// (Stats.Overfull). [HyperLogLog] ignores it.
	Items int
	// FalsePositive is the share of new ids that get "maybe seen" when all windows are full; above
	// 0, below 1; default 0.01. [HyperLogLog] ignores it. With it, Items and Windows say how much
	// memory a Bloom filter needs: at most 64 GiB are allowed.
	FalsePositive float64
	// Window is the time after which the filter starts an empty window and forgets the oldest; at
	// least a millisecond. Zero: it forgets nothing. Time starts at the wall clock at the creation
	// of the filter, and is monotonic from there.
	Window time.Duration
	// Windows is the number of windows, 2 to 64. An id is remembered for at least (Windows−1) ×
	// Window after it was last added. That should cover the time for which rows are kept, so that
	// no id is forgotten while its row exists. Zero: as many as Retention needs, or 2.
	Windows int
	// Retention is how long rows are kept. If it is set, the filter refuses too few windows.
	Retention time.Duration
	// Empty says that the table has no rows yet, so that the filter has all ids from its beginning.
	// By default the filter says "maybe" to every id until a Rebuild has ended or MarkWhole was
	// called; a restarted process must do one of them. Filters on Redis ignore it: they know
	// whether the existing filter is whole.
	Empty bool
	// Precision is only for HyperLogLog, which has 2^Precision registers; 4 to 18. Default 14,
	// which is fixed on Redis.
	Precision int
	// Prefix is put before the keys of filters on Redis; default "rs-filter:".
	Prefix string
	// Logger gets a warning, once in each window, if more ids came than Items. Filters on Redis
	// also log that ids were lost. Default slog.Default().
	Logger *slog.Logger
}

// Upper limits of the options.
const (
	mostItems   = 10_000_000_000
	mostWindows = 64
	// mostBytes is the size of all windows of a Bloom filter together.
	mostBytes = 64 << 30
)

// checkSize returns an error if the windows of a filter have more bytes in all than mostBytes.
func (o *Options) checkSize(window int64) error {
	// a window has at most 2^39 bytes
	if all := window * int64(o.Windows); all > mostBytes {
		return fmt.Errorf("filter: %d ids with a false positive of %v need %d GiB in %d windows, and at most %d GiB are allowed; "+
			"use fewer Items or Windows, a larger FalsePositive, or several filters by a part of the id",
			o.Items, o.FalsePositive, (all+1<<30-1)>>30, o.Windows, int64(mostBytes)>>30)
	}
	return nil
}

// withDefaults returns a copy with the defaults, or an error that says what is invalid.
func (o Options) withDefaults() (Options, error) {
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

// copyOptions returns a copy of o, or the zero Options for nil.
func copyOptions(o *Options) Options {
	if o == nil {
		return Options{}
	}
	return *o
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
		needed = int(min((o.Retention-1)/o.Window+1, mostWindows)) + 1
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
