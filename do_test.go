package retrysafe_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestDoRunsOnceAndReplays(t *testing.T) {
	t.Parallel()
	e, c := engineOn(t, newStore(), retrysafe.Policy{}), new(counter)
	first, err := retrysafe.Do(ctx, e, charge, c.work)
	assert.NoError(t, err, "first")
	again, err := retrysafe.Do(ctx, e, charge, c.work)
	assert.NoError(t, err, "again")
	c.started(t, 1)
	assert.Equal(t, first.Value, "receipt", "first value")
	assert.True(t, !first.Replayed && first.Stored && first.Attempt == 1 && first.Fence > 0, "first result: %+v", first)
	assert.Equal(t, again, retrysafe.Result[string]{Value: "receipt", Replayed: true, Stored: true, Attempt: 1, Fence: first.Fence}, "replay")
}

func TestEndings(t *testing.T) {
	t.Parallel()
	mark := func(f func(error) error) func() error { return func() error { return f(errWork) } }
	permanent := func(err error) error { return retrysafe.Permanent("declined", err) }
	tests := map[string]struct {
		onDoubt retrysafe.OnDoubt
		err     func() error
		state   retrysafe.State
		starts  int64 // after a second call
		second  error // of the second call; nil: it ran again and succeeded
	}{
		"refuse, any error":          {retrysafe.Refuse, mark(func(e error) error { return e }), retrysafe.StateInProgress, 1, retrysafe.ErrInDoubt},
		"refuse, nothing done":       {retrysafe.Refuse, mark(retrysafe.NothingDone), retrysafe.StateReleased, 2, nil},
		"refuse, in doubt":           {retrysafe.Refuse, mark(retrysafe.InDoubt), retrysafe.StateInProgress, 1, retrysafe.ErrInDoubt},
		"refuse, permanent":          {retrysafe.Refuse, mark(permanent), retrysafe.StateFailed, 1, errDeclined},
		"refuse, panic":              {retrysafe.Refuse, func() error { panic("broken") }, retrysafe.StateInProgress, 1, retrysafe.ErrInDoubt},
		"refuse, goexit":             {retrysafe.Refuse, func() error { runtime.Goexit(); return nil }, retrysafe.StateInProgress, 1, retrysafe.ErrInDoubt},
		"reexecute, any error":       {retrysafe.Reexecute, mark(func(e error) error { return e }), retrysafe.StateReleased, 2, nil},
		"reexecute, in doubt":        {retrysafe.Reexecute, mark(retrysafe.InDoubt), retrysafe.StateInProgress, 2, nil},
		"reexecute, permanent":       {retrysafe.Reexecute, mark(permanent), retrysafe.StateFailed, 1, errDeclined},
		"reexecute, panic":           {retrysafe.Reexecute, func() error { panic("broken") }, retrysafe.StateReleased, 2, nil},
		"reexecute, goexit":          {retrysafe.Reexecute, func() error { runtime.Goexit(); return nil }, retrysafe.StateReleased, 2, nil},
		"refuse, joined with a mark": {retrysafe.Refuse, func() error { return errors.Join(errWork, retrysafe.NothingDone(errWork)) }, retrysafe.StateInProgress, 1, retrysafe.ErrInDoubt},
		"refuse, joined marks":       {retrysafe.Refuse, func() error { return errors.Join(retrysafe.NothingDone(errWork), retrysafe.NothingDone(errWork)) }, retrysafe.StateReleased, 2, nil},
		"reexecute, joined, refused": {retrysafe.Reexecute, func() error { return errors.Join(context.DeadlineExceeded, permanent(errWork)) }, retrysafe.StateFailed, 1, errDeclined},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, c := engineOn(t, newStore(), retrysafe.Policy{OnDoubt: tt.onDoubt}), new(counter)
			_ = apart(func() error {
				_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) {
					c.n.Add(1)
					return "", tt.err()
				})
				return err
			})
			assert.Equal(t, lookup(t, e, charge).State, tt.state, "state after the first call")
			res, err := retrysafe.Do(ctx, e, charge, c.work)
			c.started(t, tt.starts)
			switch {
			case tt.second == errDeclined: //nolint:errorlint // a marker of this table
				var f *retrysafe.Failure
				assert.True(t, errors.As(err, &f), "a kept failure: %v", err)
				assert.Equal(t, f.Code+": "+f.Message, "declined: "+errWork.Error(), "failure")
			case tt.second != nil:
				assert.ErrorIs(t, err, tt.second, "second call")
			default:
				assert.NoError(t, err, "second call")
				assert.Equal(t, res.Attempt, 2, "attempt")
			}
		})
	}
}

var errDeclined = errors.New("declined")

