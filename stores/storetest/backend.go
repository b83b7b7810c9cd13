package storetest

import (
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Backend is one fresh, empty store and hooks to control its environment. All fields but Store may
// be nil.
type Backend struct {
	// Store is the store under test.
	Store storeapi.Store
	// Advance moves the store's clock forward; see [Clock]. If it is nil, the store runs in real
	// time: the suite then uses short leases and waits.
	Advance func(time.Duration)
	// Rewind moves the store's clock back, as when a server's clock is corrected (S9). Set it only
	// for a store whose fences then still grow, even if records were removed; other stores rely on
	// their clock there. Needs Advance.
	Rewind func(time.Duration)
	// Reopen returns the same data through a new handle, as another process would see it (S1, S9).
	// The old handle stays in use.
	Reopen func() storeapi.Store
	// Caller returns the store as seen by a process whose own clock is off by skew (S13).
	Caller func(skew time.Duration) storeapi.Store
	// Node returns the same store through a second node, whose clock is off by skew (S13). reported
	// reports whether the difference has been reported so far.
	Node func(skew time.Duration) (node storeapi.Store, reported func() bool)
	// Hold opens another party's transaction on the key, of which the store has no record. release
	// rolls it back (S15, S18).
	Hold func(storeapi.StoreKey) (release func())
	// Stall makes the server hang: it accepts requests and answers none until resume. After that it
	// may apply them (S11, S15).
	Stall func() (resume func())
	// Trips returns the number of round trips to the server so far (S3).
	Trips func() int
}

// Features are the claims of a store: what it can do, never what it is.
type Features struct {
	// Issuer, Limiter, UsageReader, Lister, Notifier, Sweeper, Batcher and Forgetter: the store
	// implements the interface of that name (S12, Limit, Usage, List, Notify, S14, Batch, S23).
	Issuer, Limiter, UsageReader, Lister, Notifier, Sweeper, Batcher, Forgetter bool
	// Durable: a successful claim outlives the handle that made it (S1). Needs Reopen.
	Durable bool
	// Transactions: another party can hold a key in an open transaction (S18). Needs Hold.
	Transactions bool
	// Light: a finished record keeps only its state, its attempt and its expiry.
	Light bool
	// SingleWriter: an open transaction delays the writes for all keys, but never beyond their
	// contexts (S18).
	SingleWriter bool

	// Clauses are the ids of the clauses that Run runs; nil: all. Use it for a second run on the
	// same store under other conditions.
	Clauses []string
	// Unit is the lease that the suite waits for if Backend.Advance is nil; default 60 ms. A larger
	// value makes the run on a slow server longer and lets it check more.
	Unit time.Duration
	// Grace is how long after the end of its context a call may still take; default 1 min, so that
	// a busy machine does not fail.
	Grace time.Duration
}

func (f Features) withDefaults() Features {
	if f.Unit == 0 {
		f.Unit = 60 * time.Millisecond
	}
	if f.Grace == 0 {
		f.Grace = time.Minute
	}
	return f
}

// checkFeatures compares the claims with the hooks: without its hook, the clause of a claim would
// test nothing.
func (b *Backend) checkFeatures(f Features) error {
	switch {
	case b.Store == nil:
		return errors.New("storetest: the backend has no store")
	case f.Durable != (b.Reopen != nil):
		return errors.New("storetest: Features.Durable and Backend.Reopen go together: set both or neither")
	case f.Transactions != (b.Hold != nil):
		return errors.New("storetest: Features.Transactions and Backend.Hold go together: set both or neither")
	case f.UsageReader && !f.Limiter:
		return errors.New("storetest: Features.UsageReader says something about Features.Limiter only")
	case f.SingleWriter && !f.Transactions:
		return errors.New("storetest: Features.SingleWriter says something about Features.Transactions only")
	}
	return nil
}
