package retrysafe_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestStepIsKeptThroughFaults: a step without a confirmation is stored again, until the store
// answers.
func TestStepIsKeptThroughFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{
		"lost requests": storetest.LoseRequest, "lost replies": storetest.LoseReply, "delays": storetest.Delay, "blocks": storetest.Block,
		"blocked replies": storetest.BlockReply,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, w := newStore(), newTrip()
				f := storetest.NewFaulty(s, func(op string, call int) storetest.Fault {
					if op == "extend" && call < 4 { // all are of the first step
						return fault
					}
					return 0
				})
				dies(t, f, again, func(ctx context.Context) {
					_, err := w.all(ctx, "a", "b", "c")
					assert.NoError(t, err, "three steps")
				})
				f.Deliver() // a late call undoes nothing
				time.Sleep(time.Minute)
				_, err := retrysafe.Do(ctx, engineOn(t, s, again), charge, func(ctx context.Context) (string, error) { return w.all(ctx, "a", "b", "c") })
				assert.NoError(t, err, "the call that goes on")
				w.times(t, map[string]int{"a": 1, "b": 1, "c": 1})
			})
		})
	}
}

// TestStepWithoutAnAnswer: while the store does not answer, the work does not continue, and the
// lease bounds the wait.
func TestStepWithoutAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, begun := newTrip(), time.Now()
		f := storetest.NewFaulty(newStore(), only("extend", storetest.LoseRequest, 1, 1000))
		_, err := retrysafe.Do(ctx, engineOn(t, f, retrysafe.Policy{Lease: 30 * time.Second}), charge, func(ctx context.Context) (string, error) {
			_, err := w.step(ctx, "a")
			assert.ErrorIs(t, err, retrysafe.ErrLeaseLost, "a step that nobody has kept")
			assert.True(t, time.Since(begun) >= 27*time.Second && time.Since(begun) < 29*time.Second, "after %v", time.Since(begun))
			_, err = w.step(ctx, "b")
			assert.ErrorIs(t, err, retrysafe.ErrLeaseLost, "the next one")
			return "", err
		})
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the call")
		w.times(t, map[string]int{"a": 1})
	})
}

// TestStepOfACallerThatLeaves: with Attached, what was done is stored although the caller has gone.
func TestStepOfACallerThatLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		f := storetest.NewFaulty(s, only("extend", storetest.LoseRequest, 1, 3))
		e := engineOn(t, f, again)
		leaving, leave := context.WithCancel(ctx)
		_, err := retrysafe.Do(leaving, e, charge, func(ctx context.Context) (string, error) {
			_, err := retrysafe.Step(ctx, "a", func(ctx context.Context) (string, error) {
				leave()
				return w.all(ctx, "inside") // not run: its caller has gone
			})
			assert.ErrorIs(t, err, context.Canceled, "a step inside, begun behind a caller that has left")
			return "", err
		}, retrysafe.Attached())
		assert.ErrorIs(t, err, context.Canceled, "the call")
		leaving, leave = context.WithCancel(ctx)
		_, err = retrysafe.Do(leaving, e, charge, func(ctx context.Context) (string, error) {
			return retrysafe.Step(ctx, "b", func(context.Context) (string, error) { leave(); return "done", nil })
		}, retrysafe.Attached())
		assert.NoError(t, err, "a step whose caller leaves while it runs")
		begun := time.Now()
		leaving, leave = context.WithCancel(ctx)
		gone := engineOn(t, storetest.NewFaulty(newStore(), only("extend", storetest.LoseRequest, 1, 1000)), again)
		_, err = retrysafe.Do(leaving, gone, charge, func(ctx context.Context) (string, error) {
			return retrysafe.Step(ctx, "b", func(context.Context) (string, error) { leave(); return "done", nil })
		}, retrysafe.Attached())
		assert.ErrorIs(t, err, retrysafe.ErrUnconfirmed, "with the store away")
		assert.True(t, time.Since(begun) < 4*time.Second, "it is not waited for any longer: %v", time.Since(begun))
	})
}

