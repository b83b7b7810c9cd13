package storetest

import (
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// s01Win: Acquire on an absent key succeeds; of any number at once, exactly one does. The store
// answers only when the claim is as durable as the store claims.
func s01Win(e *env) {
	e.run("an absent key is won", func(e *env) {
		req := e.rerun(e.key())
		req.Fingerprint, req.Binding = []byte("\x01print"), []byte("binding")
		before := e.now()
		r := e.win(req)
		assert.Equal(e, r.Attempt, 1, "attempt of a first win")
		assert.Equal(e, r.OnDoubt, storeapi.Reexecute, "policy of the record")
		assert.Equal(e, string(r.Fingerprint), "\x01print", "fingerprint")
		assert.Equal(e, string(r.Binding), "binding", "binding")
		assert.True(e, !r.Issued, "a key that nobody issued is not marked as issued")
		assert.True(e, !r.Created.Before(before.Add(-precision)) && !r.Created.After(r.Now.Add(precision)), "it was created just now")
		e.same(e.lookup(req.Key), r, "Lookup after the win")
	})
	e.run("a call without a policy wins under Refuse", func(e *env) {
		req := e.ask(e.key())
		req.OnDoubt = 0
		assert.Equal(e, e.win(req).OnDoubt, storeapi.Refuse, "policy of the record")
	})
	e.run("of many at once exactly one wins", func(e *env) {
		for range 8 {
			key := e.key()
			e.oneWins(func() storeapi.AcquireRequest { return e.ask(key) }, storeapi.StatusInProgress, 1)
		}
	})
	e.run("callers of different keys all win", func(e *env) {
		reqs := make([]storeapi.AcquireRequest, crowd)
		for i := range reqs {
			reqs[i] = e.ask(e.key())
		}
		for i, a := range atOnce(crowd, func(i int) tried { return e.try(reqs[i]) }) {
			assert.NoError(e, a.err, "Acquire beside calls for other keys")
			wantStatus(e, a.Status, storeapi.StatusAcquired, "beside calls for other keys")
			assert.Equal(e, a.Record.Key, reqs[i].Key, "key of the record")
			assert.Equal(e, a.Record.Owner, reqs[i].Owner, "owner of the record")
		}
	})
	if e.f.Durable {
		e.run("a win and an answer outlive the handle", func(e *env) {
			r := e.win(e.ask(e.key()))
			d := e.complete(ending(e.win(e.ask(e.key())), "kept"))
			other := e.Reopen()
			for _, want := range []storeapi.Record{r, d} {
				got, err := other.Lookup(e.ctx, want.Key)
				assert.NoError(e, err, "Lookup through another handle")
				e.same(got, want, "the record through another handle")
			}
			a, err := other.Acquire(e.ctx, e.ask(r.Key))
			assert.NoError(e, err, "Acquire through another handle")
			wantStatus(e, a.Status, storeapi.StatusInProgress, "through another handle")
		})
	}
}

// tried is the result of a call whose error is checked later: only the test's own goroutine may end
// the test.
type tried struct {
	storeapi.Acquired
	err error
}

func (e *env) try(req storeapi.AcquireRequest) tried {
	a, err := e.Store.Acquire(e.ctx, req)
	return tried{a, err}
}

// oneWins lets a crowd of callers acquire at once. One succeeds, with this attempt number, and the
// others get the winner's record.
func (e *env) oneWins(ask func() storeapi.AcquireRequest, others storeapi.Status, attempt int) storeapi.Record {
	e.Helper()
	var winner *storeapi.Record
	all := atOnce(crowd, func(int) tried { return e.try(ask()) })
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
				e.same(a.Record, *winner, "the record that those who did not win are told")
			}
		}
	}
	e.unchanged(*winner, "Acquire by those who did not win")
	return *winner
}
