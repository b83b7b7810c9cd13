package broken

import (
	"context"
	"maps"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// claimMistakes are stores that can do more or less than they claim.
func claimMistakes() []Broken {
	open := func(wrap func(*store) storeapi.Store) func(func(func())) storetest.Backend {
		return func(func(func())) storetest.Backend {
			clock := storetest.NewClock()
			return storetest.Backend{Store: wrap(newStore(clock.Now)), Advance: clock.Advance}
		}
	}
	whole := func(s *store) storeapi.Store { return s }
	return []Broken{
		{"it issues and does not say so", "claims", nil, nil, open(whole), storetest.Features{Sweeper: true}},
		{"it says that it lists and does not", "claims", []string{"List"}, nil, open(whole), storetest.Features{Issuer: true, Sweeper: true, Lister: true}},
		{
			"it never tells of an end", "Notify", nil, nil, open(func(s *store) storeapi.Store { return unnotified{s} }),
			storetest.Features{Issuer: true, Sweeper: true, Notifier: true},
		},
		{"it hides that it sweeps", "claims", []string{"S9", "S14"}, nil, open(func(s *store) storeapi.Store {
			return struct {
				storeapi.Store
				storeapi.Issuer
			}{s, s}
		}), plainFeatures},
	}
}

// unnotified watches, but is never notified.
type unnotified struct{ *store }

func (d unnotified) Watch(ctx context.Context, _ storeapi.StoreKey, changed func()) error {
	changed()
	<-ctx.Done()
	return ctx.Err()
}

// Control returns a right store with every hook. It passes every clause except List, which it does
// not claim.
func Control(singleWriter bool) Broken {
	return withEnvironment("right", "", func(w *environment) { w.gate.oneLane, w.f.SingleWriter = singleWriter, singleWriter })
}

// environment is a store, the server in front of it, and the hooks for both.
type environment struct {
	store *store
	gate  *gate
	b     storetest.Backend
	f     storetest.Features
}

// withEnvironment is a store with one change in its environment.
func withEnvironment(name, clause string, change func(*environment), also ...string) Broken {
	build := func() *environment {
		clock := storetest.NewClock()
		s := newStore(clock.Now)
		g := newGate(s)
		w := &environment{s, g, storetest.Backend{
			Store: g, Advance: clock.Advance, Rewind: clock.Rewind, Hold: g.holdKey, Stall: g.stallServer,
			Reopen: func() storeapi.Store { return &store{correctRules(), clock.Now, nil, s.sharedData} },
			Caller: func(time.Duration) storeapi.Store { return s },
			Node: func(skew time.Duration) (storeapi.Store, func() bool) {
				return s, func() bool { return skew.Abs() > time.Minute }
			},
			Trips: func() int { s.mu.Lock(); defer s.mu.Unlock(); return s.trips },
		}, storetest.Features{Issuer: true, Sweeper: true, Durable: true, Transactions: true}}
		change(w)
		return w
	}
	return Broken{name, clause, also, nil, func(cleanup func(func())) storetest.Backend {
		w := build()
		cleanup(w.gate.endWaits)
		return w.b
	}, build().f}
}

// environmentMistakes are mistakes that appear when the server hangs, restarts, or has other users.
func environmentMistakes() []Broken {
	return []Broken{
		withEnvironment("a win is lost with its handle", "S1", func(w *environment) {
			w.b.Reopen = func() storeapi.Store {
				s := newStore(w.store.clock)
				w.store.mu.Lock()
				defer w.store.mu.Unlock()
				s.rows = maps.Clone(w.store.rows)
				for key, r := range s.rows {
					if r.State == storeapi.StateInProgress {
						delete(s.rows, key)
					}
				}
				return s
			}
		}),
		withEnvironment("the fence is kept by the handle", "S9", func(w *environment) {
			w.b.Reopen = func() storeapi.Store {
				s := &store{correctRules(), w.store.clock, nil, w.store.sharedData}
				s.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
					next, st, write, err := correctRules().acquire(cur, now, floor, req)
					if st == storeapi.StatusAcquired {
						next.Fence = 1
					}
					return next, st, write, err
				}
				return s
			}
		}),
		withEnvironment("a replay reads twice", "S3", func(w *environment) {
			w.b.Store = &readsTwice{w.gate}
		}),
		withEnvironment("a call hangs with the server", "S11", func(w *environment) {
			w.gate.ignoresContext = true
		}, "S15", "S18"),
		withEnvironment("a call that waited is not asked for its limit", "S15", func(w *environment) {
			w.gate.checksEarly = true
		}),
		withEnvironment("a caller that left is served when the transaction is gone", "S15", func(w *environment) {
			w.gate.checksEarly, w.gate.servesAll = true, true
		}),
		withEnvironment("a caller's clock decides", "S13", func(w *environment) {
			w.b.Caller = func(skew time.Duration) storeapi.Store {
				return &store{correctRules(), func() time.Time { return w.store.clock().Add(skew) }, nil, w.store.sharedData}
			}
		}),
		withEnvironment("Now is the caller's clock", "S13", func(w *environment) {
			w.b.Caller = func(skew time.Duration) storeapi.Store {
				s := &store{correctRules(), w.store.clock, nil, w.store.sharedData}
				s.changeRecord = func(r storeapi.Record) storeapi.Record { r.Now = r.Now.Add(skew); return r }
				return s
			}
		}),
		withEnvironment("nobody is told of a node whose clock is off", "S13", func(w *environment) {
			w.b.Node = func(time.Duration) (storeapi.Store, func() bool) { return w.store, func() bool { return false } }
		}),
		withEnvironment("every node is reported", "S13", func(w *environment) {
			w.b.Node = func(time.Duration) (storeapi.Store, func() bool) { return w.store, func() bool { return true } }
		}),
		withEnvironment("a transaction holds up all keys", "S18", func(w *environment) {
			w.gate.oneLane = true
		}),
		withEnvironment("a loser waits for the winner's transaction", "S18", func(w *environment) {
			w.gate.ignoresContextOfHolds = true
		}, "S11", "S15"),
	}
}

// readsTwice makes a look before each Acquire.
type readsTwice struct{ *gate }

func (t *readsTwice) Acquire(ctx context.Context, req acquireReq) (storeapi.Acquired, error) {
	if _, err := t.gate.Lookup(ctx, req.Key); err != nil {
		return storeapi.Acquired{}, err
	}
	return t.gate.Acquire(ctx, req)
}
