package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s17Resolve: Acquire with IfFence is a compare-and-set on the fence that the operator saw. It is
// refused while the lease is live unless forced. It acquires the record with a new fence; Complete
// or Release follows. A late Complete of the old holder returns ErrLeaseLost.
func s17Resolve(e *env) {
	for _, s := range []situation{lapsed, doubted, failed, released} {
		e.runSubtest("wins, "+s.name, func(e *env) {
			first := e.newRequest(e.key())
			first.Fingerprint, first.Binding = printA, bindA
			r := s.reach(e, first)
			req := e.resolveRequest(r)
			req.Fingerprint, req.Binding, req.OnDoubt = printB, bindB, storeapi.Reexecute
			next := e.claim(req)
			assert.Equal(e, next.Attempt, r.Attempt+1, "attempt of a resolve")
			assert.True(e, next.Fence > r.Fence, "a resolve wins a new fence: %d after %d", next.Fence, r.Fence)
			assert.Equal(e, next.OnDoubt, r.OnDoubt, "a resolve keeps the policy of the record")
			assert.Equal(e, string(next.Fingerprint), string(r.Fingerprint), "a resolve keeps the fingerprint of the record")
			assert.Equal(e, string(next.Binding), string(r.Binding), "a resolve keeps the binding of the record")
			e.wantSame(e.lookup(r.Key), next, "Lookup after a resolve")
			for _, c := range holderCalls {
				e.wantLeaseLost(next, c.make(e, r), c.name+" by the holder before the resolve")
			}
			e.complete(completeRequest(next, "settled"))
			got := e.acquire(e.newRequest(r.Key), storeapi.StatusFinished, "after the resolve")
			e.wantAnswered(got, storeapi.StateCompleted, rawAnswer("settled"), "the settled record")
		})
	}
	e.runSubtest("then Release", func(e *env) {
		r := doubted.reach(e, e.newRequest(e.key()))
		next := e.claim(e.resolveRequest(r))
		e.release(next)
		third := e.claim(e.newRequest(r.Key))
		assert.Equal(e, third.Attempt, 3, "attempt after the operator allowed another run")
		e.wantLeaseLost(third, e.tryComplete(r, "late"), "a late Complete of the first holder")
		e.wantLeaseLost(third, e.tryComplete(next, "late"), "a late Complete of the operator")
	})
	e.runSubtest("a late Complete after the operator's", func(e *env) {
		r := lapsed.reach(e, e.newRequest(e.key()))
		done := e.complete(completeRequest(e.claim(e.resolveRequest(r)), "settled"))
		e.wantLeaseLost(done, e.tryComplete(r, "what the paused holder has"), "a late Complete of the old holder")
	})
	e.runSubtest("completed stays completed", func(e *env) {
		r := completed.reach(e, e.newRequest(e.key()))
		for _, force := range []bool{false, true} {
			req := e.resolveRequest(r)
			req.Force = force
			got := e.acquire(req, storeapi.StatusFinished, "with the fence of a completed record")
			e.wantSame(got, r, "the record that is told")
			e.wantUnchanged(r, "a resolve of a completed record")
		}
	})
	e.runSubtest("under a live lease", func(e *env) {
		r := running.reach(e, e.rerunRequest(e.key()))
		req := e.resolveRequest(r)
		e.acquire(req, storeapi.StatusInProgress, "a resolve under a live lease")
		e.wantUnchanged(r, "a resolve under a live lease")
		req.Force = true
		next := e.claim(req)
		assert.Equal(e, next.OnDoubt, storeapi.Reexecute, "a resolve keeps the policy of the record")
		for _, c := range holderCalls {
			e.wantLeaseLost(next, c.make(e, r), c.name+" by the holder who was replaced by force")
		}
	})
	for _, s := range situations {
		e.runSubtest("another fence, "+s.name, func(e *env) {
			r := s.reach(e, e.rerunRequest(e.key()))
			for _, fence := range []storeapi.Fence{r.Fence - 1, r.Fence + 1, storeapi.Fence(r.Attempt)} {
				for _, force := range []bool{false, true} {
					req := e.rerunRequest(r.Key)
					req.IfFence, req.Force = fence, force
					e.acquire(req, storeapi.StatusFenceChanged, "with another fence than the record's")
					e.wantUnchanged(r, "a resolve with another fence")
				}
			}
		})
	}
	e.runSubtest("an absent record", func(e *env) {
		req := e.newRequest(e.key())
		req.IfFence = 1
		e.acquire(req, storeapi.StatusFenceChanged, "with a fence on an absent key")
		e.wantAbsent(req.Key, "a resolve of an absent key")
	})
	e.runSubtest("an expired record", func(e *env) {
		first := e.newRequest(e.key())
		end := completeRequest(e.claim(first), "gone")
		end.Retention = e.short
		r := e.complete(end)
		e.passUntil(r.Expires.Add(precision))
		e.acquire(e.resolveRequest(r), storeapi.StatusFenceChanged, "with the fence of an expired record")
		e.wantAbsent(r.Key, "a resolve of an expired record")
	})
	e.runSubtest("its life goes on", func(e *env) {
		for _, keep := range []time.Duration{0, time.Hour, storeapi.Forever} {
			end := completeRequest(e.claim(e.newRequest(e.key())), "declined")
			end.State, end.Retention = storeapi.StateFailed, keep
			r := e.complete(end)
			settled := e.complete(completeRequest(e.claim(e.resolveRequest(r)), "settled"))
			assert.Equal(e, settled.Expires.IsZero(), r.Expires.IsZero(), "it never expires, before and after (retention %v)", keep)
			assert.True(e, !settled.Expires.Before(r.Expires.Add(-precision)), "it expires at %v, and did at %v (retention %v)", settled.Expires, r.Expires, keep)
			now := e.lookup(r.Key)
			assert.Equal(e, now.State, storeapi.StateCompleted, "a settled record stays")
			assert.Equal(e, now.Expires.IsZero(), r.Expires.IsZero(), "Lookup: it never expires (retention %v)", keep)
			e.acquire(e.newRequest(r.Key), storeapi.StatusFinished, "after a failed record was settled")
		}
	})
	e.runSubtest("a repeat", func(e *env) {
		for _, s := range []situation{doubted, failed} {
			req := e.resolveRequest(s.reach(e, e.newRequest(e.key())))
			next := e.claim(req)
			for range 2 {
				again := e.acquire(req, storeapi.StatusAcquired, "a repeat of the resolve that won")
				assert.Equal(e, again.Fence, next.Fence, "fence of a repeat")
				assert.Equal(e, again.Attempt, next.Attempt, "attempt of a repeat")
			}
		}
	})
	e.runSubtest("of many operators at once exactly one wins", func(e *env) {
		for range 4 {
			r := doubted.reach(e, e.newRequest(e.key()))
			e.wantOneWinner(func() storeapi.AcquireRequest { return e.resolveRequest(r) }, storeapi.StatusFenceChanged, 2)
		}
	})
	e.runSubtest("while it is resolved others wait", func(e *env) {
		r := failed.reach(e, e.newRequest(e.key()))
		next := e.claim(e.resolveRequest(r))
		got := e.acquire(e.newRequest(r.Key), storeapi.StatusInProgress, "while it is resolved")
		e.wantSame(got, next, "the record that others are told")
		assert.True(e, got.Answer.Body == nil && !got.Answer.Kept, "the answer of the failed attempt is not told any more")
	})
}
