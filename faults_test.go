package retrysafe_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestLostReplyOfAcquire: the repeated call has the same owner, so the claim is the caller's own
// and not a duplicate.
func TestLostReplyOfAcquire(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{"request": storetest.LoseRequest, "reply": storetest.LoseReply} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, c := engineOn(t, storetest.NewFaulty(newStore(), only("acquire", fault, 1, 2)), retrysafe.Policy{}), new(counter)
				res, err := retrysafe.Do(ctx, e, charge, c.work)
				assert.NoError(t, err, "call")
				assert.Equal(t, res.Attempt, 1, "attempt")
				c.started(t, 1)
			})
		})
	}
}

// TestUnansweredClaimIsGivenBack is E2. Otherwise an outage of the store would leave keys in doubt
// although nothing ran.
func TestUnansweredClaimIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		f := storetest.NewFaulty(s, only("acquire", storetest.LoseReply, 1, 3))
		e, c := engineOn(t, f, retrysafe.Policy{}), new(counter)
		_, err := retrysafe.Do(ctx, e, charge, c.work)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "no answer at all")
		after, ok := retrysafe.Retryable(err)
		assert.True(t, ok && after > 0, "it may be retried: %v", after)
		rec := lookup(t, e, charge)
		assert.Equal(t, rec.State, retrysafe.StateInProgress, "the claim was made")
		time.Sleep(6 * time.Second)
		rec = lookup(t, e, charge)
		assert.Equal(t, rec.State, retrysafe.StateReleased, "after its time limit it is given back")
		assert.Equal(t, rec.Cause, "unanswered", "cause")
		_, err = retrysafe.Do(ctx, e, charge, c.work)
		assert.NoError(t, err, "the retry runs")
		c.started(t, 1)
	})
}

// TestClaimThatArrivesLate: a request that the network delivers after its caller has gone does not
// acquire the key.
func TestClaimThatArrivesLate(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"before its limit": time.Second, "after its limit": 7 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := storetest.NewFaulty(newStore(), only("acquire", storetest.Delay, 1, 3))
				e, c := engineOn(t, f, retrysafe.Policy{}), new(counter)
				_, err := retrysafe.Do(ctx, e, charge, c.work)
				assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "call")
				time.Sleep(late)
				f.Deliver()
				time.Sleep(10 * time.Second)
				_, err = retrysafe.Do(ctx, e, charge, c.work)
				assert.NoError(t, err, "no ghost holds the key")
				c.started(t, 1)
			})
		})
	}
}

// TestReclaimNeverTakesARunningAttempt: a later try was answered, so nothing may be given back.
func TestReclaimNeverTakesARunningAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), only("acquire", storetest.LoseReply, 1, 2))
		e := engineOn(t, f, retrysafe.Policy{})
		_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			time.Sleep(time.Minute)
			return "v", ctx.Err()
		})
		assert.NoError(t, err, "call")
		assert.Equal(t, f.Calls("release"), 0, "releases")
	})
}

func TestCallerGoneBeforeTheWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		caller, hangUp := context.WithCancel(ctx)
		f := storetest.NewFaulty(newStore(), func(op string, _ int) storetest.Fault {
			if op == "acquire" {
				hangUp() // while the store answers
			}
			return 0
		})
		e, c := engineOn(t, f, retrysafe.Policy{}), new(counter)
		_, err := retrysafe.Do(caller, e, charge, c.work)
		assert.ErrorIs(t, err, context.Canceled, "call")
		c.started(t, 0)
		time.Sleep(10 * time.Second)
		_, err = retrysafe.Do(ctx, e, charge, c.work)
		assert.NoError(t, err, "the key was given back")
	})
}

// TestNoReleaseAfterComplete is E1: an answer that may have been stored is never released.
func TestNoReleaseAfterComplete(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{"request lost": storetest.LoseRequest, "reply lost": storetest.LoseReply} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := storetest.NewFaulty(newStore(), only("complete", fault, 1, 3))
				e, c := engineOn(t, f, retrysafe.Policy{}), new(counter)
				res, err := retrysafe.Do(ctx, e, charge, c.work)
				assert.NoError(t, err, "call")
				assert.True(t, res.Stored, "repeated until it was answered, within the caller's two seconds")
				assert.Equal(t, f.Calls("release"), 0, "releases")
				again, err := retrysafe.Do(ctx, e, charge, c.work)
				assert.NoError(t, err, "repeat")
				assert.True(t, again.Replayed, "replayed")
				c.started(t, 1)
			})
		})
	}
}

