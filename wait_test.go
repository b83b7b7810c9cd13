package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// many calls Do n times at once and returns the result of each.
func many(n int, call func() (retrysafe.Result[string], error)) ([]retrysafe.Result[string], []error) {
	results, errs := make([]retrysafe.Result[string], n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { results[i], errs[i] = call() })
	}
	wg.Wait()
	return results, errs
}

func TestFiftyAtOnceWithWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), nil)
		e, c := engineOn(t, f, retrysafe.Policy{Wait: 5 * time.Second}), new(counter)
		results, errs := many(50, func() (retrysafe.Result[string], error) {
			return retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
				time.Sleep(3 * time.Second)
				return c.work(ctx)
			})
		})
		for i := range results {
			assert.NoError(t, errs[i], "call %d", i)
			assert.Equal(t, results[i].Value, "receipt", "value %d", i)
		}
		c.started(t, 1)
		// Jittered polls of one watcher, not of 49: three seconds give about five.
		assert.True(t, f.Calls("lookup") < 20, "look-ups are shared: %d", f.Calls("lookup"))
	})
}

func TestRejectAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), retrysafe.Policy{})
		a, _, err := e.Begin(ctx, charge)
		assert.NoError(t, err, "begin")
		begun := time.Now()
		_, err = retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.ErrorIs(t, err, retrysafe.ErrInProgress, "call")
		assert.Equal(t, time.Since(begun), 0, "without waiting")
		after, ok := retrysafe.Retryable(err)
		assert.True(t, ok && after == 5*time.Second, "retry after %v", after)
		assert.NoError(t, a.Release(ctx, nil), "release")
	})
}

func TestWaitEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), retrysafe.Policy{Wait: 5 * time.Second})
		a, _, err := e.Begin(ctx, charge)
		assert.NoError(t, err, "begin")
		begun := time.Now()
		_, err = retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.ErrorIs(t, err, retrysafe.ErrInProgress, "call")
		assert.Equal(t, time.Since(begun), 5*time.Second, "the patience of the policy")
		leaver, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		begun = time.Now()
		_, err = retrysafe.Do(leaver, e, charge, new(counter).work)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "a caller that leaves")
		assert.Equal(t, time.Since(begun), time.Second, "leaves at once")
		assert.NoError(t, a.Release(ctx, nil), "release")
	})
}

// TestWaitersDoNotExecute: fifty waiters of an attempt that fails would run the failing work fifty
// times.
func TestWaitersDoNotExecute(t *testing.T) {
	t.Parallel()
	for _, onDoubt := range []retrysafe.OnDoubt{retrysafe.Refuse, retrysafe.Reexecute} {
		t.Run(fmt.Sprint(onDoubt), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, c := engineOn(t, newStore(), retrysafe.Policy{Wait: time.Minute, OnDoubt: onDoubt}), new(counter)
				_, errs := many(50, func() (retrysafe.Result[string], error) {
					return retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) {
						time.Sleep(time.Second)
						return "", retrysafe.NothingDone(c.fail(errWork))
					})
				})
				told := 0
				for _, err := range errs {
					if errors.Is(err, retrysafe.ErrAttemptFailed) {
						told++
						after, ok := retrysafe.Retryable(err)
						assert.True(t, ok && after >= time.Second && after <= 3*time.Second, "retry after %v", after)
					}
				}
				c.started(t, 1)
				assert.Equal(t, told, 49, "waiters that were told to try again")
			})
		})
	}
}

func TestWaitersOfADoubt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, c := engineOn(t, newStore(), retrysafe.Policy{Wait: time.Minute}), new(counter)
		_, errs := many(20, func() (retrysafe.Result[string], error) {
			return retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { time.Sleep(time.Second); return "", c.fail(errWork) })
		})
		for _, err := range errs {
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "every caller")
		}
		c.started(t, 1)
	})
}

// TestTakeoverAfterACrash: under Reexecute one of the waiters takes over, and the others wait for
// it.
func TestTakeoverAfterACrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		p := retrysafe.Policy{Wait: time.Minute, OnDoubt: retrysafe.Reexecute, Lease: 10 * time.Second}
		crashed(t, s, p)
		c := new(counter)
		var wg sync.WaitGroup
		for range 2 { // two processes
			e := engineOn(t, s, p)
			wg.Go(func() {
				results, errs := many(10, func() (retrysafe.Result[string], error) {
					return retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) { time.Sleep(time.Second); return c.work(ctx) })
				})
				for i, err := range errs {
					if err != nil || results[i].Value != "receipt" || results[i].Attempt != 2 {
						t.Errorf("waiter %d: %+v, %v", i, results[i], err)
					}
				}
			})
		}
		wg.Wait()
		c.started(t, 1)
	})
}

func TestWaitForAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		one, two := engineOn(t, s, retrysafe.Policy{}), engineOn(t, s, retrysafe.Policy{Wait: time.Minute})
		a, _, err := one.Begin(ctx, charge)
		assert.NoError(t, err, "begin")
		go func() {
			time.Sleep(10 * time.Second)
			_ = a.Complete(ctx, retrysafe.Answer{Codec: "json", Body: []byte(`"theirs"`), Kept: true})
		}()
		begun := time.Now()
		res, err := retrysafe.Do(ctx, two, charge, new(counter).work)
		assert.NoError(t, err, "call")
		assert.Equal(t, res.Value, "theirs", "value")
		assert.True(t, time.Since(begun) < 12*time.Second, "polls come at least every second and a half: %v", time.Since(begun))
	})
}

func TestWaitersAreCapped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), retrysafe.Policy{Wait: time.Minute})
		a, _, err := e.Begin(ctx, charge)
		assert.NoError(t, err, "begin")
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() { _, _ = retrysafe.Do(ctx, e, charge, new(counter).work) })
		}
		synctest.Wait()
		begun := time.Now()
		_, err = retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.ErrorIs(t, err, retrysafe.ErrInProgress, "one more")
		assert.Equal(t, time.Since(begun), 0, "is rejected at once")
		assert.NoError(t, a.Complete(ctx, retrysafe.Answer{Codec: "json", Body: []byte(`"v"`), Kept: true}), "complete")
		wg.Wait()
	})
}

func TestSecondAttemptIsNotWhatWasWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		one, two := engineOn(t, s, retrysafe.Policy{}), engineOn(t, s, retrysafe.Policy{Wait: time.Minute})
		a, _, err := one.Begin(ctx, charge)
		assert.NoError(t, err, "begin")
		told := make(chan error, 1)
		go func() {
			_, err := retrysafe.Do(ctx, two, charge, new(counter).work)
			told <- err
		}()
		synctest.Wait()
		assert.NoError(t, a.Release(ctx, nil), "release")
		b, _, err := one.Begin(ctx, charge)
		assert.NoError(t, err, "begin again")
		assert.ErrorIs(t, <-told, retrysafe.ErrAttemptFailed, "the attempt that was found has ended")
		assert.NoError(t, b.Release(ctx, nil), "release")
	})
}

// notifying is a store that notifies its watchers when the test says so.
type notifying struct {
	*storetest.Faulty
	watches atomic.Int64
	changed chan struct{}
	lost    chan struct{} // closed: the connection is gone
}

func (n *notifying) Watch(ctx context.Context, _ storeapi.StoreKey, changed func()) error {
	n.watches.Add(1)
	changed()
	for {
		select {
		case <-n.changed:
			changed()
		case <-n.lost:
			return errors.New("the connection is gone")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestWaitersAreToldOfTheEnd: if the store notifies, waiters learn at once of an end in another
// process, and waiting costs few lookups. If it stops notifying, they go on asking.
func TestWaitersAreToldOfTheEnd(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"told": false, "not told any more": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &notifying{Faulty: storetest.NewFaulty(newStore(), nil), changed: make(chan struct{}), lost: make(chan struct{})}
				there, here := engineOn(t, s.Faulty, retrysafe.Policy{}), engineOn(t, s, retrysafe.Policy{Wait: 20 * time.Second})
				a, _, err := there.Begin(ctx, charge)
				assert.NoError(t, err, "begin elsewhere")
				var latest atomic.Int64
				var waiting sync.WaitGroup
				for range 5 {
					waiting.Go(func() {
						begun := time.Now()
						_, _ = retrysafe.Do(ctx, here, charge, new(counter).work)
						latest.Store(int64(time.Since(begun)))
					})
				}
				synctest.Wait()
				assert.Equal(t, s.watches.Load(), int64(1), "watches of five waiters")
				if lost {
					close(s.lost)
				}
				time.Sleep(7 * time.Second)
				asked := s.Calls("lookup")
				assert.True(t, asked < 16, "questions in seven seconds: %d", asked)
				assert.NoError(t, a.Release(ctx, nil), "the end")
				if !lost {
					s.changed <- struct{}{}
				}
				waiting.Wait()
				told := time.Duration(latest.Load())
				if lost {
					assert.True(t, told > 7*time.Second && told < 9*time.Second, "found out after %v", told)
					return
				}
				assert.Equal(t, told, 7*time.Second, "told after")
			})
		})
	}
}
