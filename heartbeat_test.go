package retrysafe_test

import (
	"context"
	"errors"
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

func TestHeartbeatsKeepALongRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), nil)
		e := engineOn(t, f, retrysafe.Policy{Lease: 30 * time.Second})
		res, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			time.Sleep(2 * time.Minute)
			rec := lookup(t, e, charge)
			assert.True(t, rec.LeaseLeft > 15*time.Second, "lease left in the middle: %v", rec.LeaseLeft)
			return "v", ctx.Err()
		})
		assert.NoError(t, err, "a run of four leases")
		assert.True(t, res.Stored, "stored")
		assert.True(t, f.Calls("extend") >= 8, "extends: %d", f.Calls("extend"))
	})
}

func TestAShortRunCostsNoHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), nil)
		e := engineOn(t, f, retrysafe.Policy{Lease: 30 * time.Second})
		for i := range 100 {
			k := retrysafe.Key{Operation: "short", ID: string(rune('a' + i))}
			_, err := retrysafe.Do(ctx, e, k, func(context.Context) (string, error) { time.Sleep(9 * time.Second); return "", nil })
			assert.NoError(t, err, "call")
		}
		assert.Equal(t, f.Calls("extend"), 0, "extends")
	})
}

// TestContextEndsInTime is E3: a context ends a tenth of the lease before the lease does, counted
// from when the call was sent, whether the store loses calls, blocks, or is gone.
func TestContextEndsInTime(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{
		"extends are lost": storetest.LoseRequest, "extends block": storetest.Block, "their replies block": storetest.BlockReply,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := engineOn(t, storetest.NewFaulty(newStore(), only("extend", fault, 1, 1000)), retrysafe.Policy{Lease: 30 * time.Second})
				begun := time.Now()
				_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
					<-ctx.Done()
					assert.Equal(t, time.Since(begun), 27*time.Second, "when the context ended")
					assert.ErrorIs(t, context.Cause(ctx), retrysafe.ErrLeaseLost, "its cause")
					return "", ctx.Err()
				})
				assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "under Refuse")
			})
		})
	}
}

// TestContextEndsInTimeAfterAnExtend: the end counts from when the last successful call was sent.
func TestContextEndsInTimeAfterAnExtend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, storetest.NewFaulty(newStore(), only("extend", storetest.Block, 3, 1000)), retrysafe.Policy{Lease: 30 * time.Second})
		begun := time.Now()
		_, _ = retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			assert.Equal(t, time.Since(begun), (10+10+27)*time.Second, "when the context ended")
			return "", ctx.Err()
		})
	})
}

func TestLeaseOutlivesALostExtend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, storetest.NewFaulty(newStore(), only("extend", storetest.LoseReply, 1, 2)), retrysafe.Policy{Lease: 30 * time.Second})
		_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			time.Sleep(5 * time.Minute / 2)
			return "", ctx.Err()
		})
		assert.NoError(t, err, "two lost replies do no harm")
	})
}

// TestMaxRun is E5: after MaxRun the lease is not extended, and the context ends with its own
// cause.
func TestMaxRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lost, done := make(chan error, 1), make(chan string, 2)
		e := engineWith(t, newStore(), &retrysafe.Options{
			Policy: retrysafe.Policy{Lease: 10 * time.Second, MaxRun: 45 * time.Second, OnDoubt: retrysafe.Reexecute},
			Trace: &retrysafe.Trace{
				Lost: func(_ context.Context, a retrysafe.AttemptInfo) { lost <- a.Err },
				Call: func(ctx context.Context, _ retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
					return ctx, func(d retrysafe.CallDone) { done <- d.Outcome }
				},
			},
		})
		begun := time.Now()
		_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			assert.Equal(t, time.Since(begun), 45*time.Second, "when the context ended")
			assert.ErrorIs(t, context.Cause(ctx), retrysafe.ErrMaxRun, "its cause")
			return "", errWork
		})
		assert.ErrorIs(t, err, errWork, "the caller's error")
		assert.ErrorIs(t, <-lost, retrysafe.ErrMaxRun, "the error in the trace")
		assert.Equal(t, <-done, "lease-lost", "the outcome in the trace")
		// E4: not released, although Reexecute would release it. Its lease has to expire first.
		rec := lookup(t, e, charge)
		assert.Equal(t, rec.State, retrysafe.StateInProgress, "state")
		time.Sleep(10 * time.Second)
		_, err = retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.NoError(t, err, "after the lease it runs again")
	})
}

