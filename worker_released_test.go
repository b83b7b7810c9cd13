package retrysafe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

var errBankClosed = errors.New("the bank is closed")

// TestWorkerLeavesWhatCallersWereTold: under Refuse, work whose caller knows that nothing happened
// runs only if it is called again.
func TestWorkerLeavesWhatCallersWereTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, mode := range []retrysafe.OnDoubt{retrysafe.Refuse, retrysafe.Reexecute} {
			e := engineOn(t, newStore(), retrysafe.Policy{Lease: time.Minute, OnDoubt: mode})
			runs := 0
			op := retrysafe.NewOperation(e, "send", func(context.Context, parcel) (string, error) {
				if runs++; runs == 1 {
					return "", retrysafe.NothingDone(errBankClosed)
				}
				return "sent", nil
			}, nil).Resumable()
			_, err := op.Do(ctx, "ann", "bob", parcel{To: "bob"})
			assert.ErrorIs(t, err, errBankClosed, "the call")
			time.Sleep(time.Hour)
			got, err := retrysafe.NewWorker(&retrysafe.WorkerOptions{Logger: quiet}, op).Pass(ctx)
			assert.NoError(t, err, "a pass")
			if mode == retrysafe.Reexecute {
				assert.Equal(t, got, retrysafe.Passed{Found: 1, Finished: 1}, "under Reexecute")
				continue
			}
			assert.Equal(t, got, retrysafe.Passed{}, "under Refuse")
			_, err = op.Do(ctx, "ann", "bob", parcel{To: "bob"})
			assert.NoError(t, err, "the next call")
			assert.Equal(t, runs, 2, "runs")
		}
	})
}

// TestWorkerTakesWhatNobodyWasTold: what Reconcile, an operator or a worker has released has no
// caller that retries.
func TestWorkerTakesWhatNobodyWasTold(t *testing.T) {
	released := map[string]func(t *testing.T, op *retrysafe.Operation[parcel, string], e *retrysafe.Engine){
		"by ReconcileAll": func(t *testing.T, op *retrysafe.Operation[parcel, string], _ *retrysafe.Engine) {
			t.Helper()
			n, err := op.ReconcileAll(ctx)
			assert.True(t, n == 1 && err == nil, "questions: %d %v", n, err)
		},
		"by a person": func(t *testing.T, _ *retrysafe.Operation[parcel, string], e *retrysafe.Engine) {
			t.Helper()
			rec := lookup(t, e, sendKey("bob"))
			assert.NoError(t, e.Resolve(ctx, rec.Key.Key, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone}), "resolve")
		},
		"by a worker": func(t *testing.T, op *retrysafe.Operation[parcel, string], _ *retrysafe.Engine) {
			t.Helper()
			got, err := retrysafe.NewWorker(&retrysafe.WorkerOptions{Logger: quiet}, op).Pass(ctx)
			assert.NoError(t, err, "a pass")
			assert.Equal(t, got, retrysafe.Passed{Found: 1, Unfinished: 1}, "what it has done")
		},
	}
	t.Parallel()
	for name, release := range released {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, w := newStore(), newTrip()
				p := retrysafe.Policy{Lease: 10 * time.Second, Reconcile: func(context.Context, retrysafe.Record) (retrysafe.Resolution, error) {
					return retrysafe.Resolution{Outcome: retrysafe.NotDone}, nil
				}}
				w.abandoned(t, s, p, "bob")
				time.Sleep(time.Hour)
				e := engineOn(t, s, p)
				closed := name == "by a worker"
				op := retrysafe.NewOperation(e, "send", func(ctx context.Context, in parcel) (string, error) {
					if closed {
						closed = false
						return "", retrysafe.NothingDone(errBankClosed)
					}
					return w.all(ctx, "pack "+in.To, "pay "+in.To, "post "+in.To)
				}, nil).Resumable()
				release(t, op, e)
				assert.Equal(t, lookup(t, e, sendKey("bob")).State, retrysafe.StateReleased, "%s: the record", name)
				time.Sleep(time.Hour)
				got, err := retrysafe.NewWorker(&retrysafe.WorkerOptions{Logger: quiet}, op).Pass(ctx)
				assert.NoError(t, err, "%s: a pass", name)
				assert.Equal(t, got, retrysafe.Passed{Found: 1, Finished: 1}, "%s: what it has done", name)
				w.times(t, map[string]int{"pack bob": 1, "pay bob": 1, "post bob": 1})
			})
		})
	}
}

