package redis_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// timed remembers the server's time of the last call.
type timed struct {
	redisclient.Client
	now protocol.Micros
}

func (c *timed) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	r := c.Client.Eval(ctx, call)
	if text, ok := r.Value.(string); ok && len(text) >= 9 {
		c.now = protocol.Micros(binary.BigEndian.Uint64([]byte(text[1:9])))
	}
	return r
}

// joined sends each call in one run with another for a neighbour, which is before it.
type joined struct{ *rueidisclient.Client }

func (c joined) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	if call.Script.Joined() == nil {
		return c.Client.Eval(ctx, call)
	}
	call.Join, call.Alone = true, false
	neighbour := call
	neighbour.Keys = []string{"rs:neighbour"}
	return c.EvalMany(ctx, []redisclient.Call{neighbour, call})[1]
}

// TestRedisScriptsDecideLikeTheProtocol: over random calls, every answer of the scripts and every
// byte that they store is what the Go functions return for the same record, request and time. So
// it is in a run with other calls.
func TestRedisScriptsDecideLikeTheProtocol(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		server := k.Start(t)
		raw := servers.RueidisTo(t, server.Addr)
		for name, client := range map[string]redisclient.Client{"alone": raw, "joined": joined{raw}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				seed := uint64(time.Now().UnixNano())
				t.Logf("seed %d", seed)
				spy := &timed{Client: client}
				walkModel(t, rand.New(rand.NewPCG(seed, 1)), raw, spy, teststores.Redis(t, spy, nil), name)
			})
		}
	})
}

func walkModel(t *testing.T, rnd *rand.Rand, raw redisclient.Nodes, spy *timed, s storeapi.Store, name string) {
	t.Helper()
	for round := range 120 {
		key := storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: retrysafe.Key{Operation: "model", ID: fmt.Sprint(name, round)}}
		w := &modelWalk{t: t, rnd: rnd, key: key}
		for range 25 {
			what := w.makeStep(s, spy)
			stored := ""
			_ = raw.EachPrimary(t.Context(), func(ctx context.Context, do func(context.Context, ...string) redisclient.Reply) error {
				text, _ := key.MarshalText()
				stored, _ = do(ctx, "GET", "rs:"+string(text)).Value.(string)
				return nil
			})
			if stored == "" { // the server has removed it: it must have expired
				assert.True(t, w.row.State == 0 || w.row.Expires != 0, "%s: a record that never expires is there", what)

				continue
			}
			if w.row.State == 0 {
				old, err := protocol.ParseRow([]byte(stored))
				assert.NoError(t, err, "parse")
				assert.True(t, old.Expired(spy.now), "%s: what is left has expired", what)
				continue
			}
			if w.row.State == retrysafe.StateIssued && w.row.Fence == 0 {
				// The fence of the expired record, if the record still existed.
				if kept, err := protocol.ParseRow([]byte(stored)); err == nil && kept.Fence == w.old {
					w.row.Fence = w.old
				}
			}
			want, err := w.row.AppendBinary(nil)
			assert.NoError(t, err, "pack")
			assert.Equal(t, fmt.Sprintf("%x", stored), fmt.Sprintf("%x", want), "%s: the stored bytes", what)
		}
	}
}

// modelWalk makes random calls for one key, and has the record that must result.
type modelWalk struct {
	t   *testing.T
	rnd *rand.Rand
	key storeapi.StoreKey
	row protocol.Row
	old retrysafe.Fence // of the last record that expired
}

func (w *modelWalk) owner() storeapi.Owner { return storeapi.Owner{byte(1 + w.rnd.IntN(3))} }

func (w *modelWalk) fence() retrysafe.Fence {
	if w.rnd.IntN(5) == 0 {
		return w.row.Fence + 1
	}
	return w.row.Fence
}

func (w *modelWalk) bytes() []byte {
	return [][]byte{nil, nil, {}, []byte("\x01one"), []byte("\x01two"), []byte("\x02one")}[w.rnd.IntN(6)]
}

