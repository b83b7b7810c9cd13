package storetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s19Progress: progress that is passed to Extend is stored with the record in the same step as the
// lease, by owner and fence. It stays through takeover, release, doubt and resolve, until the
// attempt completes or the record is gone. Older progress never replaces newer.
func s19Progress(e *env) {
	e.runSubtest("kept with the lease", func(e *env) {
		req := e.newRequest(e.key())
		req.Lease = e.short
		r := e.claim(req)
		e.saveProgress(r, progressAnswer(1, "one"), e.long)
		e.wantStoredProgress(r.Key, progressAnswer(1, "one"), "after it was saved")
		now := e.lookup(r.Key)
		assert.True(e, now.LeaseLeft > e.short, "the lease is renewed with the progress: %v left", now.LeaseLeft)
		assert.NoError(e, e.tryExtend(r, e.long), "a heartbeat")
		e.wantStoredProgress(r.Key, progressAnswer(1, "one"), "after a heartbeat")
		e.saveProgress(r, progressAnswer(2, "one two"), e.long)
		e.wantStoredProgress(r.Key, progressAnswer(2, "one two"), "after more was saved")
		req.Lease = e.long
		again := e.acquire(req, storeapi.StatusAcquired, "a repeat by the same owner")
		e.wantProgress(again, progressAnswer(2, "one two"), "a repeat of the Acquire that won")
		other := e.acquire(e.newRequest(r.Key), storeapi.StatusInProgress, "of another")
		assert.Equal(e, other.State, storeapi.StateInProgress, "progress is not the end")
	})
	e.runSubtest("older progress", func(e *env) {
		r := e.claim(e.newRequest(e.key()))
		e.saveProgress(r, progressAnswer(2, "two"), e.long)
		for _, late := range []storeapi.Answer{progressAnswer(1, "late"), progressAnswer(2, "a repeat that says something else"), progressAnswer(0, "of no order"), {Codec: "late"}} {
			e.saveProgress(r, late, e.long)
			e.wantStoredProgress(r.Key, progressAnswer(2, "two"), fmt.Sprintf("after progress of order %d behind 2", late.Size))
		}
		e.saveProgress(r, progressAnswer(3, "three"), e.long)
		e.wantStoredProgress(r.Key, progressAnswer(3, "three"), "after newer progress")
	})
	e.runSubtest("not the holder's", func(e *env) {
		for _, s := range situations {
			r := s.reach(e, e.rerunRequest(e.key()))
			for name, spoil := range strangers {
				who := r
				spoil(&who)
				e.wantLeaseLost(r, e.trySave(who, progressAnswer(9, "of a stranger"), e.long), "progress, "+s.name+", with "+name)
			}
			if s.name == doubted.name || s.name == released.name || s.name == completed.name || s.name == failed.name {
				e.wantLeaseLost(r, e.trySave(r, progressAnswer(9, "too late"), e.long), "progress, "+s.name)
			}
		}
		absent := storeapi.Record{Key: e.key(), Owner: newOwner(), Fence: 1}
		assert.ErrorIs(e, e.trySave(absent, progressAnswer(1, "x"), e.long), storeapi.ErrLeaseLost, "progress of an absent record")
		e.wantAbsent(absent.Key, "after progress of an absent record")
	})
	e.runSubtest("the next to win has it", func(e *env) {
		for name, next := range map[string]func(r storeapi.Record) storeapi.AcquireRequest{
			"takeover": func(r storeapi.Record) storeapi.AcquireRequest {
				e.passLease(e.lookup(r.Key))
				return e.rerunRequest(r.Key)
			},
			"doubt": func(r storeapi.Record) storeapi.AcquireRequest {
				e.releaseInDoubt(r)
				e.wantStoredProgress(r.Key, progressAnswer(3, "so far"), "in doubt")
				return e.rerunRequest(r.Key)
			},
			"release": func(r storeapi.Record) storeapi.AcquireRequest {
				e.release(r)
				e.wantStoredProgress(r.Key, progressAnswer(3, "so far"), "released")
				return e.rerunRequest(r.Key)
			},
			"resolve": func(r storeapi.Record) storeapi.AcquireRequest {
				e.passLease(e.lookup(r.Key))
				return e.resolveRequest(r)
			},
			"resolve of what was released": func(r storeapi.Record) storeapi.AcquireRequest {
				e.release(r)
				return e.resolveRequest(r)
			},
		} {
			req := e.rerunRequest(e.key())
			req.Lease = e.short
			old := e.claim(req)
			e.saveProgress(old, progressAnswer(3, "so far"), e.short)
			r := e.claim(next(old))
			e.wantProgress(r, progressAnswer(3, "so far"), "who wins by "+name)
			e.wantStoredProgress(r.Key, progressAnswer(3, "so far"), "after a "+name)
			e.wantLeaseLost(e.lookup(r.Key), e.trySave(old, progressAnswer(4, "of the old holder"), e.long), "progress of the old holder after a "+name)
			e.saveProgress(r, progressAnswer(4, "and more"), e.long)
			e.wantStoredProgress(r.Key, progressAnswer(4, "and more"), "saved by who won by "+name)
			e.complete(completeRequest(r, "the end"))
			e.wantAnswered(e.lookup(r.Key), storeapi.StateCompleted, rawAnswer("the end"), "Complete replaces progress, after a "+name)
		}
	})
	e.runSubtest("a release keeps whose it is", func(e *env) {
		req := e.newRequest(e.key())
		req.Fingerprint, req.Binding = printA, bindA
		r := e.claim(req)
		e.saveProgress(r, progressAnswer(1, "paid"), e.long)
		e.release(r)
		other := e.newRequest(r.Key)
		other.Fingerprint, other.Binding = printB, bindA
		e.acquire(other, storeapi.StatusMismatch, "with another payload, of what was half done and released")
		other.Fingerprint, other.Binding = printA, bindB
		e.acquire(other, storeapi.StatusPrincipalChanged, "with another credential, of what was half done and released")
		other.Fingerprint, other.Binding = printA, bindA
		e.wantProgress(e.claim(other), progressAnswer(1, "paid"), "who goes on")
	})
	e.runSubtest("an end leaves nothing of it", func(e *env) {
		for _, state := range []storeapi.State{storeapi.StateCompleted, storeapi.StateFailed} {
			r := e.claim(e.newRequest(e.key()))
			e.saveProgress(r, storeapi.Answer{Codec: "progress", Body: []byte("so far"), Kept: true, Size: 7, Digest: [32]byte{1}}, e.long)
			end := completeRequest(r, "x")
			end.State = state
			e.wantAnswered(e.complete(end), state, end.Answer, "Complete over progress")
			e.wantAnswered(e.lookup(r.Key), state, end.Answer, "what is kept of a call with progress")
			if state == storeapi.StateFailed {
				next := e.claim(e.resolveRequest(e.lookup(r.Key)))
				e.wantProgress(next, storeapi.Answer{}, "a failure that is opened again")
			}
		}
	})
	e.runSubtest("expiry removes it", func(e *env) {
		req := e.rerunRequest(e.key())
		req.Lease, req.Retention = e.long, e.short
		r := e.claim(req)
		e.saveProgress(r, progressAnswer(1, "gone"), e.short)
		e.passUntil(leaseEnd(e.lookup(r.Key)).Add(e.short + precision))
		e.wantAbsent(r.Key, "after its retention")
		e.wantProgress(e.claim(e.rerunRequest(r.Key)), storeapi.Answer{}, "a new record")
	})
	e.runSubtest("byte for byte", func(e *env) {
		big := make([]byte, storeapi.MaxStored)
		for i := range big {
			big[i] = byte(i * 7)
		}
		for i, body := range [][]byte{nil, {}, {0, 0xff, '\n'}, big} {
			r := e.claim(e.newRequest(e.key()))
			want := storeapi.Answer{Codec: "progress", Body: bytes.Clone(body), Size: int64(i + 1)}
			e.saveProgress(r, want, e.long)
			e.wantStoredProgress(r.Key, want, fmt.Sprintf("progress of %d bytes", len(body)))
		}
		r := e.claim(e.newRequest(e.key()))
		given := progressAnswer(1, "as it was")
		e.saveProgress(r, given, e.long)
		copy(given.Body, "changed later")
		e.wantStoredProgress(r.Key, progressAnswer(1, "as it was"), "after the caller has used its bytes again")
	})
	e.runSubtest("many at once", func(e *env) {
		r := e.claim(e.newRequest(e.key()))
		for _, err := range callAtOnce(crowd, func(i int) error { return e.trySave(r, progressAnswer(i+1, fmt.Sprint(i+1)), e.long) }) {
			assert.NoError(e, err, "progress beside other progress")
		}
		e.wantStoredProgress(r.Key, progressAnswer(crowd, fmt.Sprint(crowd)), "after all of them, the newest")
	})
}

// progressAnswer returns progress with a number in its order.
func progressAnswer(order int, body string) storeapi.Answer {
	return storeapi.Answer{Codec: "progress", Body: []byte(body), Size: int64(order)}
}

func (e *env) trySave(r storeapi.Record, p storeapi.Answer, lease time.Duration) error {
	return e.Store.Extend(e.ctx, storeapi.ExtendRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Lease: lease, Progress: &p})
}

func (e *env) saveProgress(r storeapi.Record, p storeapi.Answer, lease time.Duration) {
	e.Helper()
	assert.NoError(e, e.trySave(r, p, lease), "Extend with progress by the holder")
}

// wantProgress wants it in a record.
func (e *env) wantProgress(r storeapi.Record, want storeapi.Answer, what string) {
	e.Helper()
	if d := diffAnswer(r.Answer, want); d != "" {
		e.Fatalf("progress, %s: %s", what, d)
	}
}

func (e *env) wantStoredProgress(key storeapi.StoreKey, want storeapi.Answer, what string) {
	e.Helper()
	e.wantProgress(e.lookup(key), want, what)
}