// TestWorkerCountsTries: calls of Reconcile do not use up tries, and a record that was reopened has
// all of them again.
func TestWorkerCountsTries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked, runs, heal := 0, 0, false
		e := engineOn(t, newStore(), retrysafe.Policy{Lease: time.Minute, Reconcile: func(context.Context, retrysafe.Record) (retrysafe.Resolution, error) {
			if asked++; asked <= 8 {
				return retrysafe.Resolution{}, errors.New("away")
			}
			return retrysafe.Resolution{Outcome: retrysafe.NotDone}, nil
		}})
		op := retrysafe.NewOperation(e, "send", func(context.Context, parcel) (string, error) {
			if runs++; heal {
				return "sent", nil
			}
			return "", errWork
		}, nil).Resumable()
		w := retrysafe.NewWorker(&retrysafe.WorkerOptions{MaxAttempts: 3, Logger: quiet}, op)
		_, err := op.Do(ctx, "ann", "bob", parcel{To: "bob"})
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the call")
		passes := func(most int) (p retrysafe.Passed) {
			for range most {
				time.Sleep(10 * time.Minute)
				p, err = w.Pass(ctx)
				assert.NoError(t, err, "a pass")
				if p.GivenUp > 0 {
					return p
				}
			}
			return p
		}
		assert.Equal(t, passes(20).GivenUp, 1, "given up")
		assert.Equal(t, runs, 3, "runs before it is given up")
		rec := lookup(t, e, sendKey("bob"))
		assert.NoError(t, e.Resolve(ctx, rec.Key.Key, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone, Reopen: true}), "reopen")
		heal = true
		assert.Equal(t, passes(1), retrysafe.Passed{Found: 1, Finished: 1}, "after it was reopened")
	})
}

// TestLostClaimOfReleasedWork: an operator has found out that nothing happened, and the answer to a
// worker's claim is lost. The claim did nothing either, so the record is released as before, and a
// worker runs it.
func TestLostClaimOfReleasedWork(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]retrysafe.OnDoubt{"Refuse": retrysafe.Refuse, "Reexecute": retrysafe.Reexecute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, w := newStore(), newTrip()
				p := retrysafe.Policy{Lease: 10 * time.Second, OnDoubt: mode}
				w.abandoned(t, s, p, "bob")
				time.Sleep(time.Hour)
				e := engineOn(t, s, p)
				rec := lookup(t, e, sendKey("bob"))
				assert.NoError(t, e.Resolve(ctx, rec.Key.Key, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone, By: "kim"}), "resolve")
				before := lookup(t, e, sendKey("bob"))
				time.Sleep(time.Hour)

				lost := engineOn(t, storetest.NewFaulty(s, only("acquire", storetest.LoseReply, 1, 3)), p)
				_, err := retrysafe.NewWorker(&retrysafe.WorkerOptions{Logger: quiet}, w.sending(lost, retrysafe.Policy{})).Pass(ctx)
				assert.NoError(t, err, "a pass whose claim is not answered")
				time.Sleep(time.Hour)
				now := lookup(t, e, sendKey("bob"))
				assert.True(t, now.State == retrysafe.StateReleased && now.Cause == before.Cause && now.LastError == before.LastError, "released as before: %+v", now)
				got, err := retrysafe.NewWorker(&retrysafe.WorkerOptions{Logger: quiet}, w.sending(e, retrysafe.Policy{})).Pass(ctx)
				assert.NoError(t, err, "a pass")
				assert.Equal(t, got, retrysafe.Passed{Found: 1, Finished: 1}, "what it has done")
			})
		})
	}
}
