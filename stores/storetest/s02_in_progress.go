package storetest

import (
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s02InProgress: under a live lease the answer is in progress, with the time left.
func s02InProgress(e *env) {
	for _, policy := range []struct {
		name string
		ask  func(*env, storeapi.StoreKey) storeapi.AcquireRequest
	}{{"Refuse", (*env).newRequest}, {"Reexecute", (*env).rerunRequest}} {
		e.runSubtest("the lease left is told, "+policy.name, func(e *env) {
			req := policy.ask(e, e.key())
			r := e.claim(req)
			for range 3 {
				e.passTime(e.short)
				got := e.acquire(policy.ask(e, req.Key), storeapi.StatusInProgress, "under a live lease")
				e.wantSame(got, r, "the record that a second caller is told")
				assert.True(e, got.LeaseLeft > 0 && got.LeaseLeft < req.Lease, "part of the lease is left: %v of %v", got.LeaseLeft, req.Lease)
				assert.True(e, !got.InDoubt(), "a record with a live lease is not in doubt")
				e.wantUnchanged(r, "Acquire under a live lease")
			}
		})
	}
	e.runSubtest("an extended lease is told", func(e *env) {
		req := e.newRequest(e.key())
		req.Lease = e.long / 2
		r := e.claim(req)
		assert.NoError(e, e.tryExtend(r, e.long), "Extend by the holder")
		got := e.acquire(e.newRequest(req.Key), storeapi.StatusInProgress, "after Extend")
		assert.True(e, got.LeaseLeft > e.long/2 && got.LeaseLeft <= e.long+precision, "the lease counts from Extend: %v left", got.LeaseLeft)
		assert.Equal(e, got.Attempt, r.Attempt, "attempt after Extend")
		assert.Equal(e, got.Fence, r.Fence, "fence after Extend")
	})
	e.runSubtest("a lease counts from Extend, also a shorter one", func(e *env) {
		r := e.claim(e.newRequest(e.key()))
		assert.NoError(e, e.tryExtend(r, e.long/4), "Extend by the holder")
		got := e.lookup(r.Key)
		assert.True(e, got.LeaseLeft > 0 && got.LeaseLeft <= e.long/4+precision, "the lease counts from Extend: %v left", got.LeaseLeft)
	})
	e.runSubtest("until the lease ends", func(e *env) {
		req := e.newRequest(e.key())
		req.Lease = 2 * e.short
		r := e.claim(req)
		e.passUntil(leaseEnd(r).Add(-e.brink))
		got := e.tryAcquire(e.newRequest(req.Key))
		assert.NoError(e, got.err, "Acquire at the end of the lease")
		want := storeapi.StatusInProgress
		if !got.Record.Now.Before(leaseEnd(r)) {
			want = storeapi.StatusInDoubt
		}
		wantStatus(e, got.Status, want, "at the end of the lease")
		e.passUntil(leaseEnd(r))
		e.acquire(e.newRequest(req.Key), storeapi.StatusInDoubt, "after the lease")
	})
	e.runSubtest("when the lease has passed it is in doubt", func(e *env) {
		r := lapsed.reach(e, e.newRequest(e.key()))
		assert.Equal(e, r.State, storeapi.StateInProgress, "state after the lease")
		assert.Equal(e, r.LeaseLeft, 0, "lease left after the lease")
		assert.True(e, r.InDoubt(), "after its lease a record in progress is in doubt")
	})
}
