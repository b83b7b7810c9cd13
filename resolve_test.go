package retrysafe_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// doubtful puts the key in doubt.
func doubtful(t *testing.T, e *retrysafe.Engine) retrysafe.Record {
	t.Helper()
	_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", errWork })
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "first call")
	return lookup(t, e, charge)
}

var found = retrysafe.Answer{Codec: "json", Body: []byte(`"found out"`), Kept: true}

func TestResolve(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		r      retrysafe.Resolution
		starts int64 // of the call that follows
		check  func(t *testing.T, res retrysafe.Result[string], err error)
	}{
		"done": {retrysafe.Resolution{Outcome: retrysafe.Done, Answer: found}, 0, func(t *testing.T, res retrysafe.Result[string], err error) {
			t.Helper()
			assert.NoError(t, err, "call")
			assert.Equal(t, res.Value, "found out", "value")
		}},
		"failed": {retrysafe.Resolution{Outcome: retrysafe.Failed, Failure: &retrysafe.Failure{Code: "no", Message: "not charged", Detail: []byte{0, 255}}}, 0, func(t *testing.T, _ retrysafe.Result[string], err error) {
			t.Helper()
			var f *retrysafe.Failure
			assert.True(t, errors.As(err, &f), "a failure: %v", err)
			assert.Equal(t, *f, retrysafe.Failure{Code: "no", Message: "not charged", Detail: []byte{0, 255}}, "failure")
		}},
		"not done": {retrysafe.Resolution{Outcome: retrysafe.NotDone}, 1, func(t *testing.T, res retrysafe.Result[string], err error) {
			t.Helper()
			assert.NoError(t, err, "call")
			assert.Equal(t, res.Attempt, 3, "the resolution was an attempt of its own")
		}},
		"still in doubt": {retrysafe.Resolution{Outcome: retrysafe.Doubtful}, 0, func(t *testing.T, _ retrysafe.Result[string], err error) {
			t.Helper()
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "call")
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, c := engineOn(t, newStore(), retrysafe.Policy{}), new(counter)
			tt.r.Fence, tt.r.By = doubtful(t, e).Fence, "ops"
			assert.NoError(t, e.Resolve(ctx, charge, tt.r), "resolve")
			res, err := retrysafe.Do(ctx, e, charge, c.work)
			tt.check(t, res, err)
			c.started(t, tt.starts)
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	done := retrysafe.Resolution{Fence: 1, Outcome: retrysafe.Done, Answer: found}
	assert.ErrorIs(t, e.Resolve(ctx, charge, done), retrysafe.ErrNotFound, "an unknown key")
	rec := doubtful(t, e)
	assert.ErrorIs(t, e.Resolve(ctx, charge, done), retrysafe.ErrFenceChanged, "another fence")
	done.Fence = rec.Fence
	for name, r := range map[string]retrysafe.Resolution{
		"no fence":       {Outcome: retrysafe.Done},
		"no outcome":     {Fence: 1},
		"no failure":     {Fence: 1, Outcome: retrysafe.Failed},
		"a large answer": {Fence: 1, Outcome: retrysafe.Done, Answer: retrysafe.Answer{Body: make([]byte, retrysafe.MaxStored+1)}},
	} {
		assert.True(t, e.Resolve(ctx, charge, r) != nil, "%s is an error", name)
	}
	assert.True(t, func() bool { r := lookup(t, e, charge); return r.InDoubt() }(), "still in doubt")
	assert.NoError(t, e.Resolve(ctx, charge, done), "resolve")
	done.Fence = lookup(t, e, charge).Fence
	done.Answer.Body = []byte(`"another"`)
	assert.ErrorIs(t, e.Resolve(ctx, charge, done), retrysafe.ErrDuplicate, "a completed record stays what it is")
}

// TestResolveUnderALiveLease: only with Force, and then the holder's answer is refused.
func TestResolveUnderALiveLease(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	a, _, err := e.Begin(ctx, charge)
	assert.NoError(t, err, "begin")
	r := retrysafe.Resolution{Fence: a.Fence(), Outcome: retrysafe.Done, Answer: found}
	assert.ErrorIs(t, e.Resolve(ctx, charge, r), retrysafe.ErrInProgress, "under a live lease")
	r.Force = true
	assert.NoError(t, e.Resolve(ctx, charge, r), "forced")
	assert.ErrorIs(t, a.Complete(ctx, retrysafe.Answer{Codec: "json", Body: []byte(`"late"`), Kept: true}), retrysafe.ErrLeaseLost, "a late answer")
	res, err := retrysafe.Do(ctx, e, charge, new(counter).work)
	assert.NoError(t, err, "call")
	assert.Equal(t, res.Value, "found out", "one answer for one key")
}

// TestResolveWithLostReplies: each call of Resolve may be lost. It still succeeds, or returns an
// error.
func TestResolveWithLostReplies(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"acquire", "complete"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore()
				rec := doubtful(t, engineOn(t, s, retrysafe.Policy{}))
				e := engineOn(t, storetest.NewFaulty(s, only(op, storetest.LoseReply, 1, 1)), retrysafe.Policy{})
				assert.NoError(t, e.Resolve(ctx, charge, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.Done, Answer: found}), "resolve")
				assert.Equal(t, lookup(t, e, charge).State, retrysafe.StateCompleted, "state")
			})
		})
	}
}

