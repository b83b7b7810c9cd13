package storetest

import (
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s16InDoubt: Release with InDoubt puts the record in doubt at once, with its cause. Complete by
// the same owner and fence is still accepted, Extend returns ErrLeaseLost, and Acquire by the same
// owner answers in doubt.
func s16InDoubt(e *env) {
	policies := []struct {
		name string
		ask  func(*env, storeapi.StoreKey) storeapi.AcquireRequest
	}{{"Refuse", (*env).newRequest}, {"Reexecute", (*env).rerunRequest}}
	for _, p := range policies {
		for _, s := range []situation{running, lapsed} {
			e.runSubtest("at once, "+p.name+", "+s.name, func(e *env) {
				req := p.ask(e, e.key())
				req.Fingerprint, req.Binding = printA, bindA
				before := s.reach(e, req)
				e.releaseInDoubt(before)
				r := e.lookup(req.Key)
				assert.True(e, r.InDoubt(), "the record is in doubt: %v with %v left", r.State, r.LeaseLeft)
				assert.Equal(e, r.Cause, "panic", "cause of the doubt")
				assert.Equal(e, r.LastError, "nil pointer in ünder", "last error")
				want := before
				want.LeaseLeft, want.Now, want.Cause, want.LastError, want.Updated = 0, r.Now, r.Cause, r.LastError, r.Updated
				if before.DoubtSince.IsZero() { // otherwise it began before
					want.DoubtSince = r.Updated
				}
				e.wantSame(r, want, "the rest of the record")
				got := e.acquire(e.newRequest(req.Key), storeapi.StatusInDoubt, "of a record put in doubt")
				e.wantSame(got, r, "the record that others are told")
				e.wantUnchanged(r, "Acquire of a record in doubt")
			})
		}
		e.runSubtest("the owner, "+p.name, func(e *env) {
			req := p.ask(e, e.key())
			r := doubted.reach(e, req)
			e.acquire(req, storeapi.StatusInDoubt, "by the owner that put it in doubt")
			e.wantLeaseLost(r, e.tryExtend(r, e.long), "Extend of a record put in doubt")
			e.passTime(e.short)
			done := e.complete(completeRequest(r, "it came after all"))
			e.wantAnswered(done, storeapi.StateCompleted, rawAnswer("it came after all"), "what Complete returns")
			assert.Equal(e, done.Cause, "", "cause after the doubt is over")
			got := e.acquire(p.ask(e, r.Key), storeapi.StatusFinished, "after the doubt is over")
			e.wantAnswered(got, storeapi.StateCompleted, rawAnswer("it came after all"), "the replayed record")
		})
	}
	e.runSubtest("under Reexecute the next one runs at once", func(e *env) {
		r := doubted.reach(e, e.rerunRequest(e.key()))
		next := e.claim(e.rerunRequest(r.Key))
		assert.Equal(e, next.Attempt, 2, "attempt of the takeover")
		assert.Equal(e, next.Cause, "", "cause of a record that runs again")
		for _, c := range holderCalls {
			e.wantLeaseLost(next, c.make(e, r), c.name+" by the one that was in doubt")
		}
	})
	e.runSubtest("of many at once exactly one takes over", func(e *env) {
		r := doubted.reach(e, e.rerunRequest(e.key()))
		e.wantOneWinner(func() storeapi.AcquireRequest { return e.rerunRequest(r.Key) }, storeapi.StatusInProgress, 2)
	})
	e.runSubtest("a released record keeps its cause", func(e *env) {
		r := released.reach(e, e.newRequest(e.key()))
		assert.Equal(e, r.Cause, "error", "cause of the release")
		assert.Equal(e, r.LastError, "dial: refused", "last error")
	})
}
