package storeapi

import (
	"fmt"
	"math"
	"time"
)

// ChargeRequest counts what a tenant uses, in all layers of a namespace.
//
// New keys are refused if they would be more than Live, if they come faster than PerSecond and
// Burst allow, or if the tenant has already used its Bytes. Everything else is counted as it is.
// What is given back is what was counted last; no count goes below zero, and no rate below idle.
type ChargeRequest struct {
	// Namespace and Tenant are as in [StoreKey]; an empty tenant is a tenant of its own.
	Namespace, Tenant string
	// Keys is the number of new keys, at most [MaxBurst], and Bytes the number of bytes that were
	// stored, at most a TiB. A negative number gives back.
	Keys, Bytes int64
	// For is how long they count, and at most a sixteenth longer.
	For time.Duration
	// Limits are compared with what is counted: PerSecond with the keys that came with the same
	// PerSecond. If a tenant has 256 rates in use, keys of one more are refused for a moment.
	Limits Limits
}

// maxBytes is the most bytes in one charge.
const maxBytes = 1 << 40

// Validate returns an error that names what is out of bounds, or nil. It wraps [ErrInvalidKey] for
// the namespace and the tenant. The bounds make every store count alike, in floating point too.
func (r *ChargeRequest) Validate() error {
	l := &r.Limits
	switch {
	case r.For <= 0:
		return fmt.Errorf("retrysafe: Charge for %v; use a positive time", r.For)
	case r.Keys > MaxBurst || r.Keys < -MaxBurst:
		return fmt.Errorf("retrysafe: Charge of %d keys; use at most %d at once", r.Keys, MaxBurst)
	case r.Bytes > maxBytes || r.Bytes < -maxBytes:
		return fmt.Errorf("retrysafe: Charge of %d bytes; use at most %d at once", r.Bytes, int64(maxBytes))
	case !l.ValidRate():
		return fmt.Errorf("retrysafe: Charge at %v keys a second; use %v to %v, or a negative number for no limit", l.PerSecond, MinRate, MaxRate)
	case l.Burst > MaxBurst:
		return fmt.Errorf("retrysafe: Charge with a burst of %d; use at most %d", l.Burst, MaxBurst)
	}
	return UsageRequest{r.Namespace, r.Tenant}.Validate()
}

// Charged is the answer to Charge.
type Charged struct {
	// OK reports whether the charge was counted.
	OK bool
	// After, if the charge was not counted, is the time until one more key conforms to the rate, or
	// until something that counts has expired, 1 s to 60 s.
	After time.Duration
}

// Limits bound what one tenant may have in a store. Zero and negative fields mean no limit.
type Limits struct {
	// Live is how many keys may be within their time.
	Live int64
	// PerSecond is how many new keys may begin in a second on average, [MinRate] to [MaxRate], by
	// the generic cell rate algorithm (GCRA; ATM Forum, Traffic Management 4.0).
	PerSecond float64
	// Burst is how many new keys may begin at once, at most [MaxBurst]; default PerSecond, rounded
	// up.
	Burst int64
	// Bytes is how many bytes may be stored before new keys are refused.
	Bytes int64
}

// Bounds of a rate, which keep times within what every store can count.
const (
	MinRate  = 0.0001
	MaxRate  = 100_000
	MaxBurst = 100_000
)

// ValidRate reports whether PerSecond is within its bounds, or no limit.
func (l *Limits) ValidRate() bool {
	r := l.PerSecond
	return !(math.IsNaN(r) || r > 0 && r < MinRate || r > MaxRate)
}
