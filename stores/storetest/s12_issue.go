package storetest

import (
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s12Issue: Issue repeated by the same owner succeeds, by another one it is refused. Acquiring an
// issued record clears its first-use limit.
func s12Issue(e *env) {
	e.runSubtest("an issued key is won once", func(e *env) {
		key := e.key()
		e.issue(key, newOwner(), retention)
		r := e.lookup(key)
		assert.Equal(e, r.State, storeapi.StateIssued, "state of an issued key")
		assert.True(e, r.Issued, "an issued key is marked as issued")
		assert.Equal(e, r.Attempt, 0, "attempt of an issued key")
		e.wantExpiryAt(r, r.Created.Add(retention))
		won := e.claim(e.issuedRequest(key))
		assert.Equal(e, won.Attempt, 1, "attempt of the first use")
		assert.True(e, won.Issued, "a used key stays marked as issued")
		e.acquire(e.issuedRequest(key), storeapi.StatusInProgress, "of an issued key in use")
		e.complete(completeRequest(won, "used"))
		e.acquire(e.issuedRequest(key), storeapi.StatusFinished, "of an issued key that was used")
	})
	e.runSubtest("a key that was not issued is refused", func(e *env) {
		req := e.issuedRequest(e.key())
		e.acquire(req, storeapi.StatusNotIssued, "of a key that was not issued")
		e.wantAbsent(req.Key, "after StatusNotIssued")
	})
	e.runSubtest("a repeat by the same owner", func(e *env) {
		key, owner := e.key(), newOwner()
		e.issue(key, owner, retention)
		r := e.lookup(key)
		for range 3 {
			e.passTime(e.short)
			e.issue(key, owner, retention)
		}
		e.wantUnchanged(r, "a repeated Issue")
	})
	e.runSubtest("by another owner", func(e *env) {
		key := e.key()
		e.issue(key, newOwner(), retention)
		r := e.lookup(key)
		e.wantIssue(key, newOwner(), storeapi.StatusAlreadyIssued, "by another owner")
		e.wantUnchanged(r, "Issue by another owner")
	})
	for _, s := range situations {
		e.runSubtest("of a key in use, "+s.name, func(e *env) {
			r := s.reach(e, e.newRequest(e.key()))
			e.wantIssue(r.Key, newOwner(), storeapi.StatusAlreadyIssued, "of a key in use")
			e.wantUnchanged(r, "Issue of a key in use")
		})
	}
	e.runSubtest("of many at once exactly one issues", func(e *env) {
		type result struct {
			status storeapi.Status
			err    error
		}
		key, issued := e.key(), 0
		for _, got := range callAtOnce(crowd, func(int) result {
			status, err := e.tryIssue(key, newOwner(), retention)
			return result{status, err}
		}) {
			assert.NoError(e, got.err, "Issue of %d at once", crowd)
			if got.status == storeapi.StatusAcquired {
				issued++
			} else {
				assert.Equal(e, statusName(got.status), "StatusAlreadyIssued", "status of Issue of %d at once", crowd)
			}
		}
		assert.Equal(e, issued, 1, "owners that issued the key")
	})
	e.runSubtest("of many at once exactly one uses it", func(e *env) {
		key := e.key()
		e.issue(key, newOwner(), retention)
		r := e.wantOneWinner(func() storeapi.AcquireRequest { return e.issuedRequest(key) }, storeapi.StatusInProgress, 1)
		assert.True(e, r.Issued, "a used key stays marked as issued")
	})
	e.runSubtest("expired before its use", func(e *env) {
		key := e.key()
		e.issue(key, newOwner(), e.short)
		e.passUntil(e.lookup(key).Created.Add(e.short + precision))
		e.wantAbsent(key, "after the time of first use")
		e.acquire(e.issuedRequest(key), storeapi.StatusNotIssued, "after the time of first use")
		e.issue(key, newOwner(), retention)
		e.claim(e.issuedRequest(key))
	})
	e.runSubtest("a win clears the expiry of the issue", func(e *env) {
		key := e.key()
		e.issue(key, newOwner(), 4*e.short)
		end := e.lookup(key).Expires
		got := e.tryAcquire(e.issuedRequest(key))
		assert.NoError(e, got.err, "Acquire of an issued key")
		if got.Status == storeapi.StatusNotIssued && !got.Record.Now.Before(end) {
			return // a slow machine: the limit of the first use had passed
		}
		wantStatus(e, got.Status, storeapi.StatusAcquired, "of an issued key")
		e.passUntil(end.Add(e.short))
		e.wantUnchanged(got.Record, "the passing of the time of first use")
		e.complete(completeRequest(got.Record, "begun in time"))
		e.acquire(e.issuedRequest(key), storeapi.StatusFinished, "past the time of first use")
	})
	e.runSubtest("a released key can be used again", func(e *env) {
		key := e.key()
		e.issue(key, newOwner(), retention)
		e.release(e.claim(e.issuedRequest(key)))
		assert.Equal(e, e.claim(e.issuedRequest(key)).Attempt, 2, "attempt of the second use")
	})
	e.runSubtest("an issued key is not protected from a call that asks for none", func(e *env) {
		key := e.key()
		e.issue(key, newOwner(), retention)
		assert.True(e, e.claim(e.newRequest(key)).Issued, "a used key stays marked as issued")
	})
}

// issuedRequest returns a request that requires an issued key.
func (e *env) issuedRequest(key storeapi.StoreKey) storeapi.AcquireRequest {
	req := e.newRequest(key)
	req.MustBeIssued = true
	return req
}

func (e *env) issue(key storeapi.StoreKey, owner storeapi.Owner, d time.Duration) {
	e.Helper()
	status, err := e.tryIssue(key, owner, d)
	assert.NoError(e, err, "Issue")
	assert.Equal(e, statusName(status), "StatusAcquired", "status of Issue")
}

func (e *env) wantIssue(key storeapi.StoreKey, owner storeapi.Owner, want storeapi.Status, what string) {
	e.Helper()
	status, err := e.tryIssue(key, owner, retention)
	assert.NoError(e, err, "Issue %s", what)
	assert.Equal(e, statusName(status), statusName(want), "status of Issue %s", what)
}

func (e *env) tryIssue(key storeapi.StoreKey, owner storeapi.Owner, d time.Duration) (storeapi.Status, error) {
	s, ok := e.Store.(storeapi.Issuer)
	if !ok {
		return 0, errors.New("the store claims Issuer and does not implement it")
	}
	return s.Issue(e.ctx, storeapi.IssueRequest{Key: key, Owner: owner, Retention: d})
}
