package storetest

import (
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Backend is one fresh, empty store and what a test may do to the world around it. All but Store
// may be nil.
type Backend struct {
	// Store is the store under test.
	Store retrysafe.Store
	// Advance moves the store's clock forward; see [Clock]. Nil means real time: the suite then
	// uses short leases and waits.
	Advance func(time.Duration)
	// Rewind moves the store's clock back, as a server's clock is set right (S9). Only for a store
	// whose fences grow over that even where records were removed; others rely on their clock
	// there. Needs Advance.
	Rewind func(time.Duration)
	// Reopen returns the same data through a new handle, as another process would see them (S1,
	// S9). The old handle stays in use.
	Reopen func() retrysafe.Store
	// Caller returns the store as a process sees it whose own clock is off by skew (S13).
	Caller func(skew time.Duration) retrysafe.Store
	// Node returns the same store through a second of its nodes, whose clock is off by skew (S13);
	// reported tells whether anybody was told of that by now.
	Node func(skew time.Duration) (node retrysafe.Store, reported func() bool)
	// Hold opens somebody's transaction on the key, which the store has no record of, and returns
	// what rolls it back (S15, S18).
	Hold func(retrysafe.StoreKey) (release func())
	// Stall makes the server hang: it takes requests and answers none until resume, and may then
	// apply what it has taken (S11, S15).
	Stall func() (resume func())
	// Trips counts the round trips to the server so far (S3).
	Trips func() int
}

// Features are the claims of a store. They say what it can do, never what it is called.
type Features struct {
	// Issuer, Limiter, Lister, Notifier, Sweeper and Batcher: the store implements the interface of
	// that name (S12, Limit, List, Notify, S14, Batch).
	Issuer, Limiter, Lister, Notifier, Sweeper, Batcher bool
	// Durable: a win outlives the handle that won it (S1). Needs Reopen.
	Durable bool
	// Transactions: others may hold a key in an open transaction (S18). Needs Hold.
	Transactions bool
	// Light: of finished records only the state, the attempt and the end of their life are kept.
	Light bool
	// SingleWriter: an open transaction delays the writes for all keys, though never past their
	// contexts (S18).
	SingleWriter bool

	// Clauses are the only ones that Run runs, by their ids; nil: all. It is for a second run on
	// the same store under other circumstances.
	Clauses []string
	// Unit is the lease that is waited for where Backend.Advance is nil; default 60 ms. More makes
	// a slow server's runs longer and lets them see more.
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

// check compares the claims with the hooks: a claim without its hook would be a clause that tests
// nothing.
func (b *Backend) check(f Features) error {
	switch {
	case b.Store == nil:
		return errors.New("storetest: the backend has no store")
	case f.Durable != (b.Reopen != nil):
		return errors.New("storetest: Features.Durable and Backend.Reopen go together: set both or neither")
	case f.Transactions != (b.Hold != nil):
		return errors.New("storetest: Features.Transactions and Backend.Hold go together: set both or neither")
	case f.SingleWriter && !f.Transactions:
		return errors.New("storetest: Features.SingleWriter says something about Features.Transactions only")
	}
	return nil
}
