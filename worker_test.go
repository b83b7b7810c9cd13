package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// parcel is the input of an operation of three steps.
type parcel struct{ To string }

func (w *trip) sending(e *retrysafe.Engine, p retrysafe.Policy) *retrysafe.Operation[parcel, string] {
	return retrysafe.NewOperation(e, "send", func(ctx context.Context, in parcel) (string, error) {
		got, err := w.all(ctx, "pack "+in.To, "pay "+in.To, "post "+in.To)
		return in.To + ": " + got, err
	}, &p).Resumable()
}

var errDies = errors.New("the process dies here")

// abandoned begins a call in a process that dies after two of its steps.
func (w *trip) abandoned(t *testing.T, s storeapi.Store, p retrysafe.Policy, id string) {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Policy: p, Secret: []byte("a secret of tests"), Sweep: -1})
	op := retrysafe.NewOperation(e, "send", func(ctx context.Context, in parcel) (string, error) {
		_, err := w.all(ctx, "pack "+in.To, "pay "+in.To)
		assert.NoError(t, err, "two steps")
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_ = e.Shutdown(gone) // from now on no call of this process reaches the store
		return "", errDies
	}, nil).Resumable()
	_, err := op.Do(ctx, "ann", id, parcel{To: id})
	assert.ErrorIs(t, err, errDies, "the call of a process that dies")
}

func sendKey(id string) retrysafe.Key { return retrysafe.Key{Tenant: "ann", Operation: "send", ID: id} }

var quiet = slog.New(slog.DiscardHandler)

// works runs a worker until the test ends.
func works(t *testing.T, o *retrysafe.WorkerOptions, ops ...retrysafe.Resumable) {
	t.Helper()
	o.Logger = quiet
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	w := retrysafe.NewWorker(o, ops...)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended, "the end of a worker")
	})
}

// TestWorker: another process finishes an abandoned call, with its input and after its steps, and
// duplicates get the answer.
func TestWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		w.abandoned(t, s, again, "bob")
		e := engineOn(t, s, again)
		op := w.sending(e, retrysafe.Policy{})
		works(t, &retrysafe.WorkerOptions{Every: time.Second}, op)
		time.Sleep(time.Minute)
		synctest.Wait()
		rec := lookup(t, e, sendKey("bob"))
		assert.Equal(t, rec.State, retrysafe.StateCompleted, "state")
		w.times(t, map[string]int{"pack bob": 1, "pay bob": 1, "post bob": 1})
		res, err := op.Do(ctx, "ann", "bob", parcel{To: "bob"})
		assert.NoError(t, err, "the repeat of the caller")
		assert.Equal(t, res.Value, "bob: pack bob by attempt 1, pay bob by attempt 1, post bob by attempt 2", "its answer")
		_, err = op.Do(ctx, "ann", "bob", parcel{To: "cy"})
		assert.ErrorIs(t, err, retrysafe.ErrFingerprintMismatch, "another input")
	})
}

// TestWorkerRefuses: work that may have been done runs again only if Reconcile says that it was not
// done.
func TestWorkerRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome retrysafe.Outcome // zero: no Reconcile
		state   retrysafe.State
		posted  int
	}{
		"nobody to ask": {0, retrysafe.StateInProgress, 0},
		"done":          {retrysafe.Done, retrysafe.StateCompleted, 0},
		"not done":      {retrysafe.NotDone, retrysafe.StateCompleted, 1},
		"doubtful":      {retrysafe.Doubtful, retrysafe.StateInProgress, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, w := newStore(), newTrip()
				p := retrysafe.Policy{Lease: 10 * time.Second}
				w.abandoned(t, s, p, "bob")
				if c.outcome != 0 {
					p.Reconcile = func(_ context.Context, rec retrysafe.Record) (retrysafe.Resolution, error) {
						done, err := retrysafe.ProgressOf(&rec)
						assert.True(t, err == nil && len(done.Steps) == 2 && done.Steps[1].Name == "pay bob", "what was done is told: %+v %v", done.Steps, err)
						return retrysafe.Resolution{Outcome: c.outcome}, nil
					}
				}
				e := engineOn(t, s, p)
				works(t, &retrysafe.WorkerOptions{Every: time.Second}, w.sending(e, retrysafe.Policy{}))
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				rec := lookup(t, e, sendKey("bob"))
				assert.Equal(t, rec.State, c.state, "state")
				assert.Equal(t, w.did["post bob"], c.posted, "runs of the last step")
				assert.True(t, w.did["pay bob"] == 1, "a step that was done is not done again")
			})
		})
	}
}

