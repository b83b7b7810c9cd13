package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// trip is work of three steps that counts its runs.
type trip struct {
	mu     sync.Mutex
	did    map[string]int
	fences map[string]retrysafe.Fence
}

func newTrip() *trip { return &trip{did: map[string]int{}, fences: map[string]retrysafe.Fence{}} }

// step runs the named step and counts it.
func (w *trip) step(ctx context.Context, name string, opts ...retrysafe.StepOption) (string, error) {
	return retrysafe.Step(ctx, name, func(ctx context.Context) (string, error) {
		a, _ := retrysafe.AttemptFrom(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.did[name]++
		w.fences[name] = a.Fence()
		return fmt.Sprintf("%s by attempt %d", name, a.Number()), nil
	}, opts...)
}

func (w *trip) times(t *testing.T, want map[string]int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Equal(t, w.did, want, "how often each step was done")
}

// all runs the steps one after the other.
func (w *trip) all(ctx context.Context, names ...string) (string, error) {
	var got []string
	for _, name := range names {
		s, err := w.step(ctx, name)
		if err != nil {
			return "", err
		}
		got = append(got, s)
	}
	return strings.Join(got, ", "), nil
}

// dies runs f in a process that dies in the middle: its heartbeats stop, and its lease expires.
func dies(t *testing.T, s storeapi.Store, p retrysafe.Policy, f func(ctx context.Context)) {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Policy: p})
	a, _, err := e.Begin(ctx, charge)
	assert.NoError(t, err, "begin")
	f(a.Context())
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_ = e.Shutdown(gone)
}

var again = retrysafe.Policy{Lease: 10 * time.Second, OnDoubt: retrysafe.Reexecute}

// TestStepsResume: a call whose process died continues after the last step that was finished,
// however it is taken over.
func TestStepsResume(t *testing.T) {
	t.Parallel()
	begin := func(w *trip, end func(*testing.T, context.Context)) func(*testing.T, storeapi.Store, retrysafe.Policy) {
		return func(t *testing.T, s storeapi.Store, p retrysafe.Policy) {
			t.Helper()
			dies(t, s, p, func(ctx context.Context) {
				got, err := w.all(ctx, "reserve", "charge")
				assert.NoError(t, err, "two steps")
				assert.Equal(t, got, "reserve by attempt 1, charge by attempt 1", "their answers")
				end(t, ctx)
			})
		}
	}
	attempt := func(ctx context.Context) *retrysafe.Attempt { a, _ := retrysafe.AttemptFrom(ctx); return a }
	nothing := func(context.Context, retrysafe.Record) (retrysafe.Resolution, error) {
		return retrysafe.Resolution{Outcome: retrysafe.NotDone}, nil
	}
	for name, c := range map[string]struct {
		end func(*testing.T, context.Context)
		p   retrysafe.Policy
	}{
		"after the lease": {func(*testing.T, context.Context) {}, again},
		"after a release": {func(t *testing.T, ctx context.Context) {
			t.Helper()
			assert.NoError(t, attempt(ctx).Release(ctx, errWork), "release")
		}, again},
		"after a release under Refuse": {func(t *testing.T, ctx context.Context) {
			t.Helper()
			assert.NoError(t, attempt(ctx).Release(ctx, errWork), "release")
		}, retrysafe.Policy{Lease: 10 * time.Second}},
		"after a doubt": {func(t *testing.T, ctx context.Context) {
			t.Helper()
			assert.NoError(t, attempt(ctx).LeaveInDoubt(ctx, errWork), "doubt")
		}, again},
		"after Reconcile": {func(*testing.T, context.Context) {}, retrysafe.Policy{Lease: 10 * time.Second, Reconcile: nothing}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, w := newStore(), newTrip()
				begin(w, c.end)(t, s, c.p)
				time.Sleep(time.Minute)
				e := engineOn(t, s, c.p)
				rec := lookup(t, e, charge)
				p, err := retrysafe.ProgressOf(&rec)
				assert.NoError(t, err, "progress")
				assert.Equal(t, len(p.Steps), 2, "steps that the record shows")
				res, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) { return w.all(ctx, "reserve", "charge", "ship") })
				assert.NoError(t, err, "the call that goes on")
				assert.Equal(t, res.Value, fmt.Sprintf("reserve by attempt 1, charge by attempt 1, ship by attempt %d", res.Attempt), "answers")
				w.times(t, map[string]int{"reserve": 1, "charge": 1, "ship": 1})
				assert.True(t, w.fences["ship"] == res.Fence && res.Fence > w.fences["charge"], "a step sees the fence of its attempt")
				rec = lookup(t, e, charge)
				assert.True(t, rec.Answer.Kept && rec.Answer.Codec == "json", "the end replaces what was done so far: %v", rec.Answer)
				again, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", errWork })
				assert.NoError(t, err, "a repeat")
				assert.Equal(t, again.Value, res.Value, "its answer")
			})
		})
	}
}