// TestReleaseAfterLoss is E4 and E7: an error that the work itself marks counts also after its
// context has ended. What a default or Classify says does not.
func TestReleaseAfterLoss(t *testing.T) {
	t.Parallel()
	nothing := func(error) retrysafe.Outcome { return retrysafe.NotDone }
	for name, c := range map[string]struct {
		policy retrysafe.Policy
		err    error
		want   retrysafe.State
	}{
		"marked":          {retrysafe.Policy{}, retrysafe.NothingDone(errWork), retrysafe.StateReleased},
		"marked, again":   {retrysafe.Policy{OnDoubt: retrysafe.Reexecute}, retrysafe.NothingDone(errWork), retrysafe.StateReleased},
		"marked in part":  {retrysafe.Policy{OnDoubt: retrysafe.Reexecute}, errors.Join(retrysafe.NothingDone(errWork), errWork), retrysafe.StateInProgress},
		"by Classify":     {retrysafe.Policy{Classify: nothing}, errWork, retrysafe.StateInProgress},
		"by its default":  {retrysafe.Policy{OnDoubt: retrysafe.Reexecute}, errWork, retrysafe.StateInProgress},
		"nobody can tell": {retrysafe.Policy{}, errWork, retrysafe.StateInProgress},
	} {
		for loss, hook := range map[string]func(string, int) storetest.Fault{
			"bound":     nil,
			"heartbeat": only("extend", storetest.LoseRequest, 1, 1000),
			"away": func(op string, call int) storetest.Fault {
				if op == "extend" || op == "release" && call <= 3 {
					return storetest.LoseRequest
				}
				return 0
			},
			"shutdown": nil,
		} {
			t.Run(name+"/"+loss, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s, p := newStore(), c.policy
					p.Lease, p.MaxRun = 10*time.Second, 45*time.Second
					e := retrysafe.New(storetest.NewFaulty(s, hook), &retrysafe.Options{Policy: p})
					if loss == "shutdown" {
						time.AfterFunc(5*time.Second, func() {
							end, cancel := context.WithTimeout(ctx, time.Second)
							defer cancel()
							_ = e.Shutdown(end)
						})
					}
					_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
						<-ctx.Done()
						return "", c.err
					})
					assert.ErrorIs(t, err, errWork, "the caller's error")
					time.Sleep(10 * time.Second) // an unanswered call is sent again
					assert.Equal(t, lookup(t, engineOn(t, s, retrysafe.Policy{}), charge).State, c.want, "state")
					_ = e.Shutdown(ctx)
				})
			})
		}
	}
}

// TestCompleteAfterLoss is the other half of E4, and E8: work that was done in spite of a lost
// lease is recorded if no attempt took over.
func TestCompleteAfterLoss(t *testing.T) {
	t.Parallel()
	for name, takeover := range map[string]bool{"nobody took over": false, "somebody took over": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore()
				p := retrysafe.Policy{Lease: 10 * time.Second, OnDoubt: retrysafe.Reexecute}
				e := engineOn(t, storetest.NewFaulty(s, only("extend", storetest.LoseRequest, 1, 1000)), p)
				other := engineOn(t, s, p)
				res, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) {
					time.Sleep(time.Minute) // it does not look at its context
					if takeover {
						_, err := retrysafe.Do(ctx, other, charge, func(context.Context) (string, error) { return "other", nil })
						assert.NoError(t, err, "takeover")
					}
					return "mine", nil
				})
				assert.Equal(t, res.Value, "mine", "the caller has its value")
				assert.Equal(t, res.Stored, !takeover, "stored")
				assert.Equal(t, errors.Is(err, retrysafe.ErrLeaseLost), takeover, "lease lost")
				again, err := retrysafe.Do(ctx, other, charge, new(counter).work)
				assert.NoError(t, err, "repeat")
				assert.Equal(t, again.Value, map[bool]string{false: "mine", true: "other"}[takeover], "what repeats are told")
			})
		})
	}
}

// TestClocksAnHourApart is S13 for the engine: only the store's clock counts.
func TestClocksAnHourApart(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"store ahead": time.Hour, "store behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(skew) }})
				e, c := engineOn(t, s, retrysafe.Policy{}), new(counter)
				for range 2 {
					_, err := retrysafe.Do(ctx, e, charge, c.work)
					assert.NoError(t, err, "call")
				}
				c.started(t, 1)
			})
		})
	}
}

