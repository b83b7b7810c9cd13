package storetest

import (
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// situation brings a record into one of the states in which a call may meet it.
type situation struct {
	name string
	// reach acquires with req, possibly with a shorter lease, and returns the record as Lookup
	// shows it.
	reach func(e *env, req storeapi.AcquireRequest) storeapi.Record
}

var (
	running = situation{"in progress", func(e *env, req storeapi.AcquireRequest) storeapi.Record {
		e.Helper()
		e.claim(req)
		return e.lookup(req.Key)
	}}
	lapsed = situation{"after its lease", func(e *env, req storeapi.AcquireRequest) storeapi.Record {
		e.Helper()
		req.Lease = e.short
		e.passLease(e.claim(req))
		return e.lookup(req.Key)
	}}
	doubted = situation{"put in doubt", func(e *env, req storeapi.AcquireRequest) storeapi.Record {
		e.Helper()
		e.releaseInDoubt(e.claim(req))
		return e.lookup(req.Key)
	}}
	completed = situation{"completed", func(e *env, req storeapi.AcquireRequest) storeapi.Record {
		e.Helper()
		e.complete(completeRequest(e.claim(req), "the first answer"))
		return e.lookup(req.Key)
	}}
	failed = situation{"failed", func(e *env, req storeapi.AcquireRequest) storeapi.Record {
		e.Helper()
		end := completeRequest(e.claim(req), "a refusal")
		end.State = storeapi.StateFailed
		e.complete(end)
		return e.lookup(req.Key)
	}}
	released = situation{"released", func(e *env, req storeapi.AcquireRequest) storeapi.Record {
		e.Helper()
		e.release(e.claim(req))
		return e.lookup(req.Key)
	}}

	situations = []situation{running, lapsed, doubted, completed, failed, released}
)

// expireRecord lets a record expire, without a sweep.
func expireRecord(e *env, req storeapi.AcquireRequest) {
	e.Helper()
	end := completeRequest(e.claim(req), "an answer that is gone")
	end.Retention = e.short
	r := e.complete(end)
	assert.True(e, !r.Expires.IsZero(), "a completed record says when it expires")
	e.passUntil(r.Expires.Add(precision))
}
