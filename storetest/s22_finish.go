package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// finishing returns a claim that is finished as it is made.
func (e *env) finishing(key storeapi.StoreKey, state storeapi.State, body string) storeapi.AcquireRequest {
	req := e.ask(key)
	req.Fingerprint, req.Binding = []byte("\x01print of "+body), []byte("binding of "+body)
	req.Finish = &storeapi.Finish{State: state, Answer: raw(body), Cause: "kept"}
	return req
}

// finishes wants req to be granted, and returns its record.
func (e *env) finishes(req storeapi.AcquireRequest, what string) storeapi.Record {
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
	e.expiresAt(r, r.Updated.Add(req.Retention))
	e.same(e.lookup(req.Key), r, what+", when it is looked up")
	return r
}

// s22Finish: a claim with Finish is finished in the same step. It replaces no record that it does
// not name by its fence, and none that is completed.
func s22Finish(e *env) {
	for _, state := range []storeapi.State{storeapi.StateCompleted, storeapi.StateFailed} {
		e.run("a new record that is "+state.String(), func(e *env) {
			req := e.finishing(e.key(), state, "one")
			r := e.finishes(req, "the record")
			assert.Equal(e, r.Attempt, 1, "attempt")
			again := e.ask(req.Key)
			again.Fingerprint = req.Fingerprint
			e.answered(e.acquire(again, storeapi.StatusFinished, "a duplicate"), state, req.Finish.Answer, "a duplicate")
		})
	}
	e.run("in place of the value before", func(e *env) {
		first := e.finishes(e.finishing(e.key(), storeapi.StateFailed, "one"), "the first value")
		req := e.finishing(first.Key, storeapi.StateFailed, "two")
		req.IfFence, req.Retention = first.Fence, 2*retention
		second := e.finishes(req, "the second value")
		assert.True(e, second.Attempt == 2 && second.Fence > first.Fence && near(second.Created, first.Created), "the second value is %+v after %+v", second, first)
		e.acquire(req, storeapi.StatusFenceChanged, "a late copy of the call that wrote it")
		e.unchanged(second, "the late copy")
	})
	e.run("not in place of what it was not told of", func(e *env) {
		before := []storeapi.Record{
			released.reach(e, e.ask(e.key())), completed.reach(e, e.ask(e.key())), e.win(e.ask(e.key())), e.finishes(e.finishing(e.key(), storeapi.StateFailed, "one"), "a value"),
		}
		for _, r := range before {
			r = e.lookup(r.Key)
			for _, fence := range []storeapi.Fence{0, r.Fence - 1} {
				req := e.finishing(r.Key, storeapi.StateFailed, "two")
				req.IfFence = fence
				e.acquire(req, storeapi.StatusFenceChanged, "over a record that is "+r.State.String())
				e.unchanged(r, "the refused claim")
			}
		}
		absent := e.finishing(e.key(), storeapi.StateFailed, "two")
		absent.IfFence = 7
		e.acquire(absent, storeapi.StatusFenceChanged, "in place of a record that is gone")
	})
	e.run("never in place of what is completed or runs", func(e *env) {
		done := e.lookup(completed.reach(e, e.ask(e.key())).Key)
		req := e.finishing(done.Key, storeapi.StateFailed, "two")
		req.IfFence = done.Fence
		e.acquire(req, storeapi.StatusFinished, "over a completed record")
		e.unchanged(done, "the refused claim")
		running := e.win(e.ask(e.key()))
		req = e.finishing(running.Key, storeapi.StateFailed, "two")
		req.IfFence = running.Fence
		e.acquire(req, storeapi.StatusInProgress, "over a running attempt")
	})
	e.run("in place of released work", func(e *env) {
		r := released.reach(e, e.ask(e.key()))
		req := e.finishing(r.Key, storeapi.StateCompleted, "two")
		req.IfFence = r.Fence
		e.finishes(req, "the record")
	})
	e.run("after its time limit", func(e *env) {
		req := e.finishing(e.key(), storeapi.StateFailed, "one")
		req.NotAfter = e.now().Add(-time.Second)
		e.late(req)
		e.absent(req.Key, "a claim with Finish that came too late")
	})
	e.run("with a state that is no outcome", func(e *env) {
		req := e.finishing(e.key(), storeapi.StateReleased, "one")
		_, err := e.Store.Acquire(e.ctx, req)
		assert.True(e, err != nil, "an error for the state %v", req.Finish.State)
		e.absent(req.Key, "a claim with Finish that was refused")
	})
}