// TestStepsAreNoAnswer: no reader takes progress for an answer.
func TestStepsAreNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		dies(t, s, retrysafe.Policy{Lease: 10 * time.Second}, func(ctx context.Context) {
			_, err := w.all(ctx, "reserve")
			assert.NoError(t, err, "step")
		})
		e := engineOn(t, s, retrysafe.Policy{Lease: 10 * time.Second})
		_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", errWork })
		assert.ErrorIs(t, err, retrysafe.ErrInProgress, "while it runs")
		time.Sleep(time.Minute)
		_, err = retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", errWork })
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "when it has died")
		rec := lookup(t, e, charge)
		assert.True(t, !rec.Answer.Kept && !strings.Contains(fmt.Sprint(rec), "reserve"), "the record: %v", rec)
		// An operator who resolves it need not know about steps.
		done := retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.Done, Answer: retrysafe.Answer{Codec: "json", Body: []byte(`"found"`), Kept: true}}
		assert.NoError(t, e.Resolve(ctx, charge, done), "resolve")
		res, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", errWork })
		assert.True(t, err == nil && res.Value == "found", "the settled answer: %q, %v", res.Value, err)
	})
}

// TestStepMistakes: nothing runs.
func TestStepMistakes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTrip()
		_, err := w.step(ctx, "outside")
		assert.ErrorIs(t, err, retrysafe.ErrNoAttempt, "outside of a call")
		e := engineOn(t, newStore(), retrysafe.Policy{})
		var late context.Context
		_, err = retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			late = ctx
			for _, name := range []string{"", strings.Repeat("x", 129), "line\nbreak", "\xff"} {
				_, err := w.step(ctx, name)
				assert.True(t, err != nil, "name %q", name)
			}
			_, err := w.step(ctx, "twice")
			assert.NoError(t, err, "the first")
			_, err = w.step(ctx, "twice")
			assert.ErrorIs(t, err, retrysafe.ErrStepRepeated, "the same name twice")
			for i := range 127 {
				_, err := w.step(ctx, fmt.Sprint("number ", i))
				assert.NoError(t, err, "step %d", i)
			}
			_, err = w.step(ctx, "one too many")
			assert.True(t, err != nil && strings.Contains(err.Error(), "at most 128 steps"), "too many: %v", err)
			return "", nil
		})
		assert.NoError(t, err, "the call")
		assert.Equal(t, len(w.did), 128, "steps that were run")
		_, err = w.step(late, "late")
		assert.ErrorIs(t, err, retrysafe.ErrEnded, "after the end")
	})
}

