package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// ask returns a request of a new caller under Refuse, with a lease that does not end while a test
// runs.
func (e *env) ask(key storeapi.StoreKey) storeapi.AcquireRequest {
	return storeapi.AcquireRequest{Key: key, Owner: newOwner(), Lease: e.long, Retention: retention, OnDoubt: storeapi.Refuse}
}

// rerun is like ask, under Reexecute.
func (e *env) rerun(key storeapi.StoreKey) storeapi.AcquireRequest {
	req := e.ask(key)
	req.OnDoubt = storeapi.Reexecute
	return req
}

// resolve returns a compare-and-set request on the fence of r.
func (e *env) resolve(r storeapi.Record) storeapi.AcquireRequest {
	req := e.ask(r.Key)
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

// win wants the request to succeed.
func (e *env) win(req storeapi.AcquireRequest) storeapi.Record {
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

// absent wants no record of the key.
func (e *env) absent(key storeapi.StoreKey, what string) {
	e.Helper()
	assert.Equal(e, e.lookup(key).State, 0, "Lookup, %s: state", what)
}

// raw returns an answer that is stored.
func raw(body string) storeapi.Answer {
	return storeapi.Answer{Codec: "raw", Body: []byte(body), Kept: true}
}

// ending returns the request by which the holder of r completes it.
func ending(r storeapi.Record, body string) storeapi.CompleteRequest {
	return storeapi.CompleteRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, State: storeapi.StateCompleted, Answer: raw(body)}
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
	_, err := e.Store.Complete(e.ctx, ending(r, body))
	return err
}

func (e *env) tryExtend(r storeapi.Record, lease time.Duration) error {
	return e.Store.Extend(e.ctx, storeapi.ExtendRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Lease: lease})
}

func releasing(r storeapi.Record) storeapi.ReleaseRequest {
	return storeapi.ReleaseRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Cause: "error", LastError: "dial: refused"}
}

func doubting(r storeapi.Record) storeapi.ReleaseRequest {
	return storeapi.ReleaseRequest{
		Key: r.Key, Owner: r.Owner, Fence: r.Fence, InDoubt: true, Cause: "panic", LastError: "nil pointer in ünder",
	}
}

func (e *env) tryRelease(r storeapi.Record) error { return e.Store.Release(e.ctx, releasing(r)) }

func (e *env) tryDoubt(r storeapi.Record) error { return e.Store.Release(e.ctx, doubting(r)) }

func (e *env) release(r storeapi.Record) {
	e.Helper()
	assert.NoError(e, e.tryRelease(r), "Release by the holder")
}

func (e *env) doubt(r storeapi.Record) {
	e.Helper()
	assert.NoError(e, e.tryDoubt(r), "Release in doubt by the holder")
}

// call is one of the four calls of a holder, with its name.
type call struct {
	name string
	make func(*env, storeapi.Record) error
}

var holderCalls = []call{
	{"Extend", func(e *env, r storeapi.Record) error { return e.tryExtend(r, e.long) }},
	{"Complete", func(e *env, r storeapi.Record) error { return e.tryComplete(r, "the answer of a holder") }},
	{"Release", (*env).tryRelease},
	{"Release in doubt", (*env).tryDoubt},
}
