package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s15NotAfter: Acquire has NotAfter, in the store's time, and no Acquire is applied after
// either.
func s15NotAfter(e *env) {
	e.runSubtest("too late for an absent key", func(e *env) {
		req := e.newRequest(e.key())
		req.NotAfter = e.now().Add(-precision)
		e.wantTooLate(req)
		e.wantAbsent(req.Key, "an Acquire that came too late")
	})
	for name, c := range map[string]struct {
		in  situation
		ask func(req *storeapi.AcquireRequest, r storeapi.Record)
	}{
		"a takeover":                  {lapsed, func(*storeapi.AcquireRequest, storeapi.Record) {}},
		"the owner's own repeat":      {lapsed, sameOwner},
		"a released key":              {released, func(*storeapi.AcquireRequest, storeapi.Record) {}},
		"a resolve":                   {doubted, ifFence},
		"a redrive":                   {failed, ifFence},
		"a repeat under a live lease": {running, sameOwner},
	} {
		e.runSubtest("too late for "+name, func(e *env) {
			r := c.in.reach(e, e.rerunRequest(e.key()))
			req := e.rerunRequest(r.Key)
			c.ask(&req, r)
			req.NotAfter = e.now().Add(-precision)
			e.wantTooLate(req)
			e.wantUnchanged(r, "an Acquire that came too late")
		})
	}
	e.runSubtest("in time", func(e *env) {
		for _, left := range []time.Duration{time.Minute, 24 * time.Hour} {
			req := e.newRequest(e.key())
			req.NotAfter = e.now().Add(left)
			e.claim(req)
		}
		req := e.newRequest(e.key())
		req.NotAfter = time.Time{}
		e.claim(req)
	})
	e.runSubtest("time passes between two tries", func(e *env) {
		req := e.newRequest(e.key())
		req.NotAfter = e.now().Add(2 * e.short)
		first := e.tryAcquire(req)
		if first.err != nil {
			assert.ErrorIs(e, first.err, storeapi.ErrTooLate, "Acquire by a slow caller")
			return
		}
		wantStatus(e, first.Status, storeapi.StatusAcquired, "in time")
		e.release(first.Record)
		r := e.lookup(req.Key)
		e.passUntil(req.NotAfter.Add(precision))
		e.wantTooLate(req)
		e.wantUnchanged(r, "a late copy of an Acquire")
	})
	if e.Stall != nil {
		e.runSubtest("sent to a server that hangs", func(e *env) {
			for _, s := range []situation{{name: "absent"}, lapsed, released} {
				req := e.rerunRequest(e.key())
				var before storeapi.Record
				if s.reach != nil {
					before = s.reach(e, e.rerunRequest(req.Key))
				}
				req.NotAfter = e.now().Add(e.short)
				resume := sync.OnceFunc(e.Stall())
				e.Cleanup(resume)
				e.acquireAndLeave(req)
				e.passTime(2 * e.short)
				resume()
				e.wantNotApplied(req.Key, before)
			}
		})
	}
	if e.Hold != nil {
		e.runSubtest("waiting for somebody's transaction", func(e *env) {
			key := e.key()
			req := e.newRequest(key)
			release := sync.OnceFunc(e.Hold(key))
			e.Cleanup(release)
			// Servers limit such a wait in real time, even if a test moves the store's clock.
			const wait = 100 * time.Millisecond
			req.NotAfter = e.now().Add(wait)
			e.acquireAndLeave(req)
			e.waitRealTime(wait)
			e.passTime(wait)
			release()
			e.wantNotApplied(key, storeapi.Record{})
		})
	}
}

// wantTooLate wants the request to be refused because it came too late.
func (e *env) wantTooLate(req storeapi.AcquireRequest) {
	e.Helper()
	_, err := e.Store.Acquire(e.ctx, req)
	assert.ErrorIs(e, err, storeapi.ErrTooLate, "Acquire after its NotAfter")
}

// acquireAndLeave sends the request; its caller then leaves.
func (e *env) acquireAndLeave(req storeapi.AcquireRequest) {
	e.Helper()
	ctx, cancel := context.WithCancel(e.ctx)
	a := awaitReturn(e, "Acquire whose caller goes away", func() acquireResult {
		defer cancelSoon(cancel)()
		a, err := e.Store.Acquire(ctx, req)
		return acquireResult{a, err}
	})
	assert.True(e, a.err != nil || a.Status != storeapi.StatusAcquired, "an Acquire that cannot be decided does not win")
}

// wantNotApplied wants the key to be unchanged, now and a moment later, and free for a new caller.
func (e *env) wantNotApplied(key storeapi.StoreKey, before storeapi.Record) {
	e.Helper()
	for range 3 {
		if before.State == 0 {
			e.wantAbsent(key, "an Acquire whose caller had gone")
		} else {
			e.wantUnchanged(before, "an Acquire whose caller had gone")
		}
		e.waitRealTime(5 * time.Millisecond)
	}
	r := e.claim(e.rerunRequest(key))
	assert.Equal(e, r.Attempt, before.Attempt+1, "attempt of a new caller")
}
