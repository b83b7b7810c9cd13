package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s06Ownership: Extend, Complete and Release with another owner or fence than the record's return
// ErrLeaseLost and change nothing. With the record's own they are accepted also after the lease.
// Release of a finished record returns ErrLeaseLost and changes nothing.
func s06Ownership(e *env) {
	for _, s := range situations {
		e.runSubtest("not the holder, "+s.name, func(e *env) {
			r := s.reach(e, e.rerunRequest(e.key()))
			for name, spoil := range strangers {
				who := r
				spoil(&who)
				for _, c := range holderCalls {
					e.wantLeaseLost(r, c.make(e, who), c.name+" with "+name)
				}
			}
		})
		e.runSubtest("the holder, "+s.name, func(e *env) {
			for i, c := range holderCalls {
				r := s.reach(e, e.rerunRequest(e.key()))
				what := c.name + " by the holder"
				if accepted[s.name][i] {
					assert.NoError(e, c.make(e, r), "%s", what)
				} else {
					e.wantLeaseLost(r, c.make(e, r), what)
				}
			}
		})
	}
	e.runSubtest("nobody holds an absent key", func(e *env) {
		r := storeapi.Record{Key: e.key(), Owner: newOwner(), Fence: 1}
		for _, c := range holderCalls {
			assert.ErrorIs(e, c.make(e, r), storeapi.ErrLeaseLost, "%s of an absent key", c.name)
			e.wantAbsent(r.Key, "after "+c.name)
		}
	})
	e.runSubtest("nobody holds an expired record", func(e *env) {
		req := e.newRequest(e.key())
		expireRecord(e, req)
		next := e.claim(e.newRequest(req.Key))
		old := next
		old.Owner = req.Owner
		for _, c := range holderCalls {
			e.wantLeaseLost(next, c.make(e, old), c.name+" by the owner of the record that has expired")
		}
	})
	e.runSubtest("the same owner's record before the last is not its own", func(e *env) {
		req := e.rerunRequest(e.key())
		req.Lease, req.Retention = e.short, e.short
		old := e.claim(req)
		e.passUntil(leaseEnd(old).Add(e.short + precision))
		for _, c := range holderCalls {
			assert.ErrorIs(e, c.make(e, old), storeapi.ErrLeaseLost, "%s after the record has expired", c.name)
		}
		// A delayed copy of the owner's Acquire makes a new record with the same owner and attempt
		// number as the old one.
		again := req
		again.Lease, again.Retention = e.long, retention
		next := e.claim(again)
		assert.Equal(e, next.Attempt, old.Attempt, "attempt of the new record")
		for _, c := range holderCalls {
			e.wantLeaseLost(next, c.make(e, old), c.name+" with the fence of the record that has expired")
		}
	})
	e.runSubtest("after the lease the holder goes on", func(e *env) {
		r := lapsed.reach(e, e.newRequest(e.key()))
		assert.NoError(e, e.tryExtend(r, e.long), "Extend after the lease")
		got := e.acquire(e.newRequest(r.Key), storeapi.StatusInProgress, "after a late Extend")
		assert.Equal(e, got.Fence, r.Fence, "fence after a late Extend")
		assert.True(e, got.LeaseLeft > e.long-time.Minute, "the lease is a new one: %v left", got.LeaseLeft)
		e.complete(completeRequest(r, "late, but known"))
	})
	e.runSubtest("a release after Complete does not wipe the answer", func(e *env) {
		r := e.claim(e.newRequest(e.key()))
		done := e.complete(completeRequest(r, "seen by a client"))
		e.wantLeaseLost(done, e.tryRelease(r), "Release after Complete")
		e.wantLeaseLost(done, e.tryReleaseInDoubt(r), "Release in doubt after Complete")
		e.wantAnswered(e.acquire(e.newRequest(r.Key), storeapi.StatusFinished, "after both"), storeapi.StateCompleted, rawAnswer("seen by a client"), "answer")
	})
}

// strangers turn a holder into a caller that is not the holder, each in one way.
var strangers = map[string]func(*storeapi.Record){
	"another owner":             func(r *storeapi.Record) { r.Owner = newOwner() },
	"no owner":                  func(r *storeapi.Record) { r.Owner = storeapi.Owner{} },
	"the fence before":          func(r *storeapi.Record) { r.Fence-- },
	"the fence after":           func(r *storeapi.Record) { r.Fence++ },
	"the attempt for the fence": func(r *storeapi.Record) { r.Fence = storeapi.Fence(r.Attempt) },
	"no fence":                  func(r *storeapi.Record) { r.Fence = 0 },
}

// accepted says which of holderCalls (Extend, Complete, Release, Release in doubt) a holder may
// make, by the name of the situation. It includes a repeated Complete and a repeated Release. A
// holder that was in doubt may find out that nothing happened.
var accepted = map[string][4]bool{
	running.name:   {true, true, true, true},
	lapsed.name:    {true, true, true, true},
	doubted.name:   {false, true, true, true},
	completed.name: {false, true, false, false},
	failed.name:    {false, true, false, false},
	released.name:  {false, false, true, false},
}
