package storetest

import (
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s01Win: Acquire on an absent key succeeds; of any number at once, exactly one does. The store
// answers only when the claim is as durable as the store claims.
func s01Win(e *env) {
	e.runSubtest("an absent key is won", func(e *env) {
		req := e.rerunRequest(e.key())
		req.Fingerprint, req.Binding = []byte("\x01print"), []byte("binding")
		before := e.now()
		r := e.claim(req)
		assert.Equal(e, r.Attempt, 1, "attempt of a first win")
		assert.Equal(e, r.OnDoubt, storeapi.Reexecute, "policy of the record")
		assert.Equal(e, string(r.Fingerprint), "\x01print", "fingerprint")
		assert.Equal(e, string(r.Binding), "binding", "binding")
		assert.True(e, !r.Issued, "a key that nobody issued is not marked as issued")
		assert.True(e, !r.Created.Before(before.Add(-precision)) && !r.Created.After(r.Now.Add(precision)), "it was created just now")
		e.wantSame(e.lookup(req.Key), r, "Lookup after the win")
	})
	e.runSubtest("a call without a policy wins under Refuse", func(e *env) {
		req := e.newRequest(e.key())
		req.OnDoubt = 0
		assert.Equal(e, e.claim(req).OnDoubt, storeapi.Refuse, "policy of the record")
	})
	e.runSubtest("of many at once exactly one wins", func(e *env) {
		for range 8 {
			key := e.key()
			e.wantOneWinner(func() storeapi.AcquireRequest { return e.newRequest(key) }, storeapi.StatusInProgress, 1)
		}
	})
	e.runSubtest("callers of different keys all win", func(e *env) {
		reqs := make([]storeapi.AcquireRequest, crowd)
		for i := range reqs {
			reqs[i] = e.newRequest(e.key())
		}
		for i, a := range callAtOnce(crowd, func(i int) acquireResult { return e.tryAcquire(reqs[i]) }) {
			assert.NoError(e, a.err, "Acquire beside calls for other keys")
			wantStatus(e, a.Status, storeapi.StatusAcquired, "beside calls for other keys")
			assert.Equal(e, a.Record.Key, reqs[i].Key, "key of the record")
			assert.Equal(e, a.Record.Owner, reqs[i].Owner, "owner of the record")
		}
	})
	if e.f.Durable {
		e.runSubtest("a win and an answer outlive the handle", func(e *env) {
			r := e.claim(e.newRequest(e.key()))
			d := e.complete(completeRequest(e.claim(e.newRequest(e.key())), "kept"))
			other := e.Reopen()
			for _, want := range []storeapi.Record{r, d} {
				got, err := other.Lookup(e.ctx, want.Key)
				assert.NoError(e, err, "Lookup through another handle")
				e.wantSame(got, want, "the record through another handle")
			}
			a, err := other.Acquire(e.ctx, e.newRequest(r.Key))
			assert.NoError(e, err, "Acquire through another handle")
			wantStatus(e, a.Status, storeapi.StatusInProgress, "through another handle")
		})
	}
}

// acquireResult is the result of a call whose error is checked later: only the test's own goroutine
// may end the test.
type acquireResult struct {
	storeapi.Acquired
	err error
}

func (e *env) tryAcquire(req storeapi.AcquireRequest) acquireResult {
	a, err := e.Store.Acquire(e.ctx, req)
	return acquireResult{a, err}
}

// wantOneWinner lets a crowd of callers acquire at once. One succeeds, with this attempt number,
// and the others get the winner's record.
func (e *env) wantOneWinner(ask func() storeapi.AcquireRequest, others storeapi.Status, attempt int) storeapi.Record {
	e.Helper()
	var winner *storeapi.Record
	all := callAtOnce(crowd, func(int) acquireResult { return e.tryAcquire(ask()) })
	for i := range all {
		assert.NoError(e, all[i].err, "Acquire of %d at once", crowd)
		if all[i].Status == storeapi.StatusAcquired {
			assert.True(e, winner == nil, "of %d callers at once only one wins", crowd)
			winner = &all[i].Record
		}
	}
	assert.True(e, winner != nil, "of %d callers at once one wins", crowd)
	assert.Equal(e, winner.Attempt, attempt, "attempt of the winner")
	for _, a := range all {
		if a.Status != storeapi.StatusAcquired {
			wantStatus(e, a.Status, others, "one of those who did not win")
			if others == storeapi.StatusInProgress {
				e.wantSame(a.Record, *winner, "the record that those who did not win are told")
			}
		}
	}
	e.wantUnchanged(*winner, "Acquire by those who did not win")
	return *winner
}
