package retrysafe

import (
	"errors"
	"fmt"
	"math"
)

// Limits bound what one tenant may have in the store, whichever process it comes through: the store
// keeps the counts ([Limiter]), one for each namespace and tenant. They are over all layers: a
// transaction inside a guarded handler is a second key. A new key that is over a limit is refused
// with [ErrTooManyKeys] before anything is stored; a key that is known is answered all the same,
// and not counted again. Callers without a tenant are one tenant.
//
// A call inside the work of another one (where [AttemptFrom] finds its attempt) is counted and
// never refused: the outer key would be in doubt for what is only too early. A refusal that comes
// from elsewhere, over HTTP say, is the work's to handle.
//
// In a [Policy] a zero field takes the engine's default, and there it is no limit; a negative field
// is no limit. Different policies compare the one count with limits of their own. What comes by a
// policy without any limits is not counted.
type Limits struct {
	// Live is how many keys may be within their retention, counted from when they began. A key
	// stops to count up to a sixteenth of its retention late, never early; with [Forever] it counts
	// for ever.
	Live int64
	// PerSecond is how many new keys may begin in a second on average, 0.0001 to 100000, by the
	// generic cell rate algorithm (GCRA; ATM Forum, Traffic Management 4.0). Policies with the same
	// PerSecond share one rate.
	PerSecond float64
	// Burst is how many of them may begin at once, at most 100000; default PerSecond, rounded up.
	Burst int64
	// Bytes is how many bytes the kept answers may have before new keys are refused. An answer is
	// counted once it is stored, and no answer is refused: what runs already may go over it. Only
	// answers under a policy with this limit count.
	Bytes int64
}

// or returns l with each zero field taken from base. A rate of its own has a burst of its own.
func (l Limits) or(base Limits) Limits {
	if l.PerSecond == 0 {
		set(&l.Burst, base.Burst)
	}
	set(&l.Live, base.Live)
	set(&l.PerSecond, base.PerSecond)
	set(&l.Bytes, base.Bytes)
	return l
}

// any tells whether there is a limit at all.
func (l *Limits) any() bool { return l.Live > 0 || l.PerSecond > 0 || l.Bytes > 0 }

// unrefused is l for keys that are counted and not refused, unless the largest burst is ahead of
// the rate.
func (l *Limits) unrefused() Limits {
	if l.PerSecond <= 0 {
		return Limits{}
	}
	return Limits{PerSecond: l.PerSecond, Burst: maxBurst}
}

// Bounds of a rate, so that times stay within what every store can count.
const (
	minRate  = 0.0001
	maxRate  = 100_000
	maxBurst = 100_000
)

func (l *Limits) rateIsWrong() bool {
	r := l.PerSecond
	return math.IsNaN(r) || r > 0 && r < minRate || r > maxRate
}

func (l *Limits) validate() error {
	var errs []error
	if l.rateIsWrong() {
		errs = append(errs, fmt.Errorf("retrysafe: policy: Limits.PerSecond is %v; use %v to %v, or a negative number for no limit", l.PerSecond, minRate, maxRate))
	}
	if l.Burst < 0 || l.Burst > maxBurst {
		errs = append(errs, fmt.Errorf("retrysafe: policy: Limits.Burst is %d; use 1 to %d, or zero for a second's worth", l.Burst, maxBurst))
	}
	if l.Burst > 0 && l.PerSecond == 0 {
		errs = append(errs, fmt.Errorf("retrysafe: policy: Limits.Burst is %d, and there is no PerSecond that it belongs to", l.Burst))
	}
	return errors.Join(errs...)
}

func set[T comparable](field *T, base T) {
	var zero T
	if *field == zero {
		*field = base
	}
}
