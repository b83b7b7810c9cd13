package retrysafe_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

type callName struct{}

// named is a trace that names each call by its number, and collects how the calls ended. The calls
// of a batch report concurrently.
func named(done *[]retrysafe.CallDone, begun *int) *retrysafe.Trace {
	var mu sync.Mutex
	n := 0
	return &retrysafe.Trace{
		Call: func(ctx context.Context, _ retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
			mu.Lock()
			defer mu.Unlock()
			n++
			return context.WithValue(ctx, callName{}, strings.Repeat("x", n)), func(d retrysafe.CallDone) {
				mu.Lock()
				defer mu.Unlock()
				*done = append(*done, d)
			}
		},
		Begun: func(ctx context.Context) {
			mu.Lock()
			defer mu.Unlock()
			if ctx.Value(callName{}) != nil {
				*begun++
			}
		},
		Origin: func(ctx context.Context) string {
			name, _ := ctx.Value(callName{}).(string)
			return "call-" + name
		},
	}
}

// TestOrigin: each duplicate of finished work reports the call that made the answer, and gets the
// answer as it was.
func TestOrigin(t *testing.T) {
	t.Parallel()
	var done []retrysafe.CallDone
	var begun int
	s := newStore()
	e := engineWith(t, s, &retrysafe.Options{Sweep: -1, Trace: named(&done, &begun)})
	last := func() retrysafe.CallDone { return done[len(done)-1] }
	work := func(context.Context) (string, error) { return "tea", nil }

	first, err := retrysafe.Do(ctx, e, charge, work)
	assert.NoError(t, err, "first")
	assert.Equal(t, last().Origin, "", "the first call has no origin")
	assert.Equal(t, last().Fence, first.Fence, "its fence")
	again, err := retrysafe.Do(ctx, e, charge, work)
	assert.NoError(t, err, "duplicate")
	assert.Equal(t, again.Value, "tea", "its answer")
	assert.Equal(t, last().Origin, "call-x", "origin of the duplicate")
	assert.Equal(t, last().Fence, first.Fence, "fence of the duplicate")
	assert.True(t, ptr(last()).Duplicate(), "it is a duplicate")
	_, err = retrysafe.Do(ctx, e, charge, work, retrysafe.WithPolicy(retrysafe.Policy{Duplicate: retrysafe.Reject}))
	assert.ErrorIs(t, err, retrysafe.ErrDuplicate, "rejected")
	assert.Equal(t, last().Origin, "call-x", "origin of one that was rejected")
	_, rec, err := e.Begin(ctx, charge)
	assert.NoError(t, err, "begin")
	assert.Equal(t, rec.Answer.Codec, "json", "codec")
	assert.Equal(t, last().Origin, "call-x", "origin through Begin")
	for _, b := range e.BeginBatch(ctx, []retrysafe.Key{charge, {Operation: "charge", ID: "other"}}) {
		if b.Record != nil {
			assert.Equal(t, b.Record.Answer.Codec, "json", "codec in a batch")
		} else {
			assert.NoError(t, b.Attempt.Fail(ctx, &retrysafe.Failure{Code: "no"}), "fail")
		}
	}
	assert.Equal(t, lookup(t, e, charge).Answer.Codec, "json", "codec of a look")
	stored, err := s.Lookup(ctx, storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: charge})
	assert.NoError(t, err, "look at the store")
	assert.Equal(t, stored.Answer.Codec, "json;span=call-x", "as it is stored")

	_, err = retrysafe.Do(ctx, e, retrysafe.Key{Operation: "charge", ID: "other"}, work, retrysafe.WithPolicy(retrysafe.Policy{Duplicate: retrysafe.Reject}))
	assert.ErrorIs(t, err, retrysafe.ErrFailedBefore, "refused before")
	f, err := retrysafe.FailureOf(lookup(t, e, retrysafe.Key{Operation: "charge", ID: "other"}).Answer)
	assert.NoError(t, err, "its refusal")
	assert.Equal(t, f.Code, "no", "the refusal's code")
	assert.Equal(t, begun, 2, "works that began")
}

// foundTx has committed a call for each key before.
type foundTx struct{}

