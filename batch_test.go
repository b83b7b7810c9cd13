package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// batching is a store that is a Batcher, and loses the replies of some calls.
type batching struct {
	*memstore.Store
	acquires, completes, singles atomic.Int64
	lose                         func(storeapi.StoreKey) bool // nil: none
	unsupported                  bool
}

var errReply = errors.New("the reply was lost")

func (s *batching) Acquire(ctx context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	s.singles.Add(1)
	return s.Store.Acquire(ctx, r)
}

func (s *batching) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	if s.unsupported {
		return nil, errors.ErrUnsupported
	}
	s.acquires.Add(1)
	out := make([]storeapi.BatchResult[storeapi.Acquired], len(reqs))
	for i, r := range reqs {
		out[i].Value, out[i].Err = s.Store.Acquire(ctx, r)
		if s.lose != nil && s.lose(r.Key) {
			out[i] = storeapi.BatchResult[storeapi.Acquired]{Err: errReply}
		}
	}
	return out, nil
}

func (s *batching) ExtendBatch(context.Context, []storeapi.ExtendRequest) ([]error, error) {
	return nil, errors.ErrUnsupported
}

func (s *batching) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[retrysafe.Record], error) {
	if s.unsupported {
		return nil, errors.ErrUnsupported
	}
	s.completes.Add(1)
	out := make([]storeapi.BatchResult[retrysafe.Record], len(reqs))
	for i, r := range reqs {
		out[i].Value, out[i].Err = s.Store.Complete(ctx, r)
		if s.lose != nil && s.lose(r.Key) {
			out[i].Err = errReply
		}
	}
	return out, nil
}

func (s *batching) ReleaseBatch(context.Context, []storeapi.ReleaseRequest) ([]error, error) {
	return nil, errors.ErrUnsupported
}

func batchKeys(n int) (keys []retrysafe.Key) {
	for i := range n {
		keys = append(keys, retrysafe.Key{Operation: "mail", ID: fmt.Sprint(i)})
	}
	return keys
}

var answered = retrysafe.Answer{Codec: "json", Body: []byte(`"sent"`), Kept: true}

// Every key of a batch gets the result that Begin alone would return, whether or not the store is a
// Batcher.
func TestBatchIsAsSingleCalls(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]storeapi.Store{
		"no batches": newStore(), "batches": &batching{Store: newStore()}, "batches refused": &batching{Store: newStore(), unsupported: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engineOn(t, s, retrysafe.Policy{})
			keys := batchKeys(5)
			done, _, err := e.Begin(ctx, keys[1])
			assert.NoError(t, err, "begin")
			assert.NoError(t, done.Complete(ctx, answered), "complete")
			running, _, err := e.Begin(ctx, keys[2])
			assert.NoError(t, err, "begin")
			keys = append(keys, retrysafe.Key{Operation: "mail"}, keys[4])

			begun := e.BeginBatch(ctx, keys)
			assert.True(t, begun[0].Attempt != nil && begun[3].Attempt != nil, "new keys are won")
			assert.Equal(t, string(begun[1].Record.Answer.Body), `"sent"`, "answer of the one that is done")
			assert.ErrorIs(t, begun[2].Err, retrysafe.ErrInProgress, "the one that runs")
			assert.ErrorIs(t, begun[5].Err, retrysafe.ErrInvalidKey, "the one without an id")
			assert.True(t, (begun[4].Attempt != nil) != (begun[6].Attempt != nil), "of two equal keys one is won")
			assert.ErrorIs(t, errors.Join(begun[4].Err, begun[6].Err), retrysafe.ErrInProgress, "the other one")

			last := begun[4].Attempt
			if last == nil {
				last = begun[6].Attempt
			}
			assert.NoError(t, last.Release(ctx, nil), "release")
			errs := e.CompleteBatch(ctx, []*retrysafe.Attempt{begun[0].Attempt, last, begun[3].Attempt}, []retrysafe.Answer{answered, answered, answered})
			assert.NoError(t, errs[0], "complete")
			assert.ErrorIs(t, errs[1], retrysafe.ErrEnded, "complete of one that was released")
			assert.NoError(t, errs[2], "complete")
			assert.Equal(t, lookup(t, e, keys[3]).State, retrysafe.StateCompleted, "state")
			assert.Equal(t, lookup(t, e, keys[4]).State, retrysafe.StateReleased, "state")
			assert.NoError(t, running.Release(ctx, nil), "release")
			assert.NoError(t, e.Shutdown(ctx), "nothing is left over")
		})
	}
}

