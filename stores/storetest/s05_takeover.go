package storetest

import (
	"fmt"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s05Takeover: after the lease, attempt n+1 begins if the record's policy and the request allow it.
// Otherwise the answer is in doubt, with the record. Of any number at once, exactly one succeeds.
func s05Takeover(e *env) {
	for _, c := range []struct{ record, request storeapi.OnDoubt }{
		{storeapi.Refuse, storeapi.Refuse},
		{storeapi.Refuse, storeapi.Reexecute}, // another route, or a new configuration
		{storeapi.Reexecute, storeapi.Refuse},
		{storeapi.Reexecute, 0},
	} {
		e.runSubtest(fmt.Sprintf("not taken over: record %s, request %s", policyName(c.record), policyName(c.request)), func(e *env) {
			first := e.newRequest(e.key())
			first.OnDoubt = c.record
			r := lapsed.reach(e, first)
			req := e.newRequest(r.Key)
			req.OnDoubt = c.request
			got := e.acquire(req, storeapi.StatusInDoubt, "after the lease")
			assert.True(e, got.InDoubt(), "the record that is told is in doubt")
			e.wantSame(got, r, "the record that is told")
			e.wantUnchanged(r, "Acquire of a record in doubt")
			assert.NoError(e, e.tryComplete(r, "late"), "Complete by the holder, whom nobody replaced")
		})
	}
	e.runSubtest("taken over where both allow it", func(e *env) {
		first := e.rerunRequest(e.key())
		first.Fingerprint, first.Binding = printA, bindA
		r := lapsed.reach(e, first)
		req := e.rerunRequest(r.Key)
		req.Fingerprint, req.Binding = printA, bindA
		next := e.claim(req)
		assert.Equal(e, next.Attempt, 2, "attempt of the takeover")
		assert.True(e, next.Fence > r.Fence, "the fence grows: %d after %d", next.Fence, r.Fence)
		assert.True(e, isNear(next.Created, r.Created), "the record is the same: created %v, then %v", r.Created, next.Created)
		e.wantSame(e.lookup(r.Key), next, "Lookup after the takeover")
		for _, c := range holderCalls {
			e.wantLeaseLost(next, c.make(e, r), c.name+" by the holder who was replaced")
		}
		e.acquire(req, storeapi.StatusAcquired, "a repeat of the takeover")
		e.acquire(first, storeapi.StatusInProgress, "a repeat by the holder who was replaced")
	})
	e.runSubtest("a takeover without payload and credential keeps the record's", func(e *env) {
		first := e.rerunRequest(e.key())
		first.Fingerprint, first.Binding = printA, bindA
		r := lapsed.reach(e, first)
		next := e.claim(e.rerunRequest(r.Key))
		assert.Equal(e, string(next.Fingerprint), string(printA), "fingerprint after the takeover")
		assert.Equal(e, string(next.Binding), string(bindA), "binding after the takeover")
	})
	e.runSubtest("a second takeover", func(e *env) {
		r := lapsed.reach(e, e.rerunRequest(e.key()))
		second := e.rerunRequest(r.Key)
		r2 := lapsed.reach(e, second)
		r3 := e.claim(e.rerunRequest(r.Key))
		assert.Equal(e, r3.Attempt, 3, "attempt of the second takeover")
		e.wantLeaseLost(r3, e.tryComplete(r, "of the first"), "Complete by the first holder")
		e.wantLeaseLost(r3, e.tryComplete(r2, "of the second"), "Complete by the second holder")
	})
	e.runSubtest("of many at once exactly one takes over", func(e *env) {
		for range 4 {
			r := lapsed.reach(e, e.rerunRequest(e.key()))
			e.wantOneWinner(func() storeapi.AcquireRequest { return e.rerunRequest(r.Key) }, storeapi.StatusInProgress, 2)
		}
	})
	e.runSubtest("of many at once under Refuse none does", func(e *env) {
		r := lapsed.reach(e, e.newRequest(e.key()))
		for _, a := range callAtOnce(crowd, func(int) acquireResult { return e.tryAcquire(e.rerunRequest(r.Key)) }) {
			assert.NoError(e, a.err, "Acquire of a record in doubt")
			wantStatus(e, a.Status, storeapi.StatusInDoubt, "of a record in doubt")
		}
		e.wantUnchanged(r, "Acquire of a record in doubt")
	})
}

func policyName(o storeapi.OnDoubt) string {
	switch o {
	case storeapi.Refuse:
		return "Refuse"
	case storeapi.Reexecute:
		return "Reexecute"
	}
	return "none"
}
