package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// s07Repeats: the same owner and fence repeat a call. Acquire returns the same attempt with a
// renewed lease. Complete succeeds and returns the stored record, unchanged even if the answer
// differs. Release succeeds. A store recognises repeated calls by owner and fence, never by a count
// of changed rows: one within the same clock tick changes nothing and still succeeds. After its own
// Release an owner cannot acquire again.
func s07Repeats(e *env) {
	for _, s := range []situation{running, lapsed} {
		e.run("Acquire, "+s.name, func(e *env) {
			req := e.ask(e.key())
			r := s.reach(e, req)
			for range 3 {
				got := e.acquire(req, storeapi.StatusAcquired, "a repeat by the same owner")
				assert.Equal(e, got.Attempt, r.Attempt, "attempt of a repeat")
				assert.Equal(e, got.Fence, r.Fence, "fence of a repeat")
				assert.True(e, got.LeaseLeft > e.long-time.Minute, "a repeat renews the lease: %v left", got.LeaseLeft)
				e.pass(e.short)
			}
			other := e.acquire(e.ask(req.Key), storeapi.StatusInProgress, "after the repeats")
			assert.True(e, other.LeaseLeft > e.long-time.Minute, "the renewed lease is told: %v left", other.LeaseLeft)
			e.complete(ending(r, "the only answer"))
			e.acquire(req, storeapi.StatusFinished, "a repeat by the same owner after its end")
		})
	}
	e.run("Acquire, many at once", func(e *env) {
		req := e.ask(e.key())
		all := atOnce(crowd, func(int) tried { return e.try(req) })
		for _, a := range all {
			assert.NoError(e, a.err, "Acquire, a repeat beside others")
			wantStatus(e, a.Status, storeapi.StatusAcquired, "a repeat beside others")
			assert.Equal(e, a.Record.Fence, all[0].Record.Fence, "fence of a repeat beside others")
			assert.Equal(e, a.Record.Attempt, 1, "attempt of a repeat beside others")
		}
	})
	e.run("Extend", func(e *env) {
		r := e.win(e.ask(e.key()))
		for range 3 {
			assert.NoError(e, e.tryExtend(r, e.long), "Extend, repeated")
		}
	})
	e.run("Complete", func(e *env) {
		r := e.win(e.ask(e.key()))
		done := e.complete(ending(r, "the first answer"))
		e.same(e.complete(ending(r, "the first answer")), done, "what a repeated Complete returns")
		e.pass(e.short)
		other := ending(r, "another answer")
		other.State, other.Retention = storeapi.StateFailed, e.short
		e.same(e.complete(other), done, "what a repeated Complete with another answer returns")
		e.unchanged(done, "a repeated Complete")
		e.answered(e.acquire(e.ask(r.Key), storeapi.StatusFinished, "after the repeats"), storeapi.StateCompleted, raw("the first answer"), "answer")
	})
	e.run("Complete, many at once with different answers", func(e *env) {
		r := e.win(e.ask(e.key()))
		type result struct {
			rec storeapi.Record
			err error
		}
		all := atOnce(crowd, func(i int) result {
			rec, err := e.Store.Complete(e.ctx, ending(r, string(rune('a'+i))))
			return result{rec, err}
		})
		stored := e.lookup(r.Key)
		assert.True(e, stored.State == storeapi.StateCompleted && (e.f.Light || len(stored.Answer.Body) == 1), "one of the answers is stored")
		for _, got := range all {
			assert.NoError(e, got.err, "Complete, a repeat beside others")
			e.same(got.rec, stored, "what Complete returns beside others")
		}
	})
	e.run("Release", func(e *env) {
		r := e.win(e.ask(e.key()))
		e.release(r)
		gone := e.lookup(r.Key)
		e.release(r)
		e.pass(e.short)
		e.release(r)
		e.unchanged(gone, "a repeated Release")
	})
	e.run("Release in doubt", func(e *env) {
		r := e.win(e.ask(e.key()))
		e.doubt(r)
		doubt := e.lookup(r.Key)
		e.pass(e.short)
		e.doubt(r)
		e.unchanged(doubt, "a repeated Release in doubt")
	})
	e.run("after its own Release an owner does not win", func(e *env) {
		for _, policy := range []func(*env, storeapi.StoreKey) storeapi.AcquireRequest{(*env).ask, (*env).rerun} {
			req := policy(e, e.key())
			e.release(e.win(req))
			r := e.lookup(req.Key)
			e.acquire(req, storeapi.StatusOwnerSpent, "after its own Release")
			resolve := req
			resolve.IfFence = r.Fence
			e.acquire(resolve, storeapi.StatusOwnerSpent, "with a fence, after its own Release")
			e.unchanged(r, "Acquire by an owner that has released")
			next := e.win(policy(e, req.Key))
			e.acquire(req, storeapi.StatusInProgress, "of one that has released while the next runs")
			e.lost(next, e.tryRelease(r), "a repeated Release while the next runs")
		}
	})
}