// A hundred keys cost two calls of a store that is a Batcher.
func TestBatchCalls(t *testing.T) {
	t.Parallel()
	s := &batching{Store: newStore()}
	e := engineOn(t, s, retrysafe.Policy{})
	attempts, answers := make([]*retrysafe.Attempt, 100), make([]retrysafe.Answer, 100)
	for i, b := range e.BeginBatch(ctx, batchKeys(100)) {
		assert.NoError(t, b.Err, "begin")
		attempts[i], answers[i] = b.Attempt, answered
	}
	assert.NoError(t, errors.Join(e.CompleteBatch(ctx, attempts, answers)...), "complete")
	assert.Equal(t, [3]int64{s.acquires.Load(), s.completes.Load(), s.singles.Load()}, [3]int64{1, 1, 0}, "batches and single calls")
}

// A claim whose reply was lost gets an error and is given back. An answer whose confirmation was
// lost is sent again.
func TestBatchLostReplies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var losing atomic.Bool
		losing.Store(true)
		s := &batching{Store: newStore(), lose: func(k storeapi.StoreKey) bool { return losing.Load() && k.ID == "1" }}
		e := engineOn(t, s, retrysafe.Policy{})
		begun := e.BeginBatch(ctx, batchKeys(3))
		assert.ErrorIs(t, begun[1].Err, retrysafe.ErrUnavailable, "the lost one")
		assert.True(t, begun[0].Attempt != nil && begun[2].Attempt != nil, "the others are won")
		assert.Equal(t, lookup(t, e, batchKeys(3)[1]).State, retrysafe.StateInProgress, "state of the lost one")
		time.Sleep(10 * time.Second)
		assert.Equal(t, lookup(t, e, batchKeys(3)[1]).State, retrysafe.StateReleased, "state of the lost one, later")

		losing.Store(false)
		again := e.BeginBatch(ctx, batchKeys(3)[1:2])
		assert.NoError(t, again[0].Err, "begin again")
		losing.Store(true)
		errs := e.CompleteBatch(ctx, []*retrysafe.Attempt{begun[0].Attempt, again[0].Attempt}, []retrysafe.Answer{answered, answered})
		assert.NoError(t, errors.Join(errs...), "complete, the lost one by a repeat")
		assert.NoError(t, begun[2].Attempt.Release(ctx, nil), "release")
		assert.NoError(t, e.Shutdown(ctx), "nothing is left over")
	})
}

// Tries start again when a record is reopened; attempt numbers go on.
func TestReopen(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{OnDoubt: retrysafe.Reexecute})
	var tries []int
	attempt := func(end func(*retrysafe.Attempt) error) {
		t.Helper()
		a, _, err := e.Begin(ctx, charge)
		assert.NoError(t, err, "begin")
		tries = append(tries, a.Tries())
		assert.NoError(t, end(a), "end")
	}
	release := func(a *retrysafe.Attempt) error { return a.Release(ctx, errWork) }
	attempt(release)
	attempt(func(a *retrysafe.Attempt) error {
		return a.Fail(ctx, &retrysafe.Failure{Code: "tries", Message: "used up"})
	})
	reopen := func() {
		t.Helper()
		rec := lookup(t, e, charge)
		assert.NoError(t, e.Resolve(ctx, charge, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone, Reopen: true, By: "test"}), "reopen")
	}
	reopen()
	attempt(release)
	attempt(release)
	reopen() // also one that was released, and one that was reopened before
	reopen()
	attempt(release)
	attempt(func(a *retrysafe.Attempt) error { return a.Complete(ctx, answered) })
	assert.Equal(t, tries, []int{1, 2, 1, 2, 1, 2}, "tries")
	assert.Equal(t, lookup(t, e, charge).Attempt, 9, "attempts, the three that reopened included")

	err := e.Resolve(ctx, charge, retrysafe.Resolution{Fence: 1, Outcome: retrysafe.Done, Reopen: true})
	assert.Contains(t, err.Error(), "Reopen goes with NotDone", "error")
	err = e.Resolve(ctx, charge, retrysafe.Resolution{Fence: lookup(t, e, charge).Fence, Outcome: retrysafe.NotDone, Reopen: true})
	assert.ErrorIs(t, err, retrysafe.ErrDuplicate, "reopen of what is completed")
}

