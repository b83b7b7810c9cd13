package retrysafe_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// fences returns the fences of the attempts that Reconcile gets.
func fences(r *retrysafe.Record) (all []retrysafe.Fence) {
	for _, w := range r.MayHaveWorked() {
		all = append(all, w.Fence)
	}
	return all
}

// remembers is work that remembers its fences and ends in doubt.
type remembers struct{ fences []retrysafe.Fence }

func (w *remembers) work(ctx context.Context) (string, error) {
	a, _ := retrysafe.AttemptFrom(ctx)
	w.fences = append(w.fences, a.Fence())
	return "", errWork
}

// TestEveryQuestionIsAboutTheWork: after a Reconcile that fails, one whose result does not reach
// the store, and one whose process dies, others follow. All ask by the fence that the work has sent
// along, not by that of an attempt that asked.
func TestEveryQuestionIsAboutTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, d, w := newStore(), &detective{err: errWork}, new(remembers)
		e := engineOn(t, s, d.policy())
		ask := func(e *retrysafe.Engine, what string) {
			time.Sleep(3 * time.Minute)
			_, err := retrysafe.Do(ctx, e, charge, w.work)
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "%s", what)
		}
		_, err := retrysafe.Do(ctx, e, charge, w.work)
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the work")
		ask(e, "a question that fails")
		ask(engineOn(t, storetest.NewFaulty(s, func(op string, _ int) storetest.Fault {
			if op == "release" {
				return storetest.LoseRequest
			}
			return 0
		}), d.policy()), "one whose end is lost")
		time.Sleep(time.Hour)
		dying := retrysafe.New(s, &retrysafe.Options{Policy: retrysafe.Policy{
			Lease: time.Minute, Reconcile: func(ctx context.Context, r retrysafe.Record) (retrysafe.Resolution, error) {
				_, _ = d.ask(ctx, r)
				<-ctx.Done()
				return retrysafe.Resolution{Outcome: retrysafe.NotDone}, nil
			},
		}})
		gone, cancel := context.WithCancel(ctx)
		cancel()
		go func() { _, _ = retrysafe.Do(ctx, dying, charge, w.work) }()
		time.Sleep(time.Second)
		_ = dying.Shutdown(gone)
		ask(e, "after an asker that died")
		assert.Equal(t, len(d.asked), 4, "questions")
		for i := range d.asked {
			assert.Equal(t, d.asked[i].Fence, w.fences[0], "question %d: fence", i+1)
			assert.Equal(t, d.asked[i].Attempt, 1, "question %d: attempt", i+1)
			assert.Equal(t, fences(&d.asked[i]), w.fences, "question %d: what may have worked", i+1)
		}
		assert.Equal(t, len(w.fences), 1, "starts of the work")
	})
}

// TestQuestionAfterWorkAfterAQuestion: if Reconcile says that nothing was done, its caller runs the
// work itself. If that ends in doubt, the next Reconcile is about both attempts.
func TestQuestionAfterWorkAfterAQuestion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := newStore(), new(remembers)
		d := &detective{says: retrysafe.Resolution{Outcome: retrysafe.NotDone}}
		e := engineOn(t, s, d.policy())
		for n := range 3 {
			_, err := retrysafe.Do(ctx, e, charge, w.work)
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "call %d", n)
			time.Sleep(3 * time.Minute)
		}
		d.says.Outcome = retrysafe.Doubtful
		_, err := retrysafe.Do(ctx, e, charge, w.work)
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the last question")
		assert.Equal(t, len(w.fences), 3, "starts")
		for i := range d.asked {
			n := min(i+1, 3)
			assert.Equal(t, fences(&d.asked[i]), w.fences[:n], "question %d: what may have worked", i+1)
			assert.Equal(t, d.asked[i].Fence, w.fences[n-1], "question %d: fence", i+1)
		}
	})
}

// TestNothingRunsUnconfirmed: the work does not begin until the store has confirmed that it begins.
func TestNothingRunsUnconfirmed(t *testing.T) {
	t.Parallel()
	for _, fault := range []storetest.Fault{storetest.LoseRequest, storetest.LoseReply} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, d, c := newStore(), &detective{says: retrysafe.Resolution{Outcome: retrysafe.NotDone}}, new(counter)
				doubtful(t, engineOn(t, s, retrysafe.Policy{Lease: time.Minute}))
				work := lookup(t, engineOn(t, s, retrysafe.Policy{}), charge).Fence
				time.Sleep(2 * time.Minute)
				away := engineOn(t, storetest.NewFaulty(s, func(op string, _ int) storetest.Fault {
					if op == "extend" {
						return fault
					}
					return 0
				}), d.policy())
				_, err := retrysafe.Do(ctx, away, charge, c.work)
				assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a call whose beginning is not confirmed")
				c.started(t, 0)
				time.Sleep(3 * time.Minute)
				_, err = retrysafe.Do(ctx, engineOn(t, s, d.policy()), charge, c.work)
				assert.NoError(t, err, "the next one")
				c.started(t, 1)
				assert.Equal(t, fences(&d.asked[1])[0], work, "the work is asked about again")
			})
		})
	}
}

// TestQuestionAfterReopen: Reconcile is not called again for what an operator has resolved.
func TestQuestionAfterReopen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, d, w := newStore(), &detective{}, new(remembers)
		e := engineOn(t, s, d.policy())
		_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", retrysafe.Permanent("declined", errWork) })
		assert.ErrorIs(t, err, errWork, "a refusal")
		rec := lookup(t, e, charge)
		assert.NoError(t, e.Resolve(ctx, charge, retrysafe.Resolution{Outcome: retrysafe.NotDone, Reopen: true, Fence: rec.Fence, By: "ann"}), "reopen")
		_, err = retrysafe.Do(ctx, e, charge, w.work)
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the work")
		time.Sleep(3 * time.Minute)
		_, _ = retrysafe.Do(ctx, e, charge, w.work)
		assert.Equal(t, fences(&d.asked[0]), w.fences, "what may have worked")
	})
}

// TestQuestionAboutReexecute: if a caller under Refuse calls Reconcile, it gets all attempts under
// Reexecute that were taken over, or released by any error. If there are more than a record names,
// an operator has to look.
func TestQuestionAboutReexecute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, d, w := newStore(), &detective{says: retrysafe.Resolution{Outcome: retrysafe.Doubtful}}, new(remembers)
		anew := retrysafe.Policy{OnDoubt: retrysafe.Reexecute, Lease: time.Minute}
		begin := func() {
			dies(t, s, anew, func(ctx context.Context) { _, _ = w.work(ctx) })
			time.Sleep(time.Minute)
		}
		_, err := retrysafe.Do(ctx, engineOn(t, s, anew), charge, w.work)
		assert.ErrorIs(t, err, errWork, "released")
		begin()
		begin()
		time.Sleep(2 * time.Minute)
		strict := engineOn(t, s, d.policy())
		_, err = retrysafe.Do(ctx, strict, charge, w.work)
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a call under Refuse")
		assert.Equal(t, fences(&d.asked[0]), w.fences, "what may have worked")
		assert.Equal(t, len(w.fences), 3, "starts")
		for range 15 {
			time.Sleep(3 * time.Minute)
			begin()
		}
		time.Sleep(3 * time.Minute)
		_, err = retrysafe.Do(ctx, strict, charge, w.work)
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "after more than are named")
		assert.Contains(t, err.Error(), "more attempts may have worked", "why")
		d.started(t, 1)
	})
}
