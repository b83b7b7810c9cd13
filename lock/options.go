package lock

import (
	"fmt"
	"math"
	"time"
)

// Options are a [Locker]'s, and can be changed for one call by [WithLease] and [WithMaxHold]; nil
// is fine.
type Options struct {
	// Lease is how long a lock stays held when its holder dies, and how late a holder is told of a
	// loss at most; default 30 s, 10 ms to 24 h. Heartbeats extend it after a third of it.
	Lease time.Duration
	// MaxHold is how long heartbeats go on; default ten leases, at least one. After it the lock
	// counts as lost, with [ErrBound], and its lease is left to end: a holder that hangs must not
	// hold up the others for ever.
	MaxHold time.Duration
}

// Option changes the options of one call.
type Option func(*Options)

// WithLease is Options.Lease for one call. MaxHold becomes ten of it unless it is given too, behind
// it.
func WithLease(d time.Duration) Option { return func(o *Options) { *o = Options{Lease: d} } }

// WithMaxHold is Options.MaxHold for one call.
func WithMaxHold(d time.Duration) Option { return func(o *Options) { o.MaxHold = d } }

// with applies the options of a call.
func (o Options) with(opts []Option) (Options, error) {
	for _, f := range opts {
		f(&o)
	}
	return o.checked()
}

// checked fills in what is zero, and says what makes no sense.
func (o Options) checked() (Options, error) {
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.MaxHold == 0 {
		o.MaxHold = 10 * min(o.Lease, math.MaxInt64/10)
	}
	if o.Lease < 10*time.Millisecond || o.Lease > 24*time.Hour {
		return o, fmt.Errorf("lock: Lease is %v; it must be 10 ms to 24 h", o.Lease)
	}
	if o.MaxHold < o.Lease {
		return o, fmt.Errorf("lock: MaxHold (%v) is shorter than Lease (%v); leave it zero for ten leases", o.MaxHold, o.Lease)
	}
	return o, nil
}