func (foundTx) RunTx(_ context.Context, r storeapi.TxRequest, _ func(context.Context, int) (retrysafe.State, retrysafe.Answer, error)) (retrysafe.Record, error) {
	answer := retrysafe.Answer{Codec: "json;span=call-z", Body: []byte("7"), Kept: true}
	return retrysafe.Record{Key: r.Key, Owner: storeapi.Owner{1}, State: retrysafe.StateCompleted, Answer: answer, Attempt: 3, Fence: 9}, nil
}

// TestOriginOfTransactions: only a duplicate of a transaction has an origin.
func TestOriginOfTransactions(t *testing.T) {
	t.Parallel()
	var done []retrysafe.CallDone
	var begun int
	e := engineWith(t, newStore(), &retrysafe.Options{Sweep: -1, Trace: named(&done, &begun)})
	work := func(context.Context, int) (int, error) { return 7, nil }
	_, err := retrysafe.DoTx(ctx, e, noTx{}, charge, work)
	assert.NoError(t, err, "first")
	res, err := retrysafe.DoTx(ctx, e, foundTx{}, charge, work)
	assert.NoError(t, err, "duplicate")
	assert.Equal(t, res.Value, 7, "its answer")
	assert.Equal(t, done[0].Origin, "", "origin of the first")
	assert.Equal(t, done[0].Fence, 7, "fence of the first")
	assert.Equal(t, done[1].Origin, "call-z", "origin of the duplicate")
	assert.Equal(t, done[1].Fence, 9, "fence of the duplicate")
	assert.Equal(t, begun, 1, "works that began")
}

// TestOriginThatCannotBeStored: a text that a store could not keep with a codec is left out.
func TestOriginThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "with space", "two;parts", "ünder", strings.Repeat("x", retrysafe.MaxOrigin+1)} {
		var last retrysafe.CallDone
		e := engineWith(t, newStore(), &retrysafe.Options{Sweep: -1, Trace: &retrysafe.Trace{
			Call: func(ctx context.Context, _ retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
				return ctx, func(d retrysafe.CallDone) { last = d }
			},
			Origin: func(context.Context) string { return bad },
		}})
		for range 2 {
			v, err := retrysafe.Do(ctx, e, charge, func(context.Context) (int, error) { return 7, nil })
			assert.NoError(t, err, "call")
			assert.Equal(t, v.Value, 7, "answer")
		}
		assert.Equal(t, last.Outcome, "replayed", "outcome")
		assert.Equal(t, last.Origin, "", "origin %q", bad)
	}
}

// TestJoinTraces: every trace sees every event, and the contexts of all reach the work.
func TestJoinTraces(t *testing.T) {
	t.Parallel()
	var one, two []retrysafe.CallDone
	var begun, doubts, ops int
	joined := retrysafe.JoinTraces(nil, named(&one, &begun), &retrysafe.Trace{
		Call: func(ctx context.Context, _ retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
			return context.WithValue(ctx, t, "second"), func(d retrysafe.CallDone) { two = append(two, d) }
		},
		Store:   func(context.Context, retrysafe.StoreInfo) func(error) { return func(error) { ops++ } },
		InDoubt: func(context.Context, retrysafe.AttemptInfo) { doubts++ },
	})
	assert.True(t, joined.Lost == nil && joined.Unconfirmed == nil && joined.Lapse == nil, "what no trace has")
	e := engineWith(t, newStore(), &retrysafe.Options{Sweep: -1, Trace: joined})
	_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (int, error) {
		assert.Equal(t, ctx.Value(callName{}), any("x"), "value of the first trace")
		assert.Equal(t, ctx.Value(t), any("second"), "value of the second trace")
		return 0, errWork
	})
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "call")
	assert.Equal(t, len(one), 1, "ends of the first trace")
	assert.Equal(t, len(two), 1, "ends of the second trace")
	assert.Equal(t, doubts, 1, "doubts")
	assert.Equal(t, begun, 1, "works that began")
	assert.True(t, ops >= 2, "store calls: %d", ops)
}

func ptr[T any](v T) *T { return &v }
