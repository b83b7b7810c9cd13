package storetest

import (
	"fmt"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
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
		e.run(fmt.Sprintf("not taken over: record %s, request %s", policyName(c.record), policyName(c.request)), func(e *env) {
			first := e.ask(e.key())
			first.OnDoubt = c.record
			r := lapsed.reach(e, first)
			req := e.ask(r.Key)
			req.OnDoubt = c.request
			got := e.acquire(req, storeapi.StatusInDoubt, "after the lease")
			assert.True(e, got.InDoubt(), "the record that is told is in doubt")
			e.same(got, r, "the record that is told")
			e.unchanged(r, "Acquire of a record in doubt")
			assert.NoError(e, e.tryComplete(r, "late"), "Complete by the holder, whom nobody replaced")
		})
	}
	e.run("taken over where both allow it", func(e *env) {
		first := e.rerun(e.key())
		first.Fingerprint, first.Binding = printA, bindA
		r := lapsed.reach(e, first)
		req := e.rerun(r.Key)
		req.Fingerprint, req.Binding = printA, bindA
		next := e.win(req)
		assert.Equal(e, next.Attempt, 2, "attempt of the takeover")
		assert.True(e, next.Fence > r.Fence, "the fence grows: %d after %d", next.Fence, r.Fence)
		assert.True(e, near(next.Created, r.Created), "the record is the same: created %v, then %v", r.Created, next.Created)
		e.same(e.lookup(r.Key), next, "Lookup after the takeover")
		for _, c := range holderCalls {
			e.lost(next, c.make(e, r), c.name+" by the holder who was replaced")
		}
		e.acquire(req, storeapi.StatusAcquired, "a repeat of the takeover")
		e.acquire(first, storeapi.StatusInProgress, "a repeat by the holder who was replaced")
	})
	e.run("a takeover without payload and credential keeps the record's", func(e *env) {
		first := e.rerun(e.key())
		first.Fingerprint, first.Binding = printA, bindA
		r := lapsed.reach(e, first)
		next := e.win(e.rerun(r.Key))
		assert.Equal(e, string(next.Fingerprint), string(printA), "fingerprint after the takeover")
		assert.Equal(e, string(next.Binding), string(bindA), "binding after the takeover")
	})
	e.run("a second takeover", func(e *env) {
		r := lapsed.reach(e, e.rerun(e.key()))
		second := e.rerun(r.Key)
		r2 := lapsed.reach(e, second)
		r3 := e.win(e.rerun(r.Key))
		assert.Equal(e, r3.Attempt, 3, "attempt of the second takeover")
		e.lost(r3, e.tryComplete(r, "of the first"), "Complete by the first holder")
		e.lost(r3, e.tryComplete(r2, "of the second"), "Complete by the second holder")
	})
	e.run("of many at once exactly one takes over", func(e *env) {
		for range 4 {
			r := lapsed.reach(e, e.rerun(e.key()))
			e.oneWins(func() storeapi.AcquireRequest { return e.rerun(r.Key) }, storeapi.StatusInProgress, 2)
		}
	})
	e.run("of many at once under Refuse none does", func(e *env) {
		r := lapsed.reach(e, e.ask(e.key()))
		for _, a := range atOnce(crowd, func(int) tried { return e.try(e.rerun(r.Key)) }) {
			assert.NoError(e, a.err, "Acquire of a record in doubt")
			wantStatus(e, a.Status, storeapi.StatusInDoubt, "of a record in doubt")
		}
		e.unchanged(r, "Acquire of a record in doubt")
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