// TestStoreAwayAtComplete is E8: after two seconds the caller has its value. The answer is stored
// when the store is back.
func TestStoreAwayAtComplete(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{"refuses": storetest.LoseRequest, "hangs": storetest.Block} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				told := make(chan int, 1)
				var away atomic.Bool
				away.Store(true)
				f := storetest.NewFaulty(newStore(), func(op string, _ int) storetest.Fault {
					if away.Load() && op == "complete" {
						return fault
					}
					return 0
				})
				e := engineWith(t, f, &retrysafe.Options{Trace: &retrysafe.Trace{
					Unconfirmed: func(_ context.Context, a retrysafe.AttemptInfo) { told <- a.Attempt },
				}})
				c, begun := new(counter), time.Now()
				res, err := retrysafe.Do(ctx, e, charge, c.work)
				assert.NoError(t, err, "call")
				assert.Equal(t, time.Since(begun), 2*time.Second, "how long the caller waited")
				assert.True(t, res.Value == "receipt" && !res.Stored, "value, not stored: %+v", res)
				assert.Equal(t, <-told, 1, "the trace was told")
				_, err = retrysafe.Do(ctx, e, charge, c.work)
				assert.ErrorIs(t, err, retrysafe.ErrInProgress, "meanwhile a repeat is told that it is in progress")
				time.Sleep(time.Minute) // heartbeats hold the key
				away.Store(false)
				time.Sleep(5 * time.Second)
				again, err := retrysafe.Do(ctx, e, charge, c.work)
				assert.NoError(t, err, "repeat")
				assert.True(t, again.Replayed && again.Value == "receipt", "replayed: %+v", again)
				c.started(t, 1)
			})
		})
	}
}

func TestStoreAwayForGood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var out outage
		done := make(chan string, 2)
		e := engineWith(t, storetest.NewFaulty(newStore(), out.hook), &retrysafe.Options{Trace: &retrysafe.Trace{
			Call: func(ctx context.Context, _ retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
				return ctx, func(d retrysafe.CallDone) { done <- d.Outcome }
			},
		}})
		c := new(counter)
		_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			out.on.Store(true)
			return c.work(ctx)
		})
		assert.NoError(t, err, "the caller has its value")
		time.Sleep(long)
		assert.Equal(t, <-done, "unconfirmed", "the outcome in the trace")
		out.on.Store(false)
		_, err = retrysafe.Do(ctx, e, charge, c.work)
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "nobody knows, and nobody runs it again")
		c.started(t, 1)
	})
}

func TestStoreAwayFromTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var out outage
		out.on.Store(true)
		e, c := engineOn(t, storetest.NewFaulty(newStore(), out.hook), retrysafe.Policy{}), new(counter)
		_, err := retrysafe.Do(ctx, e, charge, c.work)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "call")
		c.started(t, 0)
		out.on.Store(false)
		_, err = retrysafe.Do(ctx, e, charge, c.work)
		assert.NoError(t, err, "recovery needs nothing")
	})
}

// TestCertainReleaseSurvivesAnOutage: work that certainly did nothing must not end in doubt because
// the store was away.
func TestCertainReleaseSurvivesAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), only("release", storetest.LoseRequest, 1, 8))
		e, c := engineOn(t, f, retrysafe.Policy{}), new(counter)
		_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", retrysafe.NothingDone(errWork) })
		assert.ErrorIs(t, err, errWork, "call")
		time.Sleep(30 * time.Second)
		_, err = retrysafe.Do(ctx, e, charge, c.work)
		assert.NoError(t, err, "the retry runs")
	})
}

// TestAnswerAfterTheLease: a claim whose reply took longer than the lease runs nothing.
func TestAnswerAfterTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := &slowAcquire{Store: newStore(), wait: 4 * time.Second}
		e, c := engineOn(t, slow, retrysafe.Policy{Lease: 3 * time.Second}), new(counter)
		_, err := retrysafe.Do(ctx, e, charge, c.work)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "call")
		c.started(t, 0)
		assert.Equal(t, lookup(t, e, charge).State, retrysafe.StateReleased, "given back")
	})
}

// slowAcquire applies calls in time and answers them late.
type slowAcquire struct {
	*memstore.Store
	wait time.Duration
}

func (s *slowAcquire) Acquire(ctx context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	got, err := s.Store.Acquire(ctx, r)
	time.Sleep(s.wait)
	return got, err
}

func TestShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := retrysafe.New(newStore(), nil)
		done := make(chan error, 1)
		go func() {
			_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { time.Sleep(5 * time.Second); return "v", nil })
			done <- err
		}()
		synctest.Wait()
		begun := time.Now()
		assert.NoError(t, e.Shutdown(ctx), "shutdown")
		assert.Equal(t, time.Since(begun), 5*time.Second, "it waits for what runs")
		assert.NoError(t, <-done, "which ends well")
		_, err := retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.ErrorIs(t, err, retrysafe.ErrClosed, "afterwards")
		assert.NoError(t, e.Shutdown(ctx), "again")
	})
}

// TestShutdownGivesUp is E7: Shutdown ends contexts and lets leases expire. It never releases work
// that may still act.
func TestShutdownGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), nil)
		e := retrysafe.New(f, nil)
		cause := make(chan error, 1)
		go func() {
			_, _ = retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
				<-ctx.Done()
				cause <- context.Cause(ctx)
				time.Sleep(time.Second) // it still acts
				return "", errWork
			}, retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute}))
		}()
		synctest.Wait()
		end, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		err := e.Shutdown(end)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "shutdown")
		assert.Contains(t, err.Error(), "1 calls", "it says how many")
		assert.ErrorIs(t, <-cause, retrysafe.ErrClosed, "the work was told")
		time.Sleep(5 * time.Second)
		assert.Equal(t, f.Calls("release"), 0, "releases")
	})
}

// TestEarlierTryArrivesLate: the second try finds another attempt running. When that one gives the
// key back, the first try, which the network has delayed, must not hold the key for no caller.
func TestEarlierTryArrivesLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		holder := engineOn(t, s, retrysafe.Policy{})
		a, _, err := holder.Begin(ctx, charge)
		assert.NoError(t, err, "begin")
		f := storetest.NewFaulty(s, only("acquire", storetest.Delay, 1, 1))
		e, c := engineOn(t, f, retrysafe.Policy{}), new(counter)
		_, err = retrysafe.Do(ctx, e, charge, c.work)
		assert.ErrorIs(t, err, retrysafe.ErrInProgress, "the second try")
		assert.NoError(t, a.Release(ctx, nil), "release")
		f.Deliver()
		assert.Equal(t, lookup(t, e, charge).State, retrysafe.StateInProgress, "the first try has won")
		time.Sleep(6 * time.Second)
		_, err = retrysafe.Do(ctx, e, charge, c.work)
		assert.NoError(t, err, "and was given back")
	})
}

// TestEarlierTryArrivesAfterTheEnd: a later try got the attempt, and the call is over. The first
// try must hold nothing.
func TestEarlierTryArrivesAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		f := storetest.NewFaulty(s, only("acquire", storetest.Delay, 1, 1))
		a, b, c := engineOn(t, f, retrysafe.Policy{}), engineOn(t, s, retrysafe.Policy{}), new(counter)
		for _, e := range []*retrysafe.Engine{a, b} {
			_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", retrysafe.NothingDone(errWork) })
			assert.ErrorIs(t, err, errWork, "a call that did nothing")
		}
		f.Deliver()
		assert.Equal(t, lookup(t, b, charge).State, retrysafe.StateInProgress, "the first try has won")
		time.Sleep(6 * time.Second)
		_, err := retrysafe.Do(ctx, b, charge, c.work)
		assert.NoError(t, err, "and was given back")
		c.started(t, 1)
	})
}

// TestSlowFailures: a store that hangs until its own limit is asked twice, and the caller gets the
// error. A store that fails at once is asked a few times.
func TestSlowFailures(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]int64{0: 3, 5 * time.Second: 2} {
		t.Run(after.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &slowToFail{Faulty: storetest.NewFaulty(newStore(), nil), after: after}
				e := engineOn(t, s, retrysafe.Policy{})
				begun := time.Now()
				_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", nil })
				assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "the caller is told")
				assert.Equal(t, s.tries.Load(), want, "tries")
				assert.True(t, time.Since(begun) < 11*time.Second, "it took %v", time.Since(begun))
			})
		})
	}
}

type slowToFail struct {
	*storetest.Faulty
	after time.Duration
	tries atomic.Int64
}

func (s *slowToFail) Acquire(context.Context, storeapi.AcquireRequest) (storeapi.Acquired, error) {
	s.tries.Add(1)
	time.Sleep(s.after)
	return storeapi.Acquired{}, storetest.ErrFault
}
