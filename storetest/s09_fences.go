package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// s09Fences: attempts grow for the record's life. Fences grow for ever, also through expiry,
// Resolve, Release and deletion.
func s09Fences(e *env) {
	e.run("over the life of a record", func(e *env) {
		key := e.key()
		var last storeapi.Record
		grows := func(r storeapi.Record, how string) storeapi.Record {
			e.Helper()
			assert.Equal(e, r.Attempt, last.Attempt+1, "attempt after %s", how)
			assert.True(e, r.Fence > last.Fence, "the fence grows after %s: %d after %d", how, r.Fence, last.Fence)
			last = r
			return r
		}
		for range 5 { // within one tick of a clock that does not move
			e.release(grows(e.win(e.rerun(key)), "a release"))
		}
		req := e.rerun(key)
		req.Lease = e.short
		e.lapse(grows(e.win(req), "a release"))
		r := grows(e.win(e.rerun(key)), "the lease")
		e.doubt(r)
		r = grows(e.win(e.rerun(key)), "doubt")
		force := e.resolve(r)
		force.Force = true
		r = grows(e.win(force), "a forced resolve")
		e.doubt(r)
		r = grows(e.win(e.resolve(r)), "a resolve")
		end := ending(r, "refused")
		end.State = storeapi.StateFailed
		e.complete(end)
		grows(e.win(e.resolve(r)), "a redrive")
	})
	e.run("a fence is the clock in microseconds, if it is not more", func(e *env) {
		before := e.now()
		r := e.win(e.ask(e.key()))
		assert.True(e, int64(r.Fence) >= before.UnixMicro(),
			"the fence %d is at least the store's clock %d before the win", r.Fence, before.UnixMicro())
		assert.True(e, r.Fence < 1<<53, "the fence %d is exact as a float64", r.Fence)
		e.release(r)
		e.pass(e.short)
		before = e.now()
		r = e.win(e.ask(r.Key))
		assert.True(e, int64(r.Fence) >= before.UnixMicro(),
			"the fence %d of a later win is at least the store's clock %d before it", r.Fence, before.UnixMicro())
	})
	e.run("over expiry", func(e *env) {
		key := e.key()
		var last storeapi.Fence
		for range 3 {
			last = e.grown(key, last)
		}
	})
	e.run("over the expiry of a doubt", func(e *env) {
		req := e.rerun(e.key())
		req.Lease, req.Retention = e.short, e.short
		r := e.win(req)
		e.passUntil(leaseEnd(r).Add(e.short + 2*precision))
		e.grown(req.Key, r.Fence)
	})
	if e.f.Sweeper {
		e.run("over expiry and a sweep", func(e *env) {
			key := e.key()
			var last storeapi.Fence
			for range 3 {
				last = e.grown(key, last)
				e.sweep(100)
			}
		})
	}
	if e.Rewind != nil && e.Advance != nil {
		e.run("while the clock goes back", rewound)
	}
	if e.f.Issuer {
		e.run("over expiry and a new issue", func(e *env) {
			r := e.win(e.ask(e.key()))
			end := ending(r, "used")
			end.Retention = e.short
			e.passUntil(e.complete(end).Expires.Add(precision))
			e.issue(r.Key, newOwner(), retention)
			req := e.ask(r.Key)
			req.MustBeIssued = true
			assert.True(e, e.win(req).Fence > r.Fence, "the fence grows over a new issue of the key")
		})
	}
	if e.f.Durable {
		e.run("through another handle", func(e *env) {
			r := released.reach(e, e.ask(e.key()))
			got, err := e.Reopen().Acquire(e.ctx, e.ask(r.Key))
			assert.NoError(e, err, "Acquire through another handle")
			wantStatus(e, got.Status, storeapi.StatusAcquired, "of a released record through another handle")
			assert.Equal(e, got.Record.Attempt, 2, "attempt through another handle")
			assert.True(e, got.Record.Fence > r.Fence, "the fence grows through another handle")
		})
	}
}

// rewound sets the clock back to before a record was created, and forward again.
func rewound(e *env) {
	back := func(key storeapi.StoreKey, last storeapi.Fence, how string) {
		e.Helper()
		e.Rewind(e.long)
		got := e.win(e.ask(key))
		e.Advance(e.long)
		assert.True(e, got.Fence > last, "the fence grows after the clock went back over %s: %d after %d", how, got.Fence, last)
	}
	r := e.win(e.ask(e.key()))
	e.release(r)
	back(r.Key, r.Fence, "a release")

	r = lapsed.reach(e, e.rerun(e.key()))
	e.Rewind(e.long)
	e.doubt(r) // the lease is live again, since the clock was set back
	got := e.win(e.rerun(r.Key))
	e.Advance(e.long)
	assert.True(e, got.Fence > r.Fence, "the fence grows after the clock went back over a lease: %d after %d", got.Fence, r.Fence)

	if e.f.Sweeper {
		key := e.key()
		last := e.grown(key, 0)
		e.sweep(100)
		back(key, last, "a sweep")
	}
	if e.f.Issuer {
		key := e.key()
		last := e.grown(key, 0)
		e.issue(key, newOwner(), retention)
		back(key, last, "a new issue")
	}
}

// grown wants a first attempt with a fence above last, and lets its record expire.
func (e *env) grown(key storeapi.StoreKey, last storeapi.Fence) storeapi.Fence {
	e.Helper()
	r := e.win(e.ask(key))
	assert.Equal(e, r.Attempt, 1, "attempt of a new record")
	assert.True(e, r.Fence > last, "the fence grows for ever: %d after %d", r.Fence, last)
	end := ending(r, "for a moment")
	end.Retention = e.short
	e.passUntil(e.complete(end).Expires.Add(precision))
	return r.Fence
}

// sweep removes all expired records, and returns their number.
func (e *env) sweep(limit int) (total int) {
	e.Helper()
	s, ok := e.Store.(storeapi.Sweeper)
	assert.True(e, ok, "a store that claims Sweeper implements it")
	for start := time.Now(); ; {
		n, err := s.Sweep(e.ctx, limit)
		assert.NoError(e, err, "Sweep")
		assert.True(e, n >= 0 && n <= limit, "Sweep removes at most the %d it was asked for: got %d", limit, n)
		total += n
		if n < limit {
			return total
		}
		assert.True(e, time.Since(start) < patience, "Sweep comes to an end")
	}
}