// TestStoreClockJumps: after a jump of the store's clock the estimate is wrong. The call detects
// that and continues.
func TestStoreClockJumps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var skew atomic.Int64
		s := memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }})
		e, c := engineOn(t, s, retrysafe.Policy{}), new(counter)
		_, err := retrysafe.Do(ctx, e, charge, c.work)
		assert.NoError(t, err, "before")
		skew.Store(int64(time.Hour))
		_, err = retrysafe.Do(ctx, e, retrysafe.Key{Operation: "charge", ID: "k-2"}, c.work)
		assert.NoError(t, err, "after a jump forward")
		skew.Store(int64(-time.Hour))
		_, err = retrysafe.Do(ctx, e, retrysafe.Key{Operation: "charge", ID: "k-3"}, c.work)
		assert.NoError(t, err, "after a jump back")
		c.started(t, 3)
	})
}

func TestAttemptContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type valueKey struct{}
		e := engineOn(t, newStore(), retrysafe.Policy{})
		caller, hangUp := context.WithCancel(context.WithValue(ctx, valueKey{}, "v"))
		a, _, err := e.Begin(caller, charge, retrysafe.Detached())
		assert.NoError(t, err, "begin")
		child, stop := context.WithCancel(a.Context())
		defer stop()
		hangUp()
		synctest.Wait()
		assert.NoError(t, child.Err(), "a detached attempt outlives its caller")
		assert.Equal(t, child.Value(valueKey{}), any("v"), "and keeps its values")
		found, ok := retrysafe.AttemptFrom(child)
		assert.True(t, ok && found == a, "the attempt is found in contexts made of its own")
		assert.NoError(t, a.Complete(ctx, retrysafe.Answer{Codec: "raw", Kept: true}), "complete")
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(child), retrysafe.ErrEnded, "the context ends with the attempt")
		assert.ErrorIs(t, a.Release(ctx, nil), retrysafe.ErrEnded, "a second ending")

		caller, hangUp = context.WithCancel(ctx)
		b, _, err := e.Begin(caller, retrysafe.Key{Operation: "charge", ID: "k-2"})
		assert.NoError(t, err, "begin")
		hangUp()
		assert.ErrorIs(t, b.Context().Err(), context.Canceled, "an attached one ends with its caller")
		assert.NoError(t, b.Release(caller, nil), "and can still be ended")
	})
}

// TestExtendNow: work that is about to act makes sure of its lease. It gets an error if another
// attempt took over, if it has ended, or if the lease is uncertain.
func TestExtendNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), only("extend", storetest.LoseRequest, 2, 2))
		e := engineOn(t, f, retrysafe.Policy{Lease: 30 * time.Second})
		a, _, err := e.Begin(ctx, charge)
		assert.NoError(t, err, "begin")
		assert.Equal(t, a.LeaseLeft(), 27*time.Second, "lease left at first")
		time.Sleep(5 * time.Second)
		assert.Equal(t, a.LeaseLeft(), 22*time.Second, "lease left")
		assert.NoError(t, a.Extend(ctx), "extend")
		assert.Equal(t, a.LeaseLeft(), 27*time.Second, "lease left after it")
		time.Sleep(9 * time.Second) // the heartbeat counts from the last call: not due yet
		assert.Equal(t, f.Calls("extend"), 1, "extends so far")
		assert.ErrorIs(t, a.Extend(ctx), retrysafe.ErrUnavailable, "the call is lost")
		assert.NoError(t, context.Cause(a.Context()), "nothing is lost by that")
		rec := lookup(t, e, charge)
		assert.NoError(t, f.Release(ctx, storeapi.ReleaseRequest{Key: rec.Key, Owner: rec.Owner, Fence: rec.Fence, InDoubt: true}), "release")
		assert.ErrorIs(t, a.Extend(ctx), retrysafe.ErrLeaseLost, "somebody else has settled it")
		assert.ErrorIs(t, context.Cause(a.Context()), retrysafe.ErrLeaseLost, "its context has ended")
		assert.Equal(t, a.LeaseLeft(), time.Duration(0), "lease left")
		assert.ErrorIs(t, a.Extend(ctx), retrysafe.ErrLeaseLost, "once more")
	})
}

// TestExtendOfALostAttempt: after the engine has ended the attempt's context, Extend returns an
// error, even if the store extends the lease.
func TestExtendOfALostAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), retrysafe.Policy{Lease: 10 * time.Second, MaxRun: 20 * time.Second})
		a, _, err := e.Begin(ctx, charge)
		assert.NoError(t, err, "begin")
		assert.NoError(t, a.Extend(ctx), "while it runs")
		time.Sleep(21 * time.Second)
		assert.ErrorIs(t, context.Cause(a.Context()), retrysafe.ErrMaxRun, "its context")
		assert.ErrorIs(t, a.Extend(ctx), retrysafe.ErrLeaseLost, "more time")
	})
}
