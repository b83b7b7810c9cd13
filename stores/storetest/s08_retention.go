package storetest

import (
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s08Retention: a finished record is answered for the whole retention and never after it, even
// before a sweep. A record in progress never expires, nor one in doubt under Refuse. A released
// record is kept for the retention, and at least until the NotAfter of its Acquire.
func s08Retention(e *env) {
	keep := 4 * e.short
	for _, state := range []storeapi.State{storeapi.StateCompleted, storeapi.StateFailed} {
		e.runSubtest(state.String(), func(e *env) {
			end := completeRequest(e.claim(e.newRequest(e.key())), "kept")
			end.State, end.Retention = state, keep
			begun := e.now()
			done := e.complete(end)
			e.wantExpiry(done, begun, keep)
			e.checkBefore(done.Expires.Add(-e.brink), done.Expires, end.Key, func(r storeapi.Record, what string) {
				e.wantSame(r, done, what)
			})
			e.wantFreeAfter(done.Expires, end.Key)
		})
	}
	e.runSubtest("the retention counts from the end of the attempt", func(e *env) {
		req := e.newRequest(e.key())
		req.Retention = keep
		r := e.claim(req)
		e.passUntil(r.Now.Add(keep + precision))
		begun := e.now()
		done := e.complete(completeRequest(r, "after a long run"))
		e.wantExpiry(done, begun, keep)
		got := e.tryAcquire(e.newRequest(r.Key))
		assert.NoError(e, got.err, "Acquire after the end")
		if got.Record.Now.Before(done.Expires) { // a slow machine may be too late
			wantStatus(e, got.Status, storeapi.StatusFinished, "at once after the end")
		}
	})
	e.runSubtest("a retention without end", func(e *env) {
		end := completeRequest(e.claim(e.newRequest(e.key())), "for ever")
		end.Retention = storeapi.Forever
		done := e.complete(end)
		req := e.newRequest(e.key())
		req.Retention = storeapi.Forever
		e.release(e.claim(req))
		gone := e.lookup(req.Key)
		e.passTime(e.short)
		if e.Advance != nil {
			e.Advance(50 * 365 * 24 * time.Hour)
		}
		for _, r := range []storeapi.Record{done, gone} {
			assert.True(e, r.Expires.IsZero(), "a record without end has no expiry: got %v", r.Expires)
			e.wantUnchanged(r, "the passing of time")
		}
	})
	for name, policy := range map[string]func(*env, storeapi.StoreKey) storeapi.AcquireRequest{"Refuse": (*env).newRequest, "Reexecute": (*env).rerunRequest} {
		e.runSubtest("in progress longer than the retention, "+name, func(e *env) {
			req := policy(e, e.key())
			req.Retention = e.short
			r := e.claim(req)
			e.passUntil(r.Now.Add(keep))
			e.wantUnchanged(r, "the passing of the retention while it runs")
			e.acquire(policy(e, req.Key), storeapi.StatusInProgress, "past the retention")
			e.complete(completeRequest(r, "in the end"))
		})
	}
	for _, s := range []situation{lapsed, doubted} {
		e.runSubtest("in doubt under Refuse, "+s.name, func(e *env) {
			req := e.newRequest(e.key())
			req.Retention = e.short
			r := s.reach(e, req)
			e.passUntil(r.Now.Add(keep))
			e.wantUnchanged(r, "the passing of the retention in doubt")
			e.acquire(e.rerunRequest(req.Key), storeapi.StatusInDoubt, "past the retention")
			assert.NoError(e, e.tryComplete(r, "late"), "Complete by the holder, whom nobody replaced")
		})
		e.runSubtest("in doubt under Reexecute, "+s.name, func(e *env) {
			req := e.rerunRequest(e.key())
			req.Retention = keep
			r := s.reach(e, req)
			// The retention begins when the attempt ended: with its lease, or when it was put in
			// doubt.
			expires := r.Updated.Add(keep)
			if s.name == lapsed.name {
				expires = expires.Add(e.short)
			}
			e.checkBefore(expires.Add(-e.brink), expires, req.Key, func(r storeapi.Record, what string) {
				assert.True(e, r.InDoubt(), "%s: in doubt", what)
			})
			e.wantFreeAfter(expires, req.Key)
			assert.ErrorIs(e, e.tryComplete(r, "late"), storeapi.ErrLeaseLost, "Complete of a record that was replaced after its expiry")
		})
	}
	e.runSubtest("released", func(e *env) {
		var key storeapi.StoreKey
		var gone storeapi.Record
		for keep := keep; gone.State == 0; keep *= 2 { // a slow machine may be too late to see it
			key = e.key()
			rel := releaseRequest(e.claim(e.newRequest(key)))
			rel.Retention = keep
			begun := e.now()
			assert.NoError(e, e.Store.Release(e.ctx, rel), "Release by the holder")
			gone = e.lookup(key)
			if gone.State != 0 || e.now().Before(begun.Add(keep)) {
				e.wantExpiry(gone, begun, keep)
			}
		}
		e.checkBefore(gone.Expires.Add(-e.brink), gone.Expires, key, func(got storeapi.Record, what string) {
			e.wantSame(got, gone, what)
		})
		e.wantFreeAfter(gone.Expires, key)
	})
	e.runSubtest("released, the attempts go on counting", func(e *env) {
		key := e.key()
		for n := 1; n <= 3; n++ {
			r := e.claim(e.newRequest(key))
			assert.Equal(e, r.Attempt, n, "attempt after %d releases", n-1)
			e.release(r)
		}
	})
	e.runSubtest("released, kept until the limit of its Acquire", func(e *env) {
		for _, repeated := range []bool{false, true} {
			var req storeapi.AcquireRequest
			won := acquireResult{err: storeapi.ErrTooLate}
			for limit := 20 * e.short; errors.Is(won.err, storeapi.ErrTooLate) && limit < 2000*e.short; limit *= 2 {
				req = e.newRequest(e.key())
				req.Lease, req.Retention, req.NotAfter = e.short, e.short, e.now().Add(limit)
				if repeated {
					// The last limit counts: otherwise a late copy of the repeated call could
					// succeed.
					first := req
					first.NotAfter = e.now().Add(limit / 10)
					e.tryAcquire(first)
				}
				won = e.tryAcquire(req)
			}
			assert.NoError(e, won.err, "Acquire by a call that may run")
			wantStatus(e, won.Status, storeapi.StatusAcquired, "a call that may run")
			e.release(won.Record)
			e.passUntil(e.now().Add(3 * e.short))
			got := e.tryAcquire(req)
			if got.err != nil {
				assert.ErrorIs(e, got.err, storeapi.ErrTooLate, "a late copy of the Acquire")
				continue
			}
			wantStatus(e, got.Status, storeapi.StatusOwnerSpent, "a late copy of the Acquire after Release")
		}
	})
}

// wantExpiry wants the retention to count from the call that ended the attempt of r, which began at
// begun and has returned. Record.Updated is not enough: a light form has no room for it.
func (e *env) wantExpiry(r storeapi.Record, begun time.Time, keep time.Duration) {
	e.Helper()
	least, most := begun.Add(keep-10*precision), e.now().Add(keep+10*precision)
	assert.True(e, !r.Expires.Before(least) && !r.Expires.After(most), "the record expires at %v, want %v to %v", r.Expires, least, most)
}

func (e *env) wantExpiryAt(r storeapi.Record, want time.Time) {
	e.Helper()
	assert.True(e, r.Expires.Sub(want).Abs() <= 10*precision, "the record expires at %v, want %v", r.Expires, want)
}

// checkBefore checks the record shortly before its end. A store in real time may be slow: it
// reports its time with the record, and answers from after the end are not checked here.
func (e *env) checkBefore(before, end time.Time, key storeapi.StoreKey, check func(r storeapi.Record, what string)) {
	e.Helper()
	e.passUntil(before)
	if r := e.lookup(key); r.Now.Before(end) {
		check(r, "the record within its retention")
	}
}

// wantFreeAfter wants the key to be free from end on, although no sweep has run.
func (e *env) wantFreeAfter(end time.Time, key storeapi.StoreKey) {
	e.Helper()
	e.passUntil(end.Add(precision))
	e.wantAbsent(key, "after the retention")
	r := e.claim(e.newRequest(key))
	assert.Equal(e, r.Attempt, 1, "attempt after the retention")
}
