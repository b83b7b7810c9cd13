package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// finishRequest returns a claim that is finished as it is made.
func (e *env) finishRequest(key storeapi.StoreKey, state storeapi.State, body string) storeapi.AcquireRequest {
	req := e.newRequest(key)
	req.Fingerprint, req.Binding = []byte("\x01print of "+body), []byte("binding of "+body)
	req.Finish = &storeapi.Finish{State: state, Answer: rawAnswer(body), Cause: "kept"}
	return req
}

// claimFinished wants req to be granted, and returns its record.
func (e *env) claimFinished(req storeapi.AcquireRequest, what string) storeapi.Record {
	e.Helper()
	got, err := e.Store.Acquire(e.ctx, req)
	assert.NoError(e, err, "Acquire with Finish")
	wantStatus(e, got.Status, storeapi.StatusAcquired, what)
	r := got.Record
	assert.Equal(e, r.State, req.Finish.State, "%s: state", what)
	assert.Equal(e, r.Cause, req.Finish.Cause, "%s: cause", what)
	assert.True(e, r.Owner == req.Owner && r.LeaseLeft == 0 && r.Earlier == nil, "%s: owner, lease and earlier attempts of %+v", what, r)
	assert.True(e, string(r.Fingerprint) == string(req.Fingerprint) && string(r.Binding) == string(req.Binding), "%s: its own fingerprint and binding", what)
	assert.Equal(e, string(r.Answer.Body), string(req.Finish.Answer.Body), "%s: answer", what)
	e.wantExpiryAt(r, r.Updated.Add(req.Retention))
	e.wantSame(e.lookup(req.Key), r, what+", when it is looked up")
	return r
}

// s22Finish: a claim with Finish is finished in the same step. It replaces no record that it does
// not name by its fence, and none that is completed.
func s22Finish(e *env) {
	for _, state := range []storeapi.State{storeapi.StateCompleted, storeapi.StateFailed} {
		e.runSubtest("a new record that is "+state.String(), func(e *env) {
			req := e.finishRequest(e.key(), state, "one")
			r := e.claimFinished(req, "the record")
			assert.Equal(e, r.Attempt, 1, "attempt")
			again := e.newRequest(req.Key)
			again.Fingerprint = req.Fingerprint
			e.wantAnswered(e.acquire(again, storeapi.StatusFinished, "a duplicate"), state, req.Finish.Answer, "a duplicate")
		})
	}
	e.runSubtest("in place of the value before", func(e *env) {
		first := e.claimFinished(e.finishRequest(e.key(), storeapi.StateFailed, "one"), "the first value")
		req := e.finishRequest(first.Key, storeapi.StateFailed, "two")
		req.IfFence, req.Retention = first.Fence, 2*retention
		second := e.claimFinished(req, "the second value")
		assert.True(e, second.Attempt == 2 && second.Fence > first.Fence && isNear(second.Created, first.Created), "the second value is %+v after %+v", second, first)
		e.acquire(req, storeapi.StatusFenceChanged, "a late copy of the call that wrote it")
		e.wantUnchanged(second, "the late copy")
	})
	e.runSubtest("not in place of what it was not told of", func(e *env) {
		before := []storeapi.Record{
			released.reach(e, e.newRequest(e.key())), completed.reach(e, e.newRequest(e.key())), e.claim(e.newRequest(e.key())), e.claimFinished(e.finishRequest(e.key(), storeapi.StateFailed, "one"), "a value"),
		}
		for _, r := range before {
			r = e.lookup(r.Key)
			for _, fence := range []storeapi.Fence{0, r.Fence - 1} {
				req := e.finishRequest(r.Key, storeapi.StateFailed, "two")
				req.IfFence = fence
				e.acquire(req, storeapi.StatusFenceChanged, "over a record that is "+r.State.String())
				e.wantUnchanged(r, "the refused claim")
			}
		}
		absent := e.finishRequest(e.key(), storeapi.StateFailed, "two")
		absent.IfFence = 7
		e.acquire(absent, storeapi.StatusFenceChanged, "in place of a record that is gone")
	})
	e.runSubtest("never in place of what is completed or runs", func(e *env) {
		done := e.lookup(completed.reach(e, e.newRequest(e.key())).Key)
		req := e.finishRequest(done.Key, storeapi.StateFailed, "two")
		req.IfFence = done.Fence
		e.acquire(req, storeapi.StatusFinished, "over a completed record")
		e.wantUnchanged(done, "the refused claim")
		running := e.claim(e.newRequest(e.key()))
		req = e.finishRequest(running.Key, storeapi.StateFailed, "two")
		req.IfFence = running.Fence
		e.acquire(req, storeapi.StatusInProgress, "over a running attempt")
	})
	e.runSubtest("in place of released work", func(e *env) {
		r := released.reach(e, e.newRequest(e.key()))
		req := e.finishRequest(r.Key, storeapi.StateCompleted, "two")
		req.IfFence = r.Fence
		e.claimFinished(req, "the record")
	})
	e.runSubtest("after its time limit", func(e *env) {
		req := e.finishRequest(e.key(), storeapi.StateFailed, "one")
		req.NotAfter = e.now().Add(-time.Second)
		e.wantTooLate(req)
		e.wantAbsent(req.Key, "a claim with Finish that came too late")
	})
	e.runSubtest("with a state that is no outcome", func(e *env) {
		req := e.finishRequest(e.key(), storeapi.StateReleased, "one")
		_, err := e.Store.Acquire(e.ctx, req)
		assert.True(e, err != nil, "an error for the state %v", req.Finish.State)
		e.wantAbsent(req.Key, "a claim with Finish that was refused")
	})
}
