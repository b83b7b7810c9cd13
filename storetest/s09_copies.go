package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// elsewhere returns a record of the key as another store has it, whose clock is an hour ahead.
func (e *env) elsewhere(key storeapi.StoreKey, state storeapi.State) storeapi.Record {
	now := e.now().Add(time.Hour)
	r := storeapi.Record{
		Key: key, State: state, Attempt: 5, Fence: 42, Owner: newOwner(), OnDoubt: storeapi.Reexecute, Issued: true,
		Earlier: []storeapi.Worked{{Attempt: 1, Fence: 40}, {Attempt: 3, Fence: 41}}, EarlierCut: true,
		Fingerprint: []byte("\x01print"), Binding: []byte("binding"), Now: now, Created: now.Add(-20 * time.Minute).Truncate(time.Microsecond),
		LastError: "what an operator sees",
	}
	switch state {
	case storeapi.StateCompleted, storeapi.StateFailed:
		r.Earlier, r.EarlierCut = nil, false
		r.Answer = raw("made elsewhere")
	default:
		r.Answer = storeapi.Answer{Codec: "progress", Body: []byte("so far"), Size: 7}
	}
	if state != storeapi.StateInProgress {
		r.Cause, r.Expires = "moved", now.Add(retention)
	}
	return r
}

// copying returns a claim that continues a record of another store.
func (e *env) copying(r storeapi.Record) storeapi.AcquireRequest {
	req := e.ask(r.Key)
	req.Copy = &r
	return req
}

// copies wants the record to be that of another store, but for what belongs to the claim.
func (e *env) copies(got, want storeapi.Record, what string) {
	e.Helper()
	if !want.Expires.IsZero() {
		want.Expires = got.Now.Add(want.Expires.Sub(want.Now))
		assert.True(e, got.Expires.Sub(want.Expires).Abs() < time.Minute, "%s: it expires at %v, want %v", what, got.Expires, want.Expires)
	}
	want.Owner, want.Fence, want.Now = got.Owner, got.Fence, got.Now
	want.Expires, want.Updated, want.LeaseLeft = got.Expires, got.Updated, got.LeaseLeft
	if !want.Asks { // the copy has a lease
		want.DoubtSince = time.Time{}
	}
	e.same(got, want, what)
	e.same(e.lookup(got.Key), got, what+", when it is looked up")
}

// s09Copies: a claim with the record of another store continues that record.
func s09Copies(e *env) {
	e.run("a claim goes on with the record of another store", func(e *env) {
		old := e.win(e.rerun(e.key()))
		e.doubt(old)
		for _, key := range []storeapi.StoreKey{e.key(), old.Key} {
			// also in place of a record of its own
			there := e.elsewhere(key, storeapi.StateInProgress)
			req := e.copying(there)
			if key == old.Key {
				req.IfFence = old.Fence
			}
			r := e.win(req)
			e.copies(r, there, "a claim")
			assert.True(e, r.Fence > max(req.IfFence, there.Fence), "the fence %d is one of this store", r.Fence)
			assert.Equal(e, e.win(req).Fence, r.Fence, "fence of a repeat by the same owner")
			e.release(r)
			next := e.win(e.rerun(key))
			assert.True(e, next.Attempt == 6 && near(next.Created, there.Created), "the next attempt is %d of a record of %v", next.Attempt, next.Created)
		}
	})
	e.run("a copy of released work", func(e *env) {
		key := e.key()
		there := e.elsewhere(key, storeapi.StateReleased)
		there.Asks = true                        // its own fence is another one here
		e.Store.Acquire(e.ctx, e.copying(there)) //nolint:errcheck // looked at below
		e.copies(e.lookup(key), there, "the copy")
		next := e.win(e.rerun(key))
		assert.True(e, next.Attempt == 6 && near(next.Created, there.Created), "the next attempt is %d of a record of %v", next.Attempt, next.Created)
	})
	for _, state := range []storeapi.State{storeapi.StateCompleted, storeapi.StateFailed} {
		e.run("a copy of "+state.String()+" work", func(e *env) {
			there := e.elsewhere(e.key(), state)
			there.OnDoubt = storeapi.Refuse
			got, err := e.Store.Acquire(e.ctx, e.copying(there))
			assert.NoError(e, err, "Acquire")
			wantStatus(e, got.Status, storeapi.StatusAcquired, "a copy")
			assert.Equal(e, got.Record.State, state, "state of the copy")
			e.copies(got.Record, there, "the copy")
			again := e.ask(there.Key)
			again.Fingerprint = there.Fingerprint
			e.answered(e.acquire(again, storeapi.StatusFinished, "a duplicate"), state, there.Answer, "a duplicate")
			if state == storeapi.StateFailed {
				next := e.win(e.resolve(got.Record))
				assert.True(e, next.Attempt == 6 && near(next.Created, there.Created), "reopened, it is attempt %d of a record of %v", next.Attempt, next.Created)
				assert.Equal(e, next.OnDoubt, storeapi.Refuse, "policy when it is reopened")
			}
		})
	}
	e.run("a copy never replaces a record that it was not told of", func(e *env) {
		released := released.reach(e, e.ask(e.key()))
		done := completed.reach(e, e.ask(e.key()))
		running := e.win(e.ask(e.key()))
		for _, r := range []storeapi.Record{released, done, running} {
			before := e.lookup(r.Key)
			for _, fence := range []storeapi.Fence{0, r.Fence - 1} {
				req := e.copying(e.elsewhere(r.Key, storeapi.StateCompleted))
				req.IfFence = fence
				e.acquire(req, storeapi.StatusFenceChanged, "a copy over a record that is "+before.State.String())
				e.unchanged(before, "a copy")
			}
		}
		req := e.copying(e.elsewhere(released.Key, storeapi.StateCompleted))
		req.IfFence = released.Fence
		got, err := e.Store.Acquire(e.ctx, req)
		assert.NoError(e, err, "Acquire")
		wantStatus(e, got.Status, storeapi.StatusAcquired, "a copy over the released record that it names")
		assert.True(e, got.Record.State == storeapi.StateCompleted && got.Record.Fence > released.Fence, "the copy is %+v", got.Record)
	})
}
