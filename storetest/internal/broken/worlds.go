package broken

import (
	"context"
	"maps"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
	"github.com/retrysafe/retrysafe/storetest"
)

// claims are stores that can do more or less than they claim.
func claims() []Broken {
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
			"it never tells of an end", "Notify", nil, nil, open(func(s *store) storeapi.Store { return deaf{s} }),
			storetest.Features{Issuer: true, Sweeper: true, Notifier: true},
		},
		{"it hides that it sweeps", "claims", []string{"S9", "S14"}, nil, open(func(s *store) storeapi.Store {
			return struct {
				storeapi.Store
				storeapi.Issuer
			}{s, s}
		}), plain},
	}
}

// deaf watches, but is never notified.
type deaf struct{ *store }

func (d deaf) Watch(ctx context.Context, _ storeapi.StoreKey, changed func()) error {
	changed()
	<-ctx.Done()
	return ctx.Err()
}

// Control returns a right store with every hook. It passes every clause except List, which it does
// not claim.
func Control(singleWriter bool) Broken {
	return world("right", "", func(w *worldly) { w.gate.oneLane, w.f.SingleWriter = singleWriter, singleWriter })
}

// worldly is a store, the server in front of it, and the hooks for both.
type worldly struct {
	store *store
	gate  *gate
	b     storetest.Backend
	f     storetest.Features
}

// world is a store with one change in its environment.
func world(name, clause string, change func(*worldly), also ...string) Broken {
	build := func() *worldly {
		clock := storetest.NewClock()
		s := newStore(clock.Now)
		g := newGate(s)
		w := &worldly{s, g, storetest.Backend{
			Store: g, Advance: clock.Advance, Rewind: clock.Rewind, Hold: g.hold, Stall: g.stall,
			Reopen: func() storeapi.Store { return &store{right(), clock.Now, nil, s.data} },
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
		cleanup(w.gate.close)
		return w.b
	}, build().f}
}

// worlds are mistakes that appear when the server hangs, restarts, or has other users.
func worlds() []Broken {
	return []Broken{
		world("a win is lost with its handle", "S1", func(w *worldly) {
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
		world("the fence is kept by the handle", "S9", func(w *worldly) {
			w.b.Reopen = func() storeapi.Store {
				s := &store{right(), w.store.clock, nil, w.store.data}
				s.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
					next, st, write, err := right().acquire(cur, now, floor, req)
					if st == storeapi.StatusAcquired {
						next.Fence = 1
					}
					return next, st, write, err
				}
				return s
			}
		}),
		world("a replay reads twice", "S3", func(w *worldly) {
			w.b.Store = &twice{w.gate}
		}),
		world("a call hangs with the server", "S11", func(w *worldly) {
			w.gate.deaf = true
		}, "S15", "S18"),
		world("a call that waited is not asked for its limit", "S15", func(w *worldly) {
			w.gate.asksEarly = true
		}),
		world("a caller that left is served when the transaction is gone", "S15", func(w *worldly) {
			w.gate.asksEarly, w.gate.servesAll = true, true
		}),
		world("a caller's clock decides", "S13", func(w *worldly) {
			w.b.Caller = func(skew time.Duration) storeapi.Store {
				return &store{right(), func() time.Time { return w.store.clock().Add(skew) }, nil, w.store.data}
			}
		}),
		world("Now is the caller's clock", "S13", func(w *worldly) {
			w.b.Caller = func(skew time.Duration) storeapi.Store {
				s := &store{right(), w.store.clock, nil, w.store.data}
				s.show = func(r storeapi.Record) storeapi.Record { r.Now = r.Now.Add(skew); return r }
				return s
			}
		}),
		world("nobody is told of a node whose clock is off", "S13", func(w *worldly) {
			w.b.Node = func(time.Duration) (storeapi.Store, func() bool) { return w.store, func() bool { return false } }
		}),
		world("every node is reported", "S13", func(w *worldly) {
			w.b.Node = func(time.Duration) (storeapi.Store, func() bool) { return w.store, func() bool { return true } }
		}),
		world("a transaction holds up all keys", "S18", func(w *worldly) {
			w.gate.oneLane = true
		}),
		world("a loser waits for the winner's transaction", "S18", func(w *worldly) {
			w.gate.deafToHolds = true
		}, "S11", "S15"),
	}
}

// twice makes a look before each Acquire.
type twice struct{ *gate }

func (t *twice) Acquire(ctx context.Context, req acquireReq) (storeapi.Acquired, error) {
	if _, err := t.gate.Lookup(ctx, req.Key); err != nil {
		return storeapi.Acquired{}, err
	}
	return t.gate.Acquire(ctx, req)
}