// Steps that an earlier attempt has done stay done in a record that was reopened.
func TestReopenKeepsSteps(t *testing.T) {
	t.Parallel()
	e, steps := engineOn(t, newStore(), retrysafe.Policy{OnDoubt: retrysafe.Reexecute}), new(counter)
	work := func(fail error) error {
		_, err := retrysafe.Run(ctx, e, charge, func(ctx context.Context) error {
			if _, err := retrysafe.Step(ctx, "pay", steps.work); err != nil {
				return err
			}
			return fail
		})
		return err
	}
	assert.ErrorIs(t, work(errWork), errWork, "first call")
	rec := lookup(t, e, charge)
	assert.NoError(t, e.Resolve(ctx, charge, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone, Reopen: true}), "reopen")
	rec = lookup(t, e, charge)
	p, err := retrysafe.ProgressOf(&rec)
	assert.NoError(t, err, "progress")
	assert.Equal(t, p.Reopened, 2, "the attempt that reopened")
	assert.NoError(t, work(nil), "second call")
	steps.started(t, 1)
}

// TestBeginBatchOfEqualKeys: equal keys are requested once, and never wait for each other.
func TestBeginBatchOfEqualKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, s := range []storeapi.Store{newStore(), &batching{Store: memstore.New(nil)}} {
			e := engineOn(t, s, retrysafe.Policy{Wait: time.Hour})
			_, err := retrysafe.Do(ctx, e, numbered("ann", 5), new(counter).work)
			assert.NoError(t, err, "one that is done")
			began := time.Now()
			var keys []retrysafe.Key
			for range 3 {
				keys = append(keys, charge, numbered("ann", 5), retrysafe.Key{Operation: "no id"})
			}
			begun := e.BeginBatch(ctx, keys)
			assert.Equal(t, time.Since(began), time.Duration(0), "time that it took")
			for i, b := range begun {
				switch keys[i] {
				case charge:
					assert.True(t, (b.Attempt != nil) == (i == 0) && b.Record == nil && (i == 0 || errors.Is(b.Err, retrysafe.ErrInProgress)), "copy %d of a new key: %+v", i, b)
				case numbered("ann", 5):
					assert.True(t, b.Attempt == nil && b.Record != nil && b.Err == nil, "copy %d of a finished key: %+v", i, b)
				default:
					assert.ErrorIs(t, b.Err, retrysafe.ErrInvalidKey, "copy %d of a bad key", i)
				}
			}
			assert.NoError(t, begun[0].Attempt.Release(ctx, nil), "release")
		}
	})
}

// TestBeginBatchRecordsAreApart: a caller that changes its record changes no other one, also of an
// equal key.
func TestBeginBatchRecordsAreApart(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Codec: retrysafe.Raw, Sweep: -1})
	_, err := retrysafe.Do(ctx, e, charge, func(context.Context) ([]byte, error) { return []byte("first"), nil })
	assert.NoError(t, err, "the first call")
	other := charge
	other.ID = "other"
	_, err = retrysafe.Do(ctx, e, other, func(context.Context) ([]byte, error) { return []byte("first"), nil })
	assert.NoError(t, err, "a call of another key")
	for round := range 2 {
		for i, b := range e.BeginBatch(ctx, []retrysafe.Key{charge, charge, other, charge, other}) {
			assert.Equal(t, string(b.Record.Answer.Body), "first", "record %d in round %d", i, round)
			copy(b.Record.Answer.Body, "ZZZZZ")
		}
	}
}

// TestBeginBatchWithPanics: the caller can recover a panic of Reconcile, and no attempt is left
// unfinished.
func TestBeginBatchWithPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		crashed(t, s, retrysafe.Policy{Lease: time.Second})
		e := engineOn(t, s, retrysafe.Policy{Lease: time.Second, Reconcile: func(context.Context, retrysafe.Record) (retrysafe.Resolution, error) { panic("it is broken") }})
		time.Sleep(time.Minute)
		crash := func() (crash any) {
			defer func() { crash = recover() }()
			e.BeginBatch(ctx, []retrysafe.Key{numbered("ann", 5), charge, numbered("ann", 6)})
			return nil
		}()
		assert.Equal(t, crash, any("it is broken"), "what the caller recovers")
		for _, i := range []int{5, 6} {
			assert.Equal(t, lookup(t, e, numbered("ann", i)).State, retrysafe.StateReleased, "another key of the batch")
		}
		assert.True(t, func() bool { r := lookup(t, e, charge); return r.InDoubt() }(), "the key stays in doubt")
		assert.NoError(t, e.Shutdown(ctx), "nothing is left running")
	})
}