// apart runs f in a goroutine of its own, where it may panic or call Goexit.
func apart(f func() error) (err error) {
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = recover() }()
		err = f()
	})
	wg.Wait()
	return err
}

func TestThePanicGoesOnUp(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	defer func() { assert.Equal(t, recover(), any("broken"), "what was recovered") }()
	_, _ = retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { panic("broken") })
}

func TestFirstCallerIsToldOfDoubt(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", errWork })
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "first caller")
	assert.ErrorIs(t, err, errWork, "first caller")
	rec := lookup(t, e, charge)
	assert.True(t, rec.InDoubt(), "the record is in doubt at once, not only after the lease")
	assert.Equal(t, rec.Cause, "error", "cause")
	assert.Equal(t, rec.LastError, errWork.Error(), "last error, for operators")
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		outcome retrysafe.Outcome
		state   retrysafe.State
	}{
		"done":     {retrysafe.Done, retrysafe.StateCompleted},
		"not done": {retrysafe.NotDone, retrysafe.StateReleased},
		"failed":   {retrysafe.Failed, retrysafe.StateFailed},
		"doubtful": {retrysafe.Doubtful, retrysafe.StateInProgress},
		"default":  {0, retrysafe.StateInProgress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engineOn(t, newStore(), retrysafe.Policy{Classify: func(error) retrysafe.Outcome { return tt.outcome }})
			_, _ = retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "v", errWork })
			assert.Equal(t, lookup(t, e, charge).State, tt.state, "state")
		})
	}
	t.Run("marks are not asked about", func(t *testing.T) {
		t.Parallel()
		e := engineOn(t, newStore(), retrysafe.Policy{Classify: func(error) retrysafe.Outcome { return retrysafe.NotDone }})
		_, _ = retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", retrysafe.Permanent("no", errWork) })
		assert.Equal(t, lookup(t, e, charge).State, retrysafe.StateFailed, "state")
	})
}

func TestDuplicatePolicies(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		d     retrysafe.Duplicate
		value string
		err   error
	}{
		"replay":  {retrysafe.Replay, "receipt", nil},
		"reject":  {retrysafe.Reject, "", retrysafe.ErrDuplicate},
		"succeed": {retrysafe.Succeed, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, c := engineOn(t, newStore(), retrysafe.Policy{Duplicate: tt.d}), new(counter)
			_, err := retrysafe.Do(ctx, e, charge, c.work)
			assert.NoError(t, err, "first")
			res, err := retrysafe.Do(ctx, e, charge, c.work)
			assert.True(t, errors.Is(err, tt.err), "second: %v", err)
			assert.Equal(t, res.Value, tt.value, "value")
			assert.Equal(t, res.Replayed, tt.err == nil, "replayed")
			c.started(t, 1)
		})
	}
}

func TestPayloadAndBinding(t *testing.T) {
	t.Parallel()
	e, c := engineOn(t, newStore(), retrysafe.Policy{}), new(counter)
	call := func(payload any, credential string) error {
		_, err := retrysafe.Do(ctx, e, charge, c.work, retrysafe.WithPayload(payload), retrysafe.WithBinding([]byte(credential)))
		return err
	}
	type order struct{ Cents int }
	assert.NoError(t, call(order{100}, "token-1"), "first")
	assert.NoError(t, call(order{100}, "token-1"), "repeat")
	assert.ErrorIs(t, call(order{900}, "token-1"), retrysafe.ErrFingerprintMismatch, "other payload")
	assert.ErrorIs(t, call(order{100}, "token-2"), retrysafe.ErrPrincipalChanged, "other credential")
	assert.ErrorIs(t, call(order{900}, "token-2"), retrysafe.ErrPrincipalChanged, "both: the credential is told first")
	assert.True(t, call(func() {}, "token-1") != nil, "a payload without a JSON form is an error")
	c.started(t, 1)
	rec := lookup(t, e, charge)
	assert.True(t, !bytes.Contains(rec.Binding, []byte("token")) && len(rec.Binding) == 32, "only a digest of the credential is kept")
}

func TestLargeAnswersAreNotKeptAndNeverRunAgain(t *testing.T) {
	t.Parallel()
	e, c := engineOn(t, newStore(), retrysafe.Policy{MaxAnswer: 10}), new(counter)
	work := func(context.Context) (string, error) { c.n.Add(1); return strings.Repeat("x", 100), nil }
	res, err := retrysafe.Do(ctx, e, charge, work)
	assert.NoError(t, err, "first")
	assert.Equal(t, len(res.Value), 100, "the first caller gets it whole")
	_, err = retrysafe.Do(ctx, e, charge, work)
	assert.ErrorIs(t, err, retrysafe.ErrAnswerNotKept, "repeat")
	c.started(t, 1)
	rec := lookup(t, e, charge)
	assert.Equal(t, rec.Answer.Size, int64(102), "size of the JSON form")
}