// TestStepsChanged: another program does not complete what an earlier one has begun.
func TestStepsChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second []string // declared
		asked         []string
		changed       bool
		ran           map[string]int
	}{
		"a step is gone":                 {nil, nil, []string{"reserve", "ship"}, true, map[string]int{"reserve": 1, "charge": 1, "ship": 1}},
		"all are gone":                   {nil, nil, nil, true, map[string]int{"reserve": 1, "charge": 1}},
		"in another order":               {nil, nil, []string{"charge", "reserve"}, false, map[string]int{"reserve": 1, "charge": 1}},
		"declared, and another program":  {[]string{"reserve", "charge"}, []string{"reserve", "charge", "ship"}, []string{"reserve", "charge", "ship"}, true, map[string]int{"reserve": 1, "charge": 1}},
		"declared later, without one":    {nil, []string{"reserve", "ship"}, []string{"reserve", "ship"}, true, map[string]int{"reserve": 1, "charge": 1}},
		"declared later":                 {nil, []string{"reserve", "charge", "ship"}, []string{"reserve", "charge", "ship"}, false, map[string]int{"reserve": 1, "charge": 1, "ship": 1}},
		"declared, and the same program": {[]string{"reserve", "charge", "v2"}, []string{"reserve", "charge", "v2"}, []string{"reserve", "charge"}, false, map[string]int{"reserve": 1, "charge": 1}},
	} {
		for _, onDoubt := range []retrysafe.OnDoubt{retrysafe.Refuse, retrysafe.Reexecute} {
			t.Run(fmt.Sprint(name, " ", onDoubt), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s, w := newStore(), newTrip()
					p := retrysafe.Policy{Lease: 10 * time.Second, OnDoubt: onDoubt, Steps: c.first}
					dies(t, s, p, func(ctx context.Context) {
						_, err := w.all(ctx, "reserve", "charge")
						assert.NoError(t, err, "two steps")
						a, _ := retrysafe.AttemptFrom(ctx)
						assert.NoError(t, a.Release(ctx, nil), "release")
					})
					p.Steps = c.second
					e := engineOn(t, s, p)
					_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) { return w.all(ctx, c.asked...) })
					w.times(t, c.ran)
					if !c.changed {
						assert.NoError(t, err, "the call")
						return
					}
					assert.ErrorIs(t, err, retrysafe.ErrStepsChanged, "the call")
					_, retry := retrysafe.Retryable(err)
					assert.True(t, !retry, "a retry changes nothing")
					rec := lookup(t, e, charge)
					assert.True(t, rec.InDoubt() && rec.Cause == "steps-changed", "somebody has to look: %v", rec)
				})
			})
		}
	}
}

// TestStepNotDeclared: if steps are declared, no other one runs.
func TestStepNotDeclared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTrip()
		e := engineOn(t, newStore(), retrysafe.Policy{Steps: []string{"a"}})
		_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) { return w.all(ctx, "a", "b") })
		assert.True(t, err != nil && strings.Contains(err.Error(), `step "b": it is not among the steps`), "a step that is not declared: %v", err)
		w.times(t, map[string]int{"a": 1})
	})
}

// TestStepErrors: an error of a step means the same for the call as without steps, and is not
// stored.
func TestStepErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		e := engineOn(t, s, retrysafe.Policy{})
		fails := func(err error) func(context.Context) (string, error) {
			return func(ctx context.Context) (string, error) {
				if _, err := w.step(ctx, "reserve"); err != nil {
					return "", err
				}
				return retrysafe.Step(ctx, "charge", func(context.Context) (string, error) { return "half", err })
			}
		}
		payload := retrysafe.WithFingerprint([]byte("ten"))
		_, err := retrysafe.Do(ctx, e, charge, fails(retrysafe.NothingDone(errWork)), payload)
		assert.ErrorIs(t, err, errWork, "nothing done")
		assert.Equal(t, lookup(t, e, charge).State, retrysafe.StateReleased, "state after that")
		_, err = retrysafe.Do(ctx, e, charge, fails(nil), retrysafe.WithFingerprint([]byte("twenty")))
		assert.ErrorIs(t, err, retrysafe.ErrFingerprintMismatch, "another payload does not go on with these steps")
		_, err = retrysafe.Do(ctx, e, charge, fails(retrysafe.Permanent("declined", errWork)), payload)
		var f *retrysafe.Failure
		assert.True(t, errors.As(err, &f) && f.Code == "declined", "a refusal: %v", err)
		w.times(t, map[string]int{"reserve": 1})
	})
}

// TestStepAtMostOnce: a step under AtMostOnce does not run again if its outcome is unknown.
func TestStepAtMostOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		dies(t, s, again, func(ctx context.Context) {
			_, err := w.step(ctx, "charge", retrysafe.AtMostOnce())
			assert.NoError(t, err, "one that ends")
			_, err = retrysafe.Step(ctx, "refused", func(context.Context) (int, error) { return 0, retrysafe.NothingDone(errWork) }, retrysafe.AtMostOnce())
			assert.ErrorIs(t, err, errWork, "one that does nothing")
			_, err = retrysafe.Step(ctx, "ship", func(context.Context) (int, error) {
				return 0, errors.Join(context.DeadlineExceeded, retrysafe.NothingDone(errWork))
			}, retrysafe.AtMostOnce())
			assert.ErrorIs(t, err, errWork, "one of whose errors only a part is marked")
			_, err = retrysafe.Step(ctx, "pay out", func(context.Context) (int, error) { return 0, errWork }, retrysafe.AtMostOnce())
			assert.ErrorIs(t, err, errWork, "one that ends in the middle")
		})
		time.Sleep(time.Minute)
		e := engineOn(t, s, again)
		for _, last := range []string{"ship", "pay out"} {
			_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
				for _, name := range []string{"charge", "refused", last} {
					if _, err := w.step(ctx, name, retrysafe.AtMostOnce()); err != nil {
						return "", err
					}
				}
				return "", nil
			})
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a call that meets it")
			rec := lookup(t, e, charge)
			assert.True(t, rec.InDoubt(), "somebody has to look")
		}
		w.times(t, map[string]int{"charge": 1, "refused": 1})
	})
}