// TestWorkersShare: several workers finish each call once, and never two of them at the same time.
func TestWorkersShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		const n = 30
		for i := range n {
			w.abandoned(t, s, again, fmt.Sprint(i))
		}
		var mu sync.Mutex
		runs, now, most := map[string]int{}, map[string]int{}, 0
		for range 4 {
			op := retrysafe.NewOperation(engineOn(t, s, again), "send", func(ctx context.Context, in parcel) (string, error) {
				mu.Lock()
				runs[in.To]++
				now[in.To]++
				most = max(most, now[in.To])
				mu.Unlock()
				time.Sleep(20 * time.Second)
				mu.Lock()
				now[in.To]--
				mu.Unlock()
				return w.all(ctx, "pack "+in.To, "pay "+in.To, "post "+in.To)
			}, nil).Resumable()
			works(t, &retrysafe.WorkerOptions{Every: time.Second, Concurrency: 3}, op)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, len(runs), n, "calls that were finished")
		for id, times := range runs {
			assert.Equal(t, times, 1, "runs of call %s", id)
		}
		assert.Equal(t, most, 1, "runs of one call at once")
		assert.Equal(t, len(w.did), 3*n, "steps")
		for step, times := range w.did {
			assert.Equal(t, times, 1, "runs of step %s", step)
		}
	})
}

// TestWorkerBacksOff: a call that fails again and again rests longer each time, and is given up in
// the end.
func TestWorkerBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		w.abandoned(t, s, again, "bob")
		var starts []time.Time
		var doubts []string
		e := engineWith(t, s, &retrysafe.Options{Policy: again, Sweep: -1, Secret: []byte("a secret of tests"), Trace: &retrysafe.Trace{
			InDoubt: func(_ context.Context, a retrysafe.AttemptInfo) { doubts = append(doubts, a.Key.ID+" "+a.Cause) },
		}})
		op := retrysafe.NewOperation(e, "send", func(context.Context, parcel) (string, error) {
			starts = append(starts, time.Now())
			if len(starts) == 2 {
				panic("it can be worse")
			}
			return "", errWork
		}, nil).Resumable()
		works(t, &retrysafe.WorkerOptions{Every: 10 * time.Millisecond, MinWait: time.Second, MaxWait: 8 * time.Second, MaxAttempts: 7}, op)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var rests []time.Duration
		for i := range len(starts) - 1 {
			rests = append(rests, starts[i+1].Sub(starts[i]).Round(time.Second))
		}
		assert.Equal(t, rests, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second, 8 * time.Second}, "rests")
		rec := lookup(t, e, sendKey("bob"))
		assert.True(t, rec.InDoubt() && rec.Cause == "attempts", "the record: %v", rec)
		assert.Equal(t, doubts, []string{"bob attempts"}, "what the trace was told")
		p, err := retrysafe.ProgressOf(&rec)
		assert.True(t, err == nil && len(p.Steps) == 2 && p.Input.Kept, "what was done is kept for whoever looks: %+v %v", p, err)
	})
}

// TestWorkerRate: no more calls begin in a second than Rate allows.
func TestWorkerRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		for i := range 10 {
			w.abandoned(t, s, again, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		var mu sync.Mutex
		var starts []time.Time
		op := retrysafe.NewOperation(engineOn(t, s, again), "send", func(ctx context.Context, in parcel) (string, error) {
			mu.Lock()
			starts = append(starts, time.Now())
			mu.Unlock()
			return w.all(ctx, "pack "+in.To, "pay "+in.To)
		}, nil).Resumable()
		got, err := retrysafe.NewWorker(&retrysafe.WorkerOptions{Rate: 2, Logger: quiet}, op).Pass(ctx)
		assert.NoError(t, err, "a pass")
		assert.Equal(t, got, retrysafe.Passed{Found: 10, Finished: 10}, "what it has done")
		for i := range starts[1:] {
			assert.Equal(t, starts[i+1].Sub(starts[i]), 500*time.Millisecond, "between two")
		}
	})
}

