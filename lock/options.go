package lock

import (
	"fmt"
	"math"
	"time"
)

// Options configures a [Locker]. [WithLease] and [WithMaxHold] change it for one call. A nil
// *Options means the defaults.
type Options struct {
	// Lease is how long a lock stays held after its holder dies. It is also the longest time until
	// a holder is notified of a loss. Default 30 s, from 10 ms to 24 h. A heartbeat extends it
	// after a third of it.
	Lease time.Duration
	// MaxHold is how long heartbeats continue; default ten leases, at least one. After it the lock
	// counts as lost, with [ErrMaxHold], and its lease expires: a holder that hangs must not block
	// the others for ever.
	MaxHold time.Duration
	// Trace receives what the locker does, for metrics and spans. Default: none.
	Trace *Trace
}

// Option changes the options of one call.
type Option func(*Options)

// WithLease sets Options.Lease for one call. It also sets MaxHold to ten leases, unless WithMaxHold
// follows it.
func WithLease(d time.Duration) Option { return func(o *Options) { o.Lease, o.MaxHold = d, 0 } }

// WithMaxHold sets Options.MaxHold for one call.
func WithMaxHold(d time.Duration) Option { return func(o *Options) { o.MaxHold = d } }

// withCallOptions applies the options of a call.
func (o Options) withCallOptions(opts []Option) (Options, error) {
	for _, f := range opts {
		f(&o)
	}
	return o.withDefaults()
}

// withDefaults sets the defaults, and returns an error for invalid values.
func (o Options) withDefaults() (Options, error) {
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
