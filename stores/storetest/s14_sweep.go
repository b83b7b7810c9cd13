package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s14Sweep: Sweep removes only expired records, in bounded batches, during live traffic. It never
// removes records in progress or in doubt under Refuse.
func s14Sweep(e *env) {
	e.runSubtest("what has expired, in batches", func(e *env) {
		e.sweepAll(100)
		var gone []storeapi.Record
		for range 3 {
			gone = append(gone, e.shortLived()...)
		}
		kept := e.recordsToKeep()
		e.passUntil(e.now().Add(4 * e.short))
		assert.Equal(e, e.sweepAll(4), len(gone), "records that batches of at most 4 removed")
		for _, r := range gone {
			e.wantAbsent(r.Key, "after the sweep")
		}
		for _, r := range kept {
			e.wantUnchanged(r, "a sweep")
		}
		assert.Equal(e, e.sweepAll(4), 0, "records that a second sweep removed")
	})
	e.runSubtest("nothing that is in progress or in doubt under Refuse", func(e *env) {
		var kept []storeapi.Record
		for _, s := range []situation{running, lapsed, doubted} {
			req := e.newRequest(e.key())
			req.Retention = e.short
			kept = append(kept, s.reach(e, req))
		}
		req := e.rerunRequest(e.key())
		req.Retention = e.short
		kept = append(kept, running.reach(e, req))
		e.passUntil(e.now().Add(5 * e.short))
		assert.Equal(e, e.sweepAll(10), 0, "records that a sweep removed long after their retention")
		for _, r := range kept {
			e.wantUnchanged(r, "a sweep")
		}
	})
	e.runSubtest("a swept key is new", func(e *env) {
		req := e.newRequest(e.key())
		expireRecord(e, req)
		e.sweepAll(10)
		other := e.newRequest(req.Key)
		other.Fingerprint = printB
		assert.Equal(e, e.claim(other).Attempt, 1, "attempt after the sweep")
	})
	e.runSubtest("beside live traffic", func(e *env) {
		for range 4 {
			e.shortLived()
		}
		e.passUntil(e.now().Add(4 * e.short))
		reqs := make([]storeapi.AcquireRequest, 2*crowd)
		for i := range reqs {
			reqs[i] = e.newRequest(e.key())
		}
		var traffic sync.WaitGroup
		errs := make([]error, len(reqs))
		for i, req := range reqs {
			traffic.Go(func() { errs[i] = e.runAttempt(req) })
		}
		e.sweepAll(3)
		traffic.Wait()
		for _, err := range errs {
			assert.NoError(e, err, "a call beside a sweep")
		}
		for _, req := range reqs {
			e.acquire(e.newRequest(req.Key), storeapi.StatusFinished, "of what was completed beside a sweep")
		}
	})
}

// shortLived returns records of every kind that expires soon, and stays until it is swept.
func (e *env) shortLived() (all []storeapi.Record) {
	e.Helper()
	brief := func(policy func(*env, storeapi.StoreKey) storeapi.AcquireRequest) storeapi.AcquireRequest {
		req := policy(e, e.key())
		req.Retention = 2 * e.short
		return req
	}
	for _, s := range []situation{completed, failed, released} {
		all = append(all, s.reach(e, brief((*env).newRequest)))
	}
	all = append(all, doubted.reach(e, brief((*env).rerunRequest)))
	req := brief((*env).rerunRequest)
	req.Lease = e.short
	all = append(all, e.claim(req)) // its lease expires, and then its retention
	if e.f.Issuer {
		key := e.key()
		e.issue(key, newOwner(), e.short)
		all = append(all, storeapi.Record{Key: key})
	}
	return all
}

// recordsToKeep returns records of every kind that a sweep must not remove.
func (e *env) recordsToKeep() (all []storeapi.Record) {
	e.Helper()
	for _, s := range situations {
		all = append(all, s.reach(e, e.newRequest(e.key())), s.reach(e, e.rerunRequest(e.key())))
	}
	end := completeRequest(e.claim(e.newRequest(e.key())), "for ever")
	end.Retention = storeapi.Forever
	all = append(all, e.complete(end))
	if e.f.Issuer {
		key := e.key()
		e.issue(key, newOwner(), retention)
		all = append(all, e.lookup(key))
	}
	return all
}

func (e *env) runAttempt(req storeapi.AcquireRequest) error {
	a, err := e.Store.Acquire(e.ctx, req)
	if err != nil {
		return err
	}
	if a.Status != storeapi.StatusAcquired {
		return fmt.Errorf("acquire: got %s, want StatusAcquired", statusName(a.Status))
	}
	if err := e.tryExtend(a.Record, time.Hour); err != nil {
		return err
	}
	return e.tryComplete(a.Record, "done")
}