// TestStepsTooLarge: a step whose answer is not stored does not run again.
func TestStepsTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, ran := newStore(), 0
		big := func(ctx context.Context, name string) (string, error) {
			return retrysafe.Step(ctx, name, func(context.Context) (string, error) { ran++; return strings.Repeat("x", 500<<10), nil })
		}
		dies(t, s, again, func(ctx context.Context) {
			for _, name := range []string{"a", "b"} {
				got, err := big(ctx, name)
				assert.True(t, err == nil && len(got) == 500<<10, "whoever runs it gets it whole: %v", err)
			}
		})
		time.Sleep(time.Minute)
		e := engineOn(t, s, again)
		_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			got, err := big(ctx, "a")
			assert.True(t, err == nil && len(got) == 500<<10, "what there was room for: %v", err)
			_, err = big(ctx, "b")
			assert.ErrorIs(t, err, retrysafe.ErrAnswerNotKept, "what there was none for")
			return "", err
		})
		assert.ErrorIs(t, err, retrysafe.ErrAnswerNotKept, "the call")
		assert.Equal(t, ran, 2, "runs")
		rec := lookup(t, e, charge)
		assert.True(t, rec.InDoubt(), "somebody has to look")
	})
}

// TestStepsBesideEachOther: each save has everything that was finished, whichever step saves it.
func TestStepsBesideEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		f := storetest.NewFaulty(s, nil)
		many := func(ctx context.Context) error {
			var all sync.WaitGroup
			errs := make([]error, 50)
			for i := range errs {
				all.Go(func() { _, errs[i] = w.step(ctx, fmt.Sprint(i)) })
			}
			all.Wait()
			return errors.Join(errs...)
		}
		dies(t, f, again, func(ctx context.Context) { assert.NoError(t, many(ctx), "fifty at once") })
		time.Sleep(time.Minute)
		_, err := retrysafe.Run(ctx, engineOn(t, s, again), charge, many)
		assert.NoError(t, err, "the call that goes on")
		for name, n := range w.did {
			assert.Equal(t, n, 1, "step %s", name)
		}
		assert.True(t, f.Calls("extend") <= 50, "saves: %d", f.Calls("extend"))
	})
}

// TestStepBytesAreTheirOwn: a caller that changes bytes which it gave or got changes nothing that
// is stored.
func TestStepBytesAreTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		raw := func() *retrysafe.Engine {
			return engineWith(t, s, &retrysafe.Options{Policy: again, Codec: retrysafe.Raw, Sweep: -1, Secret: []byte("a secret of tests")})
		}
		for i := range 3 {
			op := retrysafe.NewOperation(raw(), "bytes", func(ctx context.Context, in []byte) ([]byte, error) {
				assert.Equal(t, string(in), "given", "input of attempt %d", i)
				copy(in, "spoil")
				for _, name := range []string{"a", "b"} {
					got, err := retrysafe.Step(ctx, name, func(context.Context) ([]byte, error) { return []byte("of " + name), nil })
					assert.NoError(t, err, "step")
					assert.Equal(t, string(got), "of "+name, "answer of attempt %d", i)
					copy(got, "spoilt")
				}
				_, err := retrysafe.Step(ctx, fmt.Sprint("more ", i), func(context.Context) ([]byte, error) { return nil, nil })
				assert.NoError(t, err, "a step that saves all of them again")
				return nil, errWork
			}, nil).Resumable()
			if i == 0 {
				_, err := op.Do(ctx, "ann", "k", []byte("given"))
				assert.ErrorIs(t, err, errWork, "the call")
				continue
			}
			time.Sleep(time.Minute)
			got, err := retrysafe.NewWorker(&retrysafe.WorkerOptions{Logger: quiet}, op).Pass(ctx)
			assert.True(t, err == nil && got.Unfinished == 1, "a pass: %+v %v", got, err)
		}
	})
}