// TestStepOfAStaleHolder: a holder that was taken over gets an error and stores nothing.
func TestStepOfAStaleHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), newTrip()
		e := engineOn(t, s, again)
		_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			_, err := w.step(ctx, "a")
			assert.NoError(t, err, "a step")
			rec := lookup(t, e, charge)
			force := retrysafe.Resolution{Fence: rec.Fence, Force: true, Outcome: retrysafe.NotDone}
			assert.NoError(t, e.Resolve(ctx, charge, force), "a person lets it run again")
			_, err = w.step(ctx, "b")
			assert.ErrorIs(t, err, retrysafe.ErrLeaseLost, "a step of the one before")
			return "", err
		})
		assert.ErrorIs(t, err, retrysafe.ErrLeaseLost, "the call")
		p := lookup(t, e, charge)
		steps, err := retrysafe.ProgressOf(&p)
		assert.True(t, err == nil && len(steps.Steps) == 1, "what is kept: %v %v", steps.Steps, err)
	})
}

// TestStepFaults sends calls of several steps through a network that loses requests and replies,
// delays what it delivers and fails, while processes die in the middle. A step that Step has
// reported as done never runs again, however often the call is taken over, and all callers get the
// same answers of the steps. TestSoakSteps is the long form; a failure names its seed.
func TestStepFaults(t *testing.T) {
	t.Parallel()
	stepFaults(t, 300)
}

func TestSoakSteps(t *testing.T) {
	t.Parallel()
	stepFaults(t, 10_000)
}

func stepFaults(t *testing.T, rounds int) {
	t.Helper()
	first, _ := strconv.ParseUint(os.Getenv("RETRYSAFE_SEED"), 10, 64)
	var sum soakSums
	for i := range rounds {
		synctest.Test(t, func(t *testing.T) {
			stepStorm(t, first+uint64(i), &sum)
			if t.Failed() {
				t.Logf("again: RETRYSAFE_SEED=%d", first+uint64(i))
			}
		})
	}
	t.Logf("%d calls, %d attempts, %d steps done, %d found done by later attempts: doubles 0, lost 0", rounds, sum.attempts, sum.done, sum.found)
	assert.True(t, sum.attempts > rounds && sum.found > rounds, "attempts went on where others had stopped: %+v", sum)
}

type soakSums struct{ attempts, done, found int }

func stepStorm(t *testing.T, seed uint64, sum *soakSums) {
	t.Helper()
	w := &weather{rand: rand.New(rand.NewPCG(seed, 2)), bad: true}
	s := newStore()
	var mu sync.Mutex
	var net *storetest.Faulty
	kept := map[string]string{} // Step has reported it as done
	work := func(ctx context.Context) (string, error) {
		sum.attempts++
		for i := range 4 {
			name := fmt.Sprint("step ", i)
			ran := false
			got, err := retrysafe.Step(ctx, name, func(ctx context.Context) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				if before, ok := kept[name]; ok {
					t.Errorf("%s is done again; before it was %q", name, before)
				}
				ran = true
				a, _ := retrysafe.AttemptFrom(ctx)
				return fmt.Sprintf("%d by fence %d", i, a.Fence()), nil
			})
			if err != nil {
				return "", err
			}
			mu.Lock()
			if before, ok := kept[name]; ok && before != got {
				t.Errorf("%s: told %q, and before %q", name, got, before)
			}
			kept[name] = got
			if ran {
				sum.done++
			} else {
				sum.found++
			}
			mu.Unlock()
			time.Sleep(time.Duration(w.n(12)) * time.Second)
			net.Deliver() // delayed calls arrive after the others
			if w.n(4) == 0 {
				panic("storm")
			}
		}
		return "all", nil
	}
	for try := range 12 {
		if try == 11 {
			w.mu.Lock()
			w.bad = false
			w.mu.Unlock()
		}
		net = storetest.NewFaulty(s, w.hook)
		e := retrysafe.New(net, &retrysafe.Options{Policy: again, Sweep: -1, Secret: []byte("a secret of tests")})
		func() {
			defer func() { _ = recover() }()
			ctx, cancel := context.WithTimeout(ctx, time.Duration(5+w.n(60))*time.Second)
			defer cancel()
			_, _ = retrysafe.Do(ctx, e, charge, work)
		}()
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_ = e.Shutdown(gone) // the process dies
		time.Sleep(time.Duration(w.n(20)) * time.Second)
		net.Deliver()
	}
}
