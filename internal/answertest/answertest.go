// Package answertest holds for many Go values that a duplicate gets the answer that the first
// caller got: the same value, or for both an error that says why there is none.
package answertest

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// testable is a value[T] of any T.
type testable interface {
	String() string
	codec() retrysafe.Codec
	testDo(s *suite)
	testOperation(s *suite)
	testStep(s *suite)
	testTx(s *suite, db storeapi.TxStore[any])
	testStepTx(s *suite, db storeapi.StepStore[any])
}

// suite is one value on one store.
type suite struct {
	*testing.T
	e    *retrysafe.Engine
	id   string
	runs int
}

func (s *suite) keyOf(operation string) retrysafe.Key {
	return retrysafe.Key{Tenant: "values", Operation: operation, ID: s.id}
}

// Run calls Do, an operation, and Step with every value, and Do with refusals. The store is new, or
// has a namespace of its own.
func Run(t *testing.T, store storeapi.Store) {
	t.Helper()
	eachValue(t, store, func(s *suite, v testable) {
		v.testDo(s)
		v.testOperation(s)
		v.testStep(s)
	})
	for name, f := range oddFailures() {
		t.Run("refusal/"+name, func(t *testing.T) {
			testRefusals(&suite{T: t, e: newEngine(t, store, retrysafe.JSON), id: rand.Text()}, f)
		})
	}
}

// oddFailures are refusals whose texts JSON cannot keep, or only just.
func oddFailures() map[string]*retrysafe.Failure {
	return map[string]*retrysafe.Failure{
		"plain":                    {Code: "declined", Message: "no funds"},
		"message that is no UTF-8": {Code: "declined", Message: "a\xff\xfeb"},
		"code that is no UTF-8":    {Code: "c\xff", Message: "a"},
		"no texts":                 {},
		"detail of any bytes":      {Code: "c", Message: "m", Detail: []byte{0, 255}},
		"empty detail":             {Code: "c", Message: "m", Detail: []byte{}},
	}
}

func testRefusals(s *suite, f *retrysafe.Failure) {
	s.Helper()
	var all [2]*retrysafe.Failure
	for i := range all {
		_, err := retrysafe.Run(s.Context(), s.e, s.keyOf("refuse"), func(context.Context) error {
			s.runs++
			return f
		})
		assert.True(s, errors.As(err, &all[i]), "a caller gets the refusal: %v", err)
	}
	assert.Equal(s, s.runs, 1, "runs")
	first, second := all[0], all[1]
	assert.Equal(s, first.Code, second.Code, "code")
	assert.Equal(s, first.Message, second.Message, "message")
	assert.True(s, reflect.DeepEqual(first.Detail, second.Detail), "detail: %#v and %#v", first.Detail, second.Detail)
}

// RunTx calls DoTx and StepTx with every value. db is the store.
func RunTx[Tx any](t *testing.T, store storeapi.Store, db interface {
	storeapi.TxStore[Tx]
	storeapi.StepStore[Tx]
},
) {
	t.Helper()
	eachValue(t, store, func(s *suite, v testable) {
		v.testTx(s, anyTx[Tx]{db})
		v.testStepTx(s, anyStepTx[Tx]{db})
	})
}

func eachValue(t *testing.T, store storeapi.Store, check func(*suite, testable)) {
	t.Helper()
	engines := map[retrysafe.Codec]*retrysafe.Engine{
		retrysafe.JSON: newEngine(t, store, retrysafe.JSON), retrysafe.Raw: newEngine(t, store, retrysafe.Raw),
	}
	for _, v := range allValues() {
		t.Run(v.String(), func(t *testing.T) {
			check(&suite{T: t, e: engines[v.codec()], id: rand.Text()}, v)
		})
	}
}