// TestResolveUnanswered: if all replies to a resolution are lost, its claim is given back, and the
// record has the cause, the error and the time of the doubt.
func TestResolveUnanswered(t *testing.T) {
	t.Parallel()
	for cause, doubt := range map[string]func(*testing.T, storeapi.Store){
		"error": func(t *testing.T, s storeapi.Store) {
			t.Helper()
			doubtful(t, engineOn(t, s, retrysafe.Policy{}))
		},
		storeapi.CauseCrash: func(t *testing.T, s storeapi.Store) {
			t.Helper()
			key := storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: charge}
			_, err := s.Acquire(ctx, storeapi.AcquireRequest{Key: key, Owner: storeapi.Owner{1}, Lease: time.Second, Retention: time.Hour, OnDoubt: storeapi.Refuse})
			assert.NoError(t, err, "acquire")
			<-time.After(2 * time.Second)
		},
	} {
		t.Run(cause, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore()
				doubt(t, s)
				e := engineOn(t, storetest.NewFaulty(s, only("acquire", storetest.LoseReply, 1, 3)), retrysafe.Policy{})
				rec := lookup(t, e, charge)
				assert.Equal(t, cmp.Or(rec.Cause, storeapi.CauseCrash), cause, "cause of the doubt")
				err := e.Resolve(ctx, charge, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone})
				assert.ErrorIs(t, err, retrysafe.ErrUnconfirmed, "resolve")
				time.Sleep(time.Minute)
				after := lookup(t, e, charge)
				assert.True(t, after.InDoubt() && after.Fence > rec.Fence, "it is in doubt again: %v", after)
				assert.Equal(t, after.Cause, cause, "cause")
				assert.Equal(t, after.LastError, rec.LastError, "error")
				assert.Equal(t, after.DoubtSince, rec.DoubtSince, "when the doubt began")
			})
		})
	}
}

// TestDoubtsStay: under Refuse only an operator ends a doubt. Under Reexecute it ends with the
// retention.
func TestDoubtsStay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		e := engineWith(t, s, &retrysafe.Options{})
		_, _ = retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", errWork })
		k2 := retrysafe.Key{Operation: "mail", ID: "1"}
		_, _ = retrysafe.Do(ctx, e, k2, func(context.Context) (string, error) { return "", retrysafe.InDoubt(errWork) },
			retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute}))
		assert.Equal(t, s.Len(), 2, "records")
		time.Sleep(30 * 24 * time.Hour)
		assert.Equal(t, s.Len(), 1, "the sweeper has taken one")
		rec := lookup(t, e, charge)
		assert.True(t, rec.InDoubt(), "and left the other in doubt")
	})
}
