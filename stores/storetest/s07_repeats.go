package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s07Repeats: the same owner and fence repeat a call. Acquire returns the same attempt with a
// renewed lease. Complete succeeds and returns the stored record, unchanged even if the answer
// differs. Release succeeds. A store recognises repeated calls by owner and fence, never by a count
// of changed rows: one within the same clock tick changes nothing and still succeeds. After its own
// Release an owner cannot acquire again.
func s07Repeats(e *env) {
	for _, s := range []situation{running, lapsed} {
		e.runSubtest("Acquire, "+s.name, func(e *env) {
			req := e.newRequest(e.key())
			r := s.reach(e, req)
			for range 3 {
				got := e.acquire(req, storeapi.StatusAcquired, "a repeat by the same owner")
				assert.Equal(e, got.Attempt, r.Attempt, "attempt of a repeat")
				assert.Equal(e, got.Fence, r.Fence, "fence of a repeat")
				assert.True(e, got.LeaseLeft > e.long-time.Minute, "a repeat renews the lease: %v left", got.LeaseLeft)
				e.passTime(e.short)
			}
			other := e.acquire(e.newRequest(req.Key), storeapi.StatusInProgress, "after the repeats")
			assert.True(e, other.LeaseLeft > e.long-time.Minute, "the renewed lease is told: %v left", other.LeaseLeft)
			e.complete(completeRequest(r, "the only answer"))
			e.acquire(req, storeapi.StatusFinished, "a repeat by the same owner after its end")
		})
	}
	e.runSubtest("Acquire, many at once", func(e *env) {
		req := e.newRequest(e.key())
		all := callAtOnce(crowd, func(int) acquireResult { return e.tryAcquire(req) })
		for _, a := range all {
			assert.NoError(e, a.err, "Acquire, a repeat beside others")
			wantStatus(e, a.Status, storeapi.StatusAcquired, "a repeat beside others")
			assert.Equal(e, a.Record.Fence, all[0].Record.Fence, "fence of a repeat beside others")
			assert.Equal(e, a.Record.Attempt, 1, "attempt of a repeat beside others")
		}
	})
	e.runSubtest("Extend", func(e *env) {
		r := e.claim(e.newRequest(e.key()))
		for range 3 {
			assert.NoError(e, e.tryExtend(r, e.long), "Extend, repeated")
		}
	})
	e.runSubtest("Complete", func(e *env) {
		r := e.claim(e.newRequest(e.key()))
		done := e.complete(completeRequest(r, "the first answer"))
		e.wantSame(e.complete(completeRequest(r, "the first answer")), done, "what a repeated Complete returns")
		e.passTime(e.short)
		other := completeRequest(r, "another answer")
		other.State, other.Retention = storeapi.StateFailed, e.short
		e.wantSame(e.complete(other), done, "what a repeated Complete with another answer returns")
		e.wantUnchanged(done, "a repeated Complete")
		e.wantAnswered(e.acquire(e.newRequest(r.Key), storeapi.StatusFinished, "after the repeats"), storeapi.StateCompleted, rawAnswer("the first answer"), "answer")
	})
	e.runSubtest("Complete, many at once with different answers", func(e *env) {
		r := e.claim(e.newRequest(e.key()))
		type result struct {
			rec storeapi.Record
			err error
		}
		all := callAtOnce(crowd, func(i int) result {
			rec, err := e.Store.Complete(e.ctx, completeRequest(r, string(rune('a'+i))))
			return result{rec, err}
		})
		stored := e.lookup(r.Key)
		assert.True(e, stored.State == storeapi.StateCompleted && (e.f.Light || len(stored.Answer.Body) == 1), "one of the answers is stored")
		for _, got := range all {
			assert.NoError(e, got.err, "Complete, a repeat beside others")
			e.wantSame(got.rec, stored, "what Complete returns beside others")
		}
	})
	e.runSubtest("Release", func(e *env) {
		r := e.claim(e.newRequest(e.key()))
		e.release(r)
		gone := e.lookup(r.Key)
		e.release(r)
		e.passTime(e.short)
		e.release(r)
		e.wantUnchanged(gone, "a repeated Release")
	})
	e.runSubtest("Release in doubt", func(e *env) {
		r := e.claim(e.newRequest(e.key()))
		e.releaseInDoubt(r)
		doubt := e.lookup(r.Key)
		e.passTime(e.short)
		e.releaseInDoubt(r)
		e.wantUnchanged(doubt, "a repeated Release in doubt")
	})
	e.runSubtest("after its own Release an owner does not win", func(e *env) {
		for _, policy := range []func(*env, storeapi.StoreKey) storeapi.AcquireRequest{(*env).newRequest, (*env).rerunRequest} {
			req := policy(e, e.key())
			e.release(e.claim(req))
			r := e.lookup(req.Key)
			e.acquire(req, storeapi.StatusOwnerSpent, "after its own Release")
			resolve := req
			resolve.IfFence = r.Fence
			e.acquire(resolve, storeapi.StatusOwnerSpent, "with a fence, after its own Release")
			e.wantUnchanged(r, "Acquire by an owner that has released")
			next := e.claim(policy(e, req.Key))
			e.acquire(req, storeapi.StatusInProgress, "of one that has released while the next runs")
			e.wantLeaseLost(next, e.tryRelease(r), "a repeated Release while the next runs")
		}
	})
}