func (w *modelWalk) span() time.Duration {
	return []time.Duration{time.Millisecond, 3 * time.Millisecond, time.Minute, time.Hour, retrysafe.Forever, 500 * time.Nanosecond}[w.rnd.IntN(6)]
}

// makeStep makes one call on both sides and compares the answers.
func (w *modelWalk) makeStep(s storeapi.Store, spy *timed) (what string) {
	t, ctx := w.t, w.t.Context()
	if w.rnd.IntN(6) == 0 {
		time.Sleep(time.Duration(w.rnd.IntN(4000)) * time.Microsecond)
	}
	onDoubt := []retrysafe.OnDoubt{retrysafe.Refuse, retrysafe.Reexecute}[w.rnd.IntN(2)]
	switch w.rnd.IntN(10) {
	case 0, 1, 2, 3:
		req := storeapi.AcquireRequest{
			Key: w.key, Owner: w.owner(), Fingerprint: w.bytes(), Binding: w.bytes(), Lease: w.span(), Retention: w.span(), OnDoubt: onDoubt,
			MustBeIssued: w.rnd.IntN(8) == 0,
		}
		if req.Lease > time.Hour {
			req.Lease = time.Hour
		}
		doubt := w.row.State == retrysafe.StateInProgress && (w.row.Asks || w.row.LeaseEnd == 0)
		if w.rnd.IntN(4) == 0 || doubt && w.rnd.IntN(2) == 0 {
			// a doubt is asked about more than once
			req.IfFence, req.Force = w.fence(), w.rnd.IntN(2) == 0
		}
		req.Asks = w.rnd.IntN(3) == 0 || doubt && w.rnd.IntN(2) == 0
		if w.rnd.IntN(8) == 0 {
			req.Finish = &storeapi.Finish{State: retrysafe.StateFailed, Answer: retrysafe.Answer{Codec: "value", Body: w.bytes(), Kept: true}, Cause: "kept"}
			if w.rnd.IntN(2) == 0 {
				req.IfFence = w.row.Fence
			}
		}
		if w.rnd.IntN(2) == 0 {
			req.NotAfter = time.Now().Add(time.Duration(w.rnd.IntN(20)-2) * time.Millisecond).Truncate(time.Microsecond)
		}
		what = fmt.Sprintf("Acquire %+v", req)
		got, err := s.Acquire(ctx, req)
		w.forgetExpired(spy.now)
		next, status, _, wantErr := protocol.Acquire(w.row, spy.now, 0, &req)
		assert.Equal(t, errors.Is(err, retrysafe.ErrTooLate), wantErr != nil, "%s: too late (%v)", what, err)
		if wantErr != nil {
			return what
		}
		assert.NoError(t, err, "%s", what)
		w.row = next
		assert.Equal(t, got.Status, status, "%s: status", what)
		w.wantSame(got.Record, spy.now, what)
	case 4:
		req := storeapi.ExtendRequest{Key: w.key, Owner: w.holder(), Fence: w.fence(), Lease: min(w.span(), time.Hour), Works: w.rnd.IntN(3) == 0}
		if w.rnd.IntN(2) == 0 {
			req.Progress = &retrysafe.Answer{
				Codec: "progress", Size: int64(w.rnd.IntN(6)), Kept: w.rnd.IntN(2) == 0,
				Body: [][]byte{nil, {}, []byte("so far\x00\xff")}[w.rnd.IntN(3)], Digest: [32]byte{byte(w.rnd.IntN(2))},
			}
		}
		what = fmt.Sprintf("Extend %+v, progress %+v", req, req.Progress)
		err := s.Extend(ctx, req)
		w.forgetExpired(spy.now)
		next, wantErr := protocol.Extend(w.row, spy.now, &req)
		w.wantLost(err, wantErr, what)
		if wantErr == nil {
			w.row = next
		}
	case 5, 6:
		req := storeapi.CompleteRequest{Key: w.key, Owner: w.holder(), Fence: w.fence(), State: retrysafe.StateCompleted, Retention: w.maybeDuration()}
		if w.rnd.IntN(3) == 0 {
			req.State = retrysafe.StateFailed
		}
		req.Answer = []retrysafe.Answer{
			{Codec: "raw", Body: []byte("an answer\x00\xff"), Kept: true},
			{Codec: "json", Kept: true},
			{Codec: "raw", Body: []byte{}, Kept: true},
			{Codec: "message/http", Size: 7, Digest: [32]byte{1, 2}, Body: []byte("head")},
			{Codec: "raw", Size: 1 << 40},
		}[w.rnd.IntN(5)]
		what = fmt.Sprintf("Complete %+v", req)
		rec, err := s.Complete(ctx, req)
		w.forgetExpired(spy.now)
		next, _, wantErr := protocol.Complete(w.row, spy.now, &req)
		w.wantLost(err, wantErr, what)
		if wantErr == nil {
			w.row = next
			w.wantSame(rec, spy.now, what)
		}
	case 7:
		req := storeapi.ReleaseRequest{
			Key: w.key, Owner: w.holder(), Fence: w.fence(), Retention: w.maybeDuration(), InDoubt: w.rnd.IntN(2) == 0, Cause: "a cause", LastError: "what it said: é",
		}
		what = fmt.Sprintf("Release %+v", req)
		err := s.Release(ctx, req)
		w.forgetExpired(spy.now)
		next, _, wantErr := protocol.Release(w.row, spy.now, &req)
		w.wantLost(err, wantErr, what)
		if wantErr == nil {
			w.row = next
		}
	case 8:
		if w.rnd.IntN(3) > 0 {
			what = "Lookup"
			rec, err := s.Lookup(ctx, w.key)
			assert.NoError(t, err, "Lookup")
			w.forgetExpired(spy.now)
			w.wantSame(rec, spy.now, what)
			break
		}
		req := storeapi.IssueRequest{Key: w.key, Owner: w.owner(), Retention: w.span()}
		what = fmt.Sprintf("Issue %+v", req)
		issuer, _ := s.(storeapi.Issuer)
		status, err := issuer.Issue(ctx, req)
		assert.NoError(t, err, "%s", what)
		w.forgetExpired(spy.now)
		next, wantStatus, _ := protocol.Issue(w.row, spy.now, &req)
		assert.Equal(t, status, wantStatus, "%s: status", what)
		w.row = next
	case 9:
		req := storeapi.ForgetRequest{Key: w.key, Fence: w.fence()}
		what = fmt.Sprintf("ForgetAnswer %+v", req)
		forgetter, _ := s.(storeapi.Forgetter)
		err := forgetter.ForgetAnswer(ctx, req)
		w.forgetExpired(spy.now)
		next, _, wantErr := protocol.Forget(w.row, spy.now, &req)
		assert.True(t, wantErr == nil && err == nil || wantErr != nil && errors.Is(err, wantErr), "%s: got %v, want %v", what, err, wantErr)
		if wantErr == nil {
			w.row = next
		}
	}
	return what
}

// forgetExpired treats an expired record as absent, whether or not the server has removed it. Its
// fence is below the clock.
func (w *modelWalk) forgetExpired(now protocol.Micros) {
	if w.row.State != 0 && w.row.Expired(now) {
		w.old, w.row = w.row.Fence, protocol.Row{}
	}
}

func (w *modelWalk) holder() storeapi.Owner {
	if w.rnd.IntN(5) == 0 {
		return w.owner()
	}
	return w.row.Owner
}

func (w *modelWalk) maybeDuration() time.Duration {
	if w.rnd.IntN(2) == 0 {
		return 0
	}
	return w.span()
}

func (w *modelWalk) wantLost(err, want error, what string) {
	assert.Equal(w.t, errors.Is(err, retrysafe.ErrLeaseLost), want != nil, "%s: lease lost (%v)", what, err)
	if want == nil {
		assert.NoError(w.t, err, "%s", what)
	}
}

func (w *modelWalk) wantSame(rec retrysafe.Record, now protocol.Micros, what string) {
	want := w.row.Record(w.key, now)
	assert.Equal(w.t, fmt.Sprintf("%+v", rec), fmt.Sprintf("%+v", want), "%s: the record", what)
}