func TestAnswerWithoutForm(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	starts := 0
	work := func(context.Context) (float64, error) { starts++; return math.Inf(1), nil }
	res, err := retrysafe.Do(ctx, e, charge, work)
	assert.True(t, err != nil && strings.Contains(err.Error(), "cannot be kept"), "the first caller is told: %v", err)
	assert.True(t, math.IsInf(res.Value, 1) && res.Stored, "and has the value")
	_, err = retrysafe.Do(ctx, e, charge, work)
	assert.ErrorIs(t, err, retrysafe.ErrAnswerNotKept, "repeat")
	assert.Equal(t, starts, 1, "starts")
}

func TestAnotherTypeDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	e, c := engineOn(t, newStore(), retrysafe.Policy{}), new(counter)
	_, err := retrysafe.Do(ctx, e, charge, c.work)
	assert.NoError(t, err, "first")
	_, err = retrysafe.Do(ctx, e, charge, func(context.Context) (int, error) { c.n.Add(1); return 1, nil })
	assert.True(t, err != nil && !strings.Contains(err.Error(), "receipt"), "an error that does not show the answer: %v", err)
	c.started(t, 1)
}

func TestRawCodec(t *testing.T) {
	t.Parallel()
	e := engineWith(t, newStore(), &retrysafe.Options{Codec: retrysafe.Raw})
	for i, want := range [][]byte{{}, {0, 1, 255}} {
		k := retrysafe.Key{Operation: "raw", ID: string(rune('a' + i))}
		for range 2 {
			res, err := retrysafe.Do(ctx, e, k, func(context.Context) ([]byte, error) { return want, nil })
			assert.NoError(t, err, "call")
			assert.Equal(t, res.Value, want, "value")
			res.Value = append(res.Value, 'x') // must not change what is stored
		}
	}
}

func TestRunAndOperation(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	starts := 0
	for i := range 2 {
		replayed, err := retrysafe.Run(ctx, e, charge, func(context.Context) error { starts++; return nil })
		assert.NoError(t, err, "run")
		assert.Equal(t, replayed, i == 1, "replayed")
	}
	type in struct{ Cents int }
	op := retrysafe.NewOperation(e, "pay", func(_ context.Context, i in) (int, error) { starts++; return i.Cents * 2, nil }, nil)
	for range 2 {
		res, err := op.Do(ctx, "ann", "k", in{21})
		assert.NoError(t, err, "operation")
		assert.Equal(t, res.Value, 42, "value")
	}
	_, err := op.Do(ctx, "ann", "k", in{22})
	assert.ErrorIs(t, err, retrysafe.ErrFingerprintMismatch, "the input is the fingerprint")
	res, err := op.Do(ctx, "bob", "k", in{22})
	assert.NoError(t, err, "another tenant has keys of its own")
	assert.Equal(t, res.Value, 44, "value")
	assert.Equal(t, starts, 3, "starts")
}

func TestLayersAndNamespacesNeverMeet(t *testing.T) {
	t.Parallel()
	s, c := newStore(), new(counter)
	for _, e := range []*retrysafe.Engine{
		engineOn(t, s, retrysafe.Policy{}),
		engineOn(t, s, retrysafe.Policy{}).Layer("gw"),
		engineWith(t, s, &retrysafe.Options{Namespace: "other"}),
	} {
		_, err := retrysafe.Do(ctx, e, charge, c.work)
		assert.NoError(t, err, "call")
	}
	c.started(t, 3)
}

func TestBadCalls(t *testing.T) {
	t.Parallel()
	e, c := engineOn(t, newStore(), retrysafe.Policy{}), new(counter)
	for name, k := range map[string]retrysafe.Key{
		"no operation": {ID: "x"},
		"no id":        {Operation: "x"},
		"long id":      {Operation: "x", ID: strings.Repeat("x", 513)},
		"long tenant":  {Tenant: strings.Repeat("x", 513), Operation: "x", ID: "x"},
	} {
		_, err := retrysafe.Do(ctx, e, k, c.work)
		assert.ErrorIs(t, err, retrysafe.ErrInvalidKey, "%s", name)
	}
	_, err := retrysafe.Do(ctx, e, charge, c.work, retrysafe.WithPolicy(retrysafe.Policy{Lease: 1}))
	assert.True(t, err != nil, "a policy that makes no sense is an error of the call")
	_, err = retrysafe.Do(ctx, e, charge, c.work, retrysafe.WithFingerprint(make([]byte, 255)))
	assert.True(t, err != nil, "a fingerprint that is too long is an error of the call")
	c.started(t, 0)
}
