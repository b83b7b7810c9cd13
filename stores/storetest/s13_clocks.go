package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s13Clocks: callers whose clocks are an hour apart see the same leases. Nodes of one store whose
// clocks differ by more than a tenth of the lease are reported.
func s13Clocks(e *env) {
	e.runSubtest("every reply tells the same clock", func(e *env) {
		last := e.now()
		tells := func(r storeapi.Record, what string) {
			e.Helper()
			assert.True(e, !r.Now.Before(last), "%s: the clock does not go back: %v after %v", what, r.Now, last)
			assert.True(e, !r.Created.After(r.Now) && !r.Updated.After(r.Now) && !r.Updated.Before(r.Created),
				"%s: created %v, then updated %v, then now %v", what, r.Created, r.Updated, r.Now)
			last = r.Now
		}
		r := e.claim(e.newRequest(e.key()))
		tells(r, "a win")
		tells(e.acquire(e.newRequest(r.Key), storeapi.StatusInProgress, "of a running key"), "in progress")
		tells(e.lookup(r.Key), "Lookup")
		e.passTime(e.short)
		last = last.Add(e.short - precision)
		done := e.complete(completeRequest(r, "answer"))
		tells(done, "Complete")
		assert.True(e, done.Updated.Sub(r.Updated) >= e.short-precision, "Complete updates the record: %v, then %v", r.Updated, done.Updated)
		assert.True(e, isNear(done.Created, r.Created), "Complete keeps the time of creation: %v, then %v", r.Created, done.Created)
		tells(e.acquire(e.newRequest(r.Key), storeapi.StatusFinished, "of a finished key"), "a replay")
	})
	e.runSubtest("time passes for a record as the clock tells", func(e *env) {
		r := e.claim(e.newRequest(e.key()))
		e.passTime(2 * e.short)
		got := e.lookup(r.Key)
		passed := got.Now.Sub(r.Now)
		assert.True(e, passed >= 2*e.short-precision, "the clock moved by %v, want at least %v", passed, 2*e.short)
		assert.True(e, isNear(leaseEnd(got), leaseEnd(r)), "the lease ends at %v, want %v as before", leaseEnd(got), leaseEnd(r))
	})
	if e.Caller != nil {
		for _, skew := range []time.Duration{time.Hour, -time.Hour} {
			e.runSubtest("a caller whose clock is off by "+skew.String(), func(e *env) {
				off := e.Caller(skew)
				req := e.rerunRequest(e.key())
				a, err := off.Acquire(e.ctx, req)
				assert.NoError(e, err, "Acquire by a caller whose clock is off")
				wantStatus(e, a.Status, storeapi.StatusAcquired, "by a caller whose clock is off")
				e.wantSame(e.lookup(req.Key), a.Record, "the record as another caller sees it")
				e.acquire(e.rerunRequest(req.Key), storeapi.StatusInProgress, "by another caller")
				theirs := e.claim(e.rerunRequest(e.key()))
				got, err := off.Acquire(e.ctx, e.rerunRequest(theirs.Key))
				assert.NoError(e, err, "Acquire by a caller whose clock is off")
				wantStatus(e, got.Status, storeapi.StatusInProgress, "by a caller whose clock is off")
				e.wantSame(got.Record, theirs, "the record as a caller whose clock is off sees it")
				assert.True(e, got.Record.Now.Sub(theirs.Now).Abs() < time.Minute, "Now is the store's clock: %v, and %v", got.Record.Now, theirs.Now)
			})
		}
	}
	if e.Node != nil {
		e.runSubtest("a node whose clock is off is reported", func(e *env) {
			assert.True(e, e.reportsSkew(e.long/5, e.f.Grace), "a node whose clock is off by a fifth of the lease is reported")
			assert.True(e, !e.reportsSkew(0, 50*time.Millisecond), "a node whose clock is right is not reported")
		})
	}
}

// reportsSkew makes a call on a node whose clock is off by skew, and reports whether the store
// reported that within the time.
func (e *env) reportsSkew(skew, within time.Duration) bool {
	e.Helper()
	node, reported := e.Node(skew)
	req := e.newRequest(e.key())
	e.claim(req)
	_, err := node.Acquire(e.ctx, e.newRequest(req.Key))
	assert.NoError(e, err, "Acquire through a second node")
	for start := time.Now(); time.Since(start) < within; e.waitRealTime(5 * time.Millisecond) {
		if reported() {
			return true
		}
	}
	return reported()
}