func newEngine(t *testing.T, store storeapi.Store, c retrysafe.Codec) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(store, &retrysafe.Options{
		Namespace: "values", Codec: c, Secret: []byte("0123456789abcdef"), Sweep: -1, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

func (v value[T]) codec() retrysafe.Codec {
	if v.raw {
		return retrysafe.Raw
	}
	return retrysafe.JSON
}

// got is what one caller gets.
type got[T any] struct {
	value    T
	replayed bool
	err      error
}

// compareAnswers checks the answers of the first caller and of a duplicate.
func (v value[T]) compareAnswers(s *suite, way string, first, second got[T]) {
	s.Helper()
	runs := s.runs
	s.runs = 0
	switch v.kind {
	case refused:
		assert.True(s, first.err != nil && second.err != nil, "%s: both are refused: %v, %v", way, first.err, second.err)
		assert.Equal(s, runs, 0, "%s: runs of work whose answer cannot be stored", way)
		return
	case unkept:
		assert.True(s, first.err != nil, "%s: the first caller is told that its answer is not stored", way)
		assert.ErrorIs(s, second.err, retrysafe.ErrAnswerNotKept, "%s: a duplicate of an answer that is not stored", way)
	case replayed:
		assert.NoError(s, first.err, "%s: the first caller", way)
		assert.NoError(s, second.err, "%s: a duplicate", way)
		assert.True(s, reflect.DeepEqual(first.value, second.value), "%s: the first caller got %s, the duplicate %s", way, printValue(first.value), printValue(second.value))
	}
	assert.Equal(s, runs, 1, "%s: runs", way)
	assert.True(s, !first.replayed, "%s: the first is no replay", way)
}

// work returns the value and counts its runs.
func (v value[T]) work(s *suite) (T, error) {
	s.runs++
	return v.of(), nil
}

func (v value[T]) testDo(s *suite) {
	s.Helper()
	call := func() got[T] {
		res, err := retrysafe.Do(s.Context(), s.e, s.keyOf("do"), func(context.Context) (T, error) { return v.work(s) })
		return got[T]{res.Value, res.Replayed, err}
	}
	v.compareAnswers(s, "Do", call(), call())
}

func (v value[T]) testTx(s *suite, db storeapi.TxStore[any]) {
	s.Helper()
	call := func() got[T] {
		res, err := retrysafe.DoTx(s.Context(), s.e, db, s.keyOf("tx"), func(context.Context, any) (T, error) { return v.work(s) })
		return got[T]{res.Value, res.Replayed, err}
	}
	v.compareAnswers(s, "DoTx", call(), call())
}

var errAfterStep = errors.New("the attempt ends after its step")

// runTwoAttempts makes two attempts of one call, each with the step. The first gives up after it.
func (v value[T]) runTwoAttempts(s *suite, way string, step func(context.Context) (T, error)) {
	s.Helper()
	var all [2]got[T]
	for i := range all {
		_, err := retrysafe.Run(s.Context(), s.e, s.keyOf(way), func(ctx context.Context) error {
			all[i].value, all[i].err = step(ctx)
			return retrysafe.NothingDone(errAfterStep)
		})
		assert.ErrorIs(s, err, errAfterStep, "an attempt with a step")
	}
	v.compareAnswers(s, way, all[0], all[1])
}

func (v value[T]) testStep(s *suite) {
	s.Helper()
	v.runTwoAttempts(s, "Step", func(ctx context.Context) (T, error) {
		return retrysafe.Step(ctx, "charge", func(context.Context) (T, error) { return v.work(s) })
	})
}

func (v value[T]) testStepTx(s *suite, db storeapi.StepStore[any]) {
	s.Helper()
	v.runTwoAttempts(s, "StepTx", func(ctx context.Context) (T, error) {
		return retrysafe.StepTx(ctx, db, "charge", func(context.Context, any) (T, error) { return v.work(s) })
	})
}

// testOperation holds for the input of a resumable operation: the attempt of the caller and that of
// a worker have the same.
func (v value[T]) testOperation(s *suite) {
	s.Helper()
	if v.raw {
		return // a fingerprint of the input is that of its bytes, whatever the codec
	}
	var inputs []got[T]
	op := retrysafe.NewOperation(s.e, "operation-"+s.id, func(_ context.Context, in T) (T, error) {
		s.runs++
		inputs = append(inputs, got[T]{value: in})
		if len(inputs) == 1 {
			return in, errAfterStep // under Reexecute a worker runs it again
		}
		return in, nil
	}, &retrysafe.Policy{OnDoubt: retrysafe.Reexecute}).Resumable()
	_, err := op.Do(s.Context(), "values", s.id, v.of())
	if err != nil && strings.Contains(err.Error(), "no UTF-8") {
		assert.Equal(s, s.runs, 0, "runs of a call whose input cannot be compared with another")
		return
	}
	if v.kind != replayed {
		assert.True(s, err != nil && s.runs == 0, "an input that cannot be stored is refused before the work: %v, %d runs", err, s.runs)
		return
	}
	assert.ErrorIs(s, err, errAfterStep, "the first attempt")
	w := retrysafe.NewWorker(&retrysafe.WorkerOptions{MinWait: time.Nanosecond, MaxWait: time.Nanosecond, Rate: 1000, Logger: slog.New(slog.DiscardHandler)}, op)
	passed, err := w.Pass(s.Context())
	assert.NoError(s, err, "a pass of the worker")
	assert.Equal(s, passed.Finished, 1, "calls that the worker has finished")
	assert.Equal(s, s.runs, 2, "attempts")
	s.runs = 1
	v.compareAnswers(s, "an input", inputs[0], inputs[1])
	res, err := op.Do(s.Context(), "values", s.id, v.of())
	assert.NoError(s, err, "a duplicate of what a worker has finished")
	assert.True(s, res.Replayed, "it is a duplicate")
}

// anyTx is a TxStore whose transaction has no static type, so that methods of values can call it.
type anyTx[Tx any] struct{ db storeapi.TxStore[Tx] }

func (a anyTx[Tx]) RunTx(ctx context.Context, r storeapi.TxRequest, work func(context.Context, any) (storeapi.State, storeapi.Answer, error)) (storeapi.Record, error) {
	return a.db.RunTx(ctx, r, func(ctx context.Context, tx Tx) (storeapi.State, storeapi.Answer, error) { return work(ctx, tx) })
}

type anyStepTx[Tx any] struct{ db storeapi.StepStore[Tx] }

func (a anyStepTx[Tx]) StepTx(ctx context.Context, r storeapi.StepRequest, work func(context.Context, any) (storeapi.Answer, error)) error {
	return a.db.StepTx(ctx, r, func(ctx context.Context, tx Tx) (storeapi.Answer, error) { return work(ctx, tx) })
}
