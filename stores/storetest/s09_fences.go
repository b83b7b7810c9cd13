package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s09Fences: attempts grow for the record's life. Fences grow for ever, also through expiry,
// Resolve, Release and deletion.
func s09Fences(e *env) {
	e.runSubtest("over the life of a record", func(e *env) {
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
			e.release(grows(e.claim(e.rerunRequest(key)), "a release"))
		}
		req := e.rerunRequest(key)
		req.Lease = e.short
		e.passLease(grows(e.claim(req), "a release"))
		r := grows(e.claim(e.rerunRequest(key)), "the lease")
		e.releaseInDoubt(r)
		r = grows(e.claim(e.rerunRequest(key)), "doubt")
		force := e.resolveRequest(r)
		force.Force = true
		r = grows(e.claim(force), "a forced resolve")
		e.releaseInDoubt(r)
		r = grows(e.claim(e.resolveRequest(r)), "a resolve")
		end := completeRequest(r, "refused")
		end.State = storeapi.StateFailed
		e.complete(end)
		grows(e.claim(e.resolveRequest(r)), "a redrive")
	})
	e.runSubtest("a fence is the clock in microseconds, if it is not more", func(e *env) {
		before := e.now()
		r := e.claim(e.newRequest(e.key()))
		assert.True(e, int64(r.Fence) >= before.UnixMicro(),
			"the fence %d is at least the store's clock %d before the win", r.Fence, before.UnixMicro())
		assert.True(e, r.Fence < 1<<53, "the fence %d is exact as a float64", r.Fence)
		e.release(r)
		e.passTime(e.short)
		before = e.now()
		r = e.claim(e.newRequest(r.Key))
		assert.True(e, int64(r.Fence) >= before.UnixMicro(),
			"the fence %d of a later win is at least the store's clock %d before it", r.Fence, before.UnixMicro())
	})
	e.runSubtest("over expiry", func(e *env) {
		key := e.key()
		var last storeapi.Fence
		for range 3 {
			last = e.wantFenceAbove(key, last)
		}
	})
	e.runSubtest("over the expiry of a doubt", func(e *env) {
		req := e.rerunRequest(e.key())
		req.Lease, req.Retention = e.short, e.short
		r := e.claim(req)
		e.passUntil(leaseEnd(r).Add(e.short + 2*precision))
		e.wantFenceAbove(req.Key, r.Fence)
	})
	if e.f.Sweeper {
		e.runSubtest("over expiry and a sweep", func(e *env) {
			key := e.key()
			var last storeapi.Fence
			for range 3 {
				last = e.wantFenceAbove(key, last)
				e.sweepAll(100)
			}
		})
	}
	if e.Rewind != nil && e.Advance != nil {
		e.runSubtest("while the clock goes back", checkRewind)
	}
	if e.f.Issuer {
		e.runSubtest("over expiry and a new issue", func(e *env) {
			r := e.claim(e.newRequest(e.key()))
			end := completeRequest(r, "used")
			end.Retention = e.short
			e.passUntil(e.complete(end).Expires.Add(precision))
			e.issue(r.Key, newOwner(), retention)
			req := e.newRequest(r.Key)
			req.MustBeIssued = true
			assert.True(e, e.claim(req).Fence > r.Fence, "the fence grows over a new issue of the key")
		})
	}
	if e.f.Durable {
		e.runSubtest("through another handle", func(e *env) {
			r := released.reach(e, e.newRequest(e.key()))
			got, err := e.Reopen().Acquire(e.ctx, e.newRequest(r.Key))
			assert.NoError(e, err, "Acquire through another handle")
			wantStatus(e, got.Status, storeapi.StatusAcquired, "of a released record through another handle")
			assert.Equal(e, got.Record.Attempt, 2, "attempt through another handle")
			assert.True(e, got.Record.Fence > r.Fence, "the fence grows through another handle")
		})
	}
}

// checkRewind sets the clock back to before a record was created, and forward again.
func checkRewind(e *env) {
	back := func(key storeapi.StoreKey, last storeapi.Fence, how string) {
		e.Helper()
		e.Rewind(e.long)
		got := e.claim(e.newRequest(key))
		e.Advance(e.long)
		assert.True(e, got.Fence > last, "the fence grows after the clock went back over %s: %d after %d", how, got.Fence, last)
	}
	r := e.claim(e.newRequest(e.key()))
	e.release(r)
	back(r.Key, r.Fence, "a release")

	r = lapsed.reach(e, e.rerunRequest(e.key()))
	e.Rewind(e.long)
	e.releaseInDoubt(r) // the lease is live again, since the clock was set back
	got := e.claim(e.rerunRequest(r.Key))
	e.Advance(e.long)
	assert.True(e, got.Fence > r.Fence, "the fence grows after the clock went back over a lease: %d after %d", got.Fence, r.Fence)

	if e.f.Sweeper {
		key := e.key()
		last := e.wantFenceAbove(key, 0)
		e.sweepAll(100)
		back(key, last, "a sweep")
	}
	if e.f.Issuer {
		key := e.key()
		last := e.wantFenceAbove(key, 0)
		e.issue(key, newOwner(), retention)
		back(key, last, "a new issue")
	}
}

// wantFenceAbove wants a first attempt with a fence above last, and lets its record expire.
func (e *env) wantFenceAbove(key storeapi.StoreKey, last storeapi.Fence) storeapi.Fence {
	e.Helper()
	r := e.claim(e.newRequest(key))
	assert.Equal(e, r.Attempt, 1, "attempt of a new record")
	assert.True(e, r.Fence > last, "the fence grows for ever: %d after %d", r.Fence, last)
	end := completeRequest(r, "for a moment")
	end.Retention = e.short
	e.passUntil(e.complete(end).Expires.Add(precision))
	return r.Fence
}

// sweepAll removes all expired records, and returns their number.
func (e *env) sweepAll(limit int) (total int) {
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
