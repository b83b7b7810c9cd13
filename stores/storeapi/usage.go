package storeapi

import "time"

// UsageRequest names a tenant whose counts are read, as in [ChargeRequest].
type UsageRequest struct{ Namespace, Tenant string }

// Validate returns an error that wraps [ErrInvalidKey], or nil.
func (r UsageRequest) Validate() error {
	return StoreKey{r.Namespace, "limit", Key{r.Tenant, "limit", "limit"}}.Validate()
}

// Usage is what a tenant uses of its [Limits], which the store does not know.
type Usage struct {
	// Now is the store's clock when it answered.
	Now time.Time
	// Keys is compared with [Limits].Live, and Bytes with [Limits].Bytes.
	Keys, Bytes int64
	// Frees is when the first of the keys stops to count, or zero if none counts.
	Frees time.Time
	// Rates are the rates of which keys were counted lately, the slowest first. Any other rate is
	// idle: its whole burst is free.
	Rates []RateUsage
}

// RateUsage is how full the burst of a rate is.
type RateUsage struct {
	// PerSecond is [Limits].PerSecond. The store keeps it in whole microseconds between two keys,
	// so the last digits of a large one can differ.
	PerSecond float64
	// Used is how many keys of the burst are used. A new key is refused while Used is
	// [Limits].Burst or more.
	Used int64
	// Idle is the time until the rate is idle, if no key comes.
	Idle time.Duration
}
