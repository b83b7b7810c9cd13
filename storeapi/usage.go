package storeapi

import "time"

// UsageRequest names a tenant whose counts are read.
type UsageRequest struct {
	// Namespace and Tenant are as in [ChargeRequest].
	Namespace, Tenant string
}

// Validate returns an error, or nil. The error wraps [ErrInvalidKey].
func (r UsageRequest) Validate() error {
	return StoreKey{r.Namespace, "limit", Key{r.Tenant, "limit", "limit"}}.Validate()
}

// Usage is what a tenant uses of its [Limits]. A store does not know the limits: they are in the
// policies of the callers.
type Usage struct {
	// Now is the time at which it was read, by the store's clock.
	Now time.Time
	// Keys is how many keys are within their time, to compare with [Limits].Live.
	Keys int64
	// Bytes is how many bytes are stored, to compare with [Limits].Bytes.
	Bytes int64
	// Frees is when the first of the keys stops to count. It is zero if none counts.
	Frees time.Time
	// Rates are the rates of which keys were counted lately, the slowest first. A rate that is not
	// among them is idle: its whole burst is free.
	Rates []RateUsage
}

// RateUsage is how full the burst of a rate is.
type RateUsage struct {
	// PerSecond is the rate, [Limits].PerSecond. The store keeps it in whole microseconds between
	// two keys, so the last digits of a large one can differ from what was configured.
	PerSecond float64
	// Used is how many keys of the burst are taken. A new key is refused while Used is
	// [Limits].Burst or more.
	Used int64
	// Idle is the time until the rate is idle, if no key comes.
	Idle time.Duration
}
