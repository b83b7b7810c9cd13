package storetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// s19Progress: progress that is passed to Extend is stored with the record in the same step as the
// lease, by owner and fence. It stays through takeover, release, doubt and resolve, until the
// attempt completes or the record is gone. Older progress never replaces newer.
func s19Progress(e *env) {
	e.run("kept with the lease", func(e *env) {
		req := e.ask(e.key())
		req.Lease = e.short
		r := e.win(req)
		e.save(r, done(1, "one"), e.long)
		e.shows(r.Key, done(1, "one"), "after it was saved")
		now := e.lookup(r.Key)
		assert.True(e, now.LeaseLeft > e.short, "the lease is renewed with the progress: %v left", now.LeaseLeft)
		assert.NoError(e, e.tryExtend(r, e.long), "a heartbeat")
		e.shows(r.Key, done(1, "one"), "after a heartbeat")
		e.save(r, done(2, "one two"), e.long)
		e.shows(r.Key, done(2, "one two"), "after more was saved")
		req.Lease = e.long
		again := e.acquire(req, storeapi.StatusAcquired, "a repeat by the same owner")
		e.progress(again, done(2, "one two"), "a repeat of the Acquire that won")
		other := e.acquire(e.ask(r.Key), storeapi.StatusInProgress, "of another")
		assert.Equal(e, other.State, storeapi.StateInProgress, "progress is not the end")
	})
	e.run("older progress", func(e *env) {
		r := e.win(e.ask(e.key()))
		e.save(r, done(2, "two"), e.long)
		for _, late := range []storeapi.Answer{done(1, "late"), done(2, "a repeat that says something else"), done(0, "of no order"), {Codec: "late"}} {
			e.save(r, late, e.long)
			e.shows(r.Key, done(2, "two"), fmt.Sprintf("after progress of order %d behind 2", late.Size))
		}
		e.save(r, done(3, "three"), e.long)
		e.shows(r.Key, done(3, "three"), "after newer progress")
	})
	e.run("not the holder's", func(e *env) {
		for _, s := range situations {
			r := s.reach(e, e.rerun(e.key()))
			for name, spoil := range strangers {
				who := r
				spoil(&who)
				e.lost(r, e.trySave(who, done(9, "of a stranger"), e.long), "progress, "+s.name+", with "+name)
			}
			if s.name == doubted.name || s.name == released.name || s.name == completed.name || s.name == failed.name {
				e.lost(r, e.trySave(r, done(9, "too late"), e.long), "progress, "+s.name)
			}
		}
		absent := storeapi.Record{Key: e.key(), Owner: newOwner(), Fence: 1}
		assert.ErrorIs(e, e.trySave(absent, done(1, "x"), e.long), storeapi.ErrLeaseLost, "progress of an absent record")
		e.absent(absent.Key, "after progress of an absent record")
	})
	e.run("the next to win has it", func(e *env) {
		for name, next := range map[string]func(r storeapi.Record) storeapi.AcquireRequest{
			"takeover": func(r storeapi.Record) storeapi.AcquireRequest {
				e.lapse(e.lookup(r.Key))
				return e.rerun(r.Key)
			},
			"doubt": func(r storeapi.Record) storeapi.AcquireRequest {
				e.doubt(r)
				e.shows(r.Key, done(3, "so far"), "in doubt")
				return e.rerun(r.Key)
			},
			"release": func(r storeapi.Record) storeapi.AcquireRequest {
				e.release(r)
				e.shows(r.Key, done(3, "so far"), "released")
				return e.rerun(r.Key)
			},
			"resolve": func(r storeapi.Record) storeapi.AcquireRequest {
				e.lapse(e.lookup(r.Key))
				return e.resolve(r)
			},
			"resolve of what was released": func(r storeapi.Record) storeapi.AcquireRequest {
				e.release(r)
				return e.resolve(r)
			},
		} {
			req := e.rerun(e.key())
			req.Lease = e.short
			old := e.win(req)
			e.save(old, done(3, "so far"), e.short)
			r := e.win(next(old))
			e.progress(r, done(3, "so far"), "who wins by "+name)
			e.shows(r.Key, done(3, "so far"), "after a "+name)
			e.lost(e.lookup(r.Key), e.trySave(old, done(4, "of the old holder"), e.long), "progress of the old holder after a "+name)
			e.save(r, done(4, "and more"), e.long)
			e.shows(r.Key, done(4, "and more"), "saved by who won by "+name)
			e.complete(ending(r, "the end"))
			e.answered(e.lookup(r.Key), storeapi.StateCompleted, raw("the end"), "Complete replaces progress, after a "+name)
		}
	})
	e.run("a release keeps whose it is", func(e *env) {
		req := e.ask(e.key())
		req.Fingerprint, req.Binding = printA, bindA
		r := e.win(req)
		e.save(r, done(1, "paid"), e.long)
		e.release(r)
		other := e.ask(r.Key)
		other.Fingerprint, other.Binding = printB, bindA
		e.acquire(other, storeapi.StatusMismatch, "with another payload, of what was half done and released")
		other.Fingerprint, other.Binding = printA, bindB
		e.acquire(other, storeapi.StatusPrincipalChanged, "with another credential, of what was half done and released")
		other.Fingerprint, other.Binding = printA, bindA
		e.progress(e.win(other), done(1, "paid"), "who goes on")
	})
	e.run("an end leaves nothing of it", func(e *env) {
		for _, state := range []storeapi.State{storeapi.StateCompleted, storeapi.StateFailed} {
			r := e.win(e.ask(e.key()))
			e.save(r, storeapi.Answer{Codec: "progress", Body: []byte("so far"), Kept: true, Size: 7, Digest: [32]byte{1}}, e.long)
			end := ending(r, "x")
			end.State = state
			e.answered(e.complete(end), state, end.Answer, "Complete over progress")
			e.answered(e.lookup(r.Key), state, end.Answer, "what is kept of a call with progress")
			if state == storeapi.StateFailed {
				next := e.win(e.resolve(e.lookup(r.Key)))
				e.progress(next, storeapi.Answer{}, "a failure that is opened again")
			}
		}
	})
	e.run("expiry removes it", func(e *env) {
		req := e.rerun(e.key())
		req.Lease, req.Retention = e.long, e.short
		r := e.win(req)
		e.save(r, done(1, "gone"), e.short)
		e.passUntil(leaseEnd(e.lookup(r.Key)).Add(e.short + precision))
		e.absent(r.Key, "after its retention")
		e.progress(e.win(e.rerun(r.Key)), storeapi.Answer{}, "a new record")
	})
	e.run("byte for byte", func(e *env) {
		big := make([]byte, storeapi.MaxStored)
		for i := range big {
			big[i] = byte(i * 7)
		}
		for i, body := range [][]byte{nil, {}, {0, 0xff, '\n'}, big} {
			r := e.win(e.ask(e.key()))
			want := storeapi.Answer{Codec: "progress", Body: bytes.Clone(body), Size: int64(i + 1)}
			e.save(r, want, e.long)
			e.shows(r.Key, want, fmt.Sprintf("progress of %d bytes", len(body)))
		}
		r := e.win(e.ask(e.key()))
		given := done(1, "as it was")
		e.save(r, given, e.long)
		copy(given.Body, "changed later")
		e.shows(r.Key, done(1, "as it was"), "after the caller has used its bytes again")
	})
	e.run("many at once", func(e *env) {
		r := e.win(e.ask(e.key()))
		for _, err := range atOnce(crowd, func(i int) error { return e.trySave(r, done(i+1, fmt.Sprint(i+1)), e.long) }) {
			assert.NoError(e, err, "progress beside other progress")
		}
		e.shows(r.Key, done(crowd, fmt.Sprint(crowd)), "after all of them, the newest")
	})
}

// done returns progress with a number in its order.
func done(order int, body string) storeapi.Answer {
	return storeapi.Answer{Codec: "progress", Body: []byte(body), Size: int64(order)}
}

func (e *env) trySave(r storeapi.Record, p storeapi.Answer, lease time.Duration) error {
	return e.Store.Extend(e.ctx, storeapi.ExtendRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Lease: lease, Progress: &p})
}

func (e *env) save(r storeapi.Record, p storeapi.Answer, lease time.Duration) {
	e.Helper()
	assert.NoError(e, e.trySave(r, p, lease), "Extend with progress by the holder")
}

// progress wants it in a record.
func (e *env) progress(r storeapi.Record, want storeapi.Answer, what string) {
	e.Helper()
	if d := diffAnswer(r.Answer, want); d != "" {
		e.Fatalf("progress, %s: %s", what, d)
	}
}

func (e *env) shows(key storeapi.StoreKey, want storeapi.Answer, what string) {
	e.Helper()
	e.progress(e.lookup(key), want, what)
}