// TestWorkerStops: running calls end normally, and no more calls begin.
func TestWorkerStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		for i := range 3 {
			w.abandoned(t, s, again, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		e := engineOn(t, s, again)
		stopping, stop := context.WithCancel(ctx)
		op := retrysafe.NewOperation(e, "send", func(ctx context.Context, in parcel) (string, error) {
			stop()
			time.Sleep(time.Minute)
			return w.all(ctx, "pack "+in.To, "pay "+in.To)
		}, nil).Resumable()
		worker := retrysafe.NewWorker(&retrysafe.WorkerOptions{Concurrency: 1, Logger: quiet}, op)
		begun := time.Now()
		assert.NoError(t, worker.Run(stopping), "a worker that is stopped")
		assert.True(t, time.Since(begun) >= time.Minute, "it waits for what runs")
		states := map[retrysafe.State]int{}
		for i := range 3 {
			states[lookup(t, e, sendKey(fmt.Sprint(i))).State]++
		}
		assert.Equal(t, states, map[retrysafe.State]int{retrysafe.StateCompleted: 1, retrysafe.StateInProgress: 2}, "states")
		assert.NoError(t, e.Shutdown(ctx), "shutdown")
		assert.ErrorIs(t, worker.Run(ctx), retrysafe.ErrClosed, "a worker of an engine that is shut down")
	})
}

// TestInputIsKept: work whose input cannot be stored does not begin.
func TestInputIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		out := new(outage)
		f := storetest.NewFaulty(s, func(op string, call int) storetest.Fault {
			if op == "extend" {
				return out.hook(op, call)
			}
			return 0
		})
		e := engineOn(t, f, again)
		op := w.sending(e, retrysafe.Policy{})
		out.on.Store(true)
		impatient, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := op.Do(impatient, "ann", "bob", parcel{To: "bob"})
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a call whose input is not kept")
		out.on.Store(false)
		_, err = op.Do(ctx, "ann", "bob", parcel{To: strings.Repeat("x", 1<<20)})
		assert.True(t, err != nil && strings.Contains(err.Error(), "nothing was run"), "an input that is too large: %.200v", err)
		w.times(t, map[string]int{})
		_, err = op.Do(ctx, "ann", "bob", parcel{To: "bob"})
		assert.NoError(t, err, "the call, repeated")
	})
}

// TestHandler: a program that does not know the types finishes the calls of one that does.
func TestHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		w.abandoned(t, s, again, "bob")
		time.Sleep(time.Minute)
		e := engineOn(t, s, again)
		h := retrysafe.NewHandler(e, "send", func(ctx context.Context, in retrysafe.Answer) (retrysafe.Answer, error) {
			a, _ := retrysafe.AttemptFrom(ctx)
			p, err := a.Progress()
			assert.True(t, err == nil && len(p.Steps) == 2, "the steps that were done: %v %v", p.Steps, err)
			assert.Equal(t, string(in.Body), `{"To":"bob"}`, "the input")
			return retrysafe.Answer{Codec: "json", Body: []byte(`"sent by hand"`), Kept: true}, nil
		}, nil)
		got, err := retrysafe.NewWorker(&retrysafe.WorkerOptions{Logger: quiet}, h).Pass(ctx)
		assert.NoError(t, err, "a pass")
		assert.Equal(t, got, retrysafe.Passed{Found: 1, Finished: 1}, "what it has done")
		res, err := w.sending(e, retrysafe.Policy{}).Do(ctx, "ann", "bob", parcel{To: "bob"})
		assert.True(t, err == nil && res.Value == "sent by hand", "the repeat of the caller: %v %v", res.Value, err)
	})
}
