package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// newRequest returns a request of a new caller under Refuse, with a lease that does not end while a
// test runs.
func (e *env) newRequest(key storeapi.StoreKey) storeapi.AcquireRequest {
	return storeapi.AcquireRequest{Key: key, Owner: newOwner(), Lease: e.long, Retention: retention, OnDoubt: storeapi.Refuse}
}

// rerunRequest is like newRequest, under Reexecute.
func (e *env) rerunRequest(key storeapi.StoreKey) storeapi.AcquireRequest {
	req := e.newRequest(key)
	req.OnDoubt = storeapi.Reexecute
	return req
}

// resolveRequest returns a compare-and-set request on the fence of r.
func (e *env) resolveRequest(r storeapi.Record) storeapi.AcquireRequest {
	req := e.newRequest(r.Key)
	req.IfFence = r.Fence
	return req
}

// acquire makes the call and wants the status.
func (e *env) acquire(req storeapi.AcquireRequest, want storeapi.Status, what string) storeapi.Record {
	e.Helper()
	got, err := e.Store.Acquire(e.ctx, req)
	assert.NoError(e, err, "Acquire, %s", what)
	wantStatus(e, got.Status, want, what)
	assert.Equal(e, got.Record.Key, req.Key, "Acquire, %s: key of the record", what)
	assert.True(e, !got.Record.Now.IsZero(), "Acquire, %s: the record tells the store's time", what)
	if want == storeapi.StatusAcquired {
		r := got.Record
		assert.Equal(e, r.State, storeapi.StateInProgress, "%s: state of the record that was won", what)
		assert.Equal(e, r.Owner, req.Owner, "%s: owner of the record that was won", what)
		assert.True(e, r.Attempt > 0 && r.Fence > 0, "%s: a win has an attempt (%d) and a fence (%d)", what, r.Attempt, r.Fence)
		assert.True(e, r.LeaseLeft > 0 && r.LeaseLeft <= req.Lease+time.Millisecond,
			"%s: the lease left (%v) is at most the one asked for (%v)", what, r.LeaseLeft, req.Lease)
	}
	return got.Record
}

// claim wants the request to be granted.
func (e *env) claim(req storeapi.AcquireRequest) storeapi.Record {
	e.Helper()
	return e.acquire(req, storeapi.StatusAcquired, "a call that may run")
}

func (e *env) lookup(key storeapi.StoreKey) storeapi.Record {
	e.Helper()
	r, err := e.Store.Lookup(e.ctx, key)
	assert.NoError(e, err, "Lookup")
	assert.Equal(e, r.Key, key, "Lookup: key of the record")
	assert.True(e, !r.Now.IsZero(), "Lookup tells the store's time")
	return r
}

// wantAbsent wants no record of the key.
func (e *env) wantAbsent(key storeapi.StoreKey, what string) {
	e.Helper()
	assert.Equal(e, e.lookup(key).State, 0, "Lookup, %s: state", what)
}

// rawAnswer returns an answer that is stored.
func rawAnswer(body string) storeapi.Answer {
	return storeapi.Answer{Codec: "raw", Body: []byte(body), Kept: true}
}

// completeRequest returns the request by which the holder of r completes it.
func completeRequest(r storeapi.Record, body string) storeapi.CompleteRequest {
	return storeapi.CompleteRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, State: storeapi.StateCompleted, Answer: rawAnswer(body)}
}

func (e *env) complete(req storeapi.CompleteRequest) storeapi.Record {
	e.Helper()
	r, err := e.Store.Complete(e.ctx, req)
	assert.NoError(e, err, "Complete by the holder")
	assert.Equal(e, r.Key, req.Key, "Complete: key of the record")
	return r
}

// The holder's calls for r, which return their errors.

func (e *env) tryComplete(r storeapi.Record, body string) error {
	_, err := e.Store.Complete(e.ctx, completeRequest(r, body))
	return err
}

func (e *env) tryExtend(r storeapi.Record, lease time.Duration) error {
	return e.Store.Extend(e.ctx, storeapi.ExtendRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Lease: lease})
}

func releaseRequest(r storeapi.Record) storeapi.ReleaseRequest {
	return storeapi.ReleaseRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Cause: "error", LastError: "dial: refused"}
}

func doubtRequest(r storeapi.Record) storeapi.ReleaseRequest {
	return storeapi.ReleaseRequest{
		Key: r.Key, Owner: r.Owner, Fence: r.Fence, InDoubt: true, Cause: "panic", LastError: "nil pointer in ünder",
	}
}

func (e *env) tryRelease(r storeapi.Record) error { return e.Store.Release(e.ctx, releaseRequest(r)) }

func (e *env) tryReleaseInDoubt(r storeapi.Record) error {
	return e.Store.Release(e.ctx, doubtRequest(r))
}

func (e *env) release(r storeapi.Record) {
	e.Helper()
	assert.NoError(e, e.tryRelease(r), "Release by the holder")
}

func (e *env) releaseInDoubt(r storeapi.Record) {
	e.Helper()
	assert.NoError(e, e.tryReleaseInDoubt(r), "Release in doubt by the holder")
}

// holderCall is one of the four calls of a holder, with its name.
type holderCall struct {
	name string
	make func(*env, storeapi.Record) error
}

var holderCalls = []holderCall{
	{"Extend", func(e *env, r storeapi.Record) error { return e.tryExtend(r, e.long) }},
	{"Complete", func(e *env, r storeapi.Record) error { return e.tryComplete(r, "the answer of a holder") }},
	{"Release", (*env).tryRelease},
	{"Release in doubt", (*env).tryReleaseInDoubt},
}
