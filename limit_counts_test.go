package retrysafe_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// The counts of a tenant when callers leave, replies are lost and the store is busy.

// hooked is a memory store with hooks before and after some of its calls. A nil hook does nothing.
type hooked struct {
	*memstore.Store
	look   func(retrysafe.Record) retrysafe.Record
	charge func(ctx context.Context, req *storeapi.ChargeRequest, apply func() (storeapi.Charged, error)) (storeapi.Charged, error)
	claim  func(ctx context.Context, apply func() (storeapi.Acquired, error)) (storeapi.Acquired, error)
}

func (s *hooked) Lookup(ctx context.Context, key storeapi.StoreKey) (retrysafe.Record, error) {
	rec, err := s.Store.Lookup(ctx, key)
	if s.look != nil {
		rec = s.look(rec)
	}
	return rec, err
}

func (s *hooked) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	apply := func() (storeapi.Charged, error) { return s.Store.Charge(ctx, req) }
	if s.charge != nil {
		return s.charge(ctx, &req, apply)
	}
	return apply()
}

func (s *hooked) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	apply := func() (storeapi.Acquired, error) { return s.Store.Acquire(ctx, req) }
	if s.claim != nil {
		return s.claim(ctx, apply)
	}
	return apply()
}

// room requires that the tenant has room for exactly n new keys under the limit.
func room(t *testing.T, e *retrysafe.Engine, n int, what string) {
	t.Helper()
	synctest.Wait()
	for i := range n {
		begins(t, e, retrysafe.Key{Tenant: "ann", Operation: "room", ID: fmt.Sprint(what, i)}, true, fmt.Sprintf("%s: new key %d of %d", what, i+1, n))
	}
	begins(t, e, retrysafe.Key{Tenant: "ann", Operation: "room", ID: what}, false, fmt.Sprintf("%s: one more than %d", what, n))
}

// TestLimitsLookFirst: a new key costs one look and one charge. A duplicate costs one look and is
// never charged.
func TestLimitsLookFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), nil)
		e := engineOn(t, f, limited(retrysafe.Limits{Live: 100, PerSecond: 100}))
		begins(t, e, numbered("ann", 0), true, "one by which the engine learns the store's clock")
		calls := func() [3]int {
			synctest.Wait()
			return [3]int{f.Calls("lookup"), f.Calls("charge"), f.Calls("acquire")}
		}
		before := calls()
		begins(t, e, numbered("ann", 1), true, "a new key")
		after := calls()
		assert.Equal(t, [3]int{after[0] - before[0], after[1] - before[1], after[2] - before[2]}, [3]int{1, 1, 1}, "looks, charges and claims of a new key")
		for range 10 {
			begins(t, e, numbered("ann", 1), true, "a repeat")
		}
		again := calls()
		assert.Equal(t, [3]int{again[0] - after[0], again[1] - after[1], again[2] - after[2]}, [3]int{10, 0, 10}, "looks, charges and claims of ten repeats")
	})
}

// TestLimitsOfCopies: copies of a new key that look at once are all charged, and all but one give
// back.
func TestLimitsOfCopies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &hooked{Store: newStore()}
		e := engineOn(t, s, limited(retrysafe.Limits{Live: 60}))
		s.look = func(rec retrysafe.Record) retrysafe.Record {
			time.Sleep(time.Second) // all have looked before the first is charged
			return rec
		}
		c := new(counter)
		for range 50 {
			go func() { _, _ = retrysafe.Do(ctx, e, charge, c.work) }()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		c.started(t, 1)
		s.look = nil
		room(t, e, 59, "after fifty copies")
	})
}

// TestLimitsOfARecordThatPassed: a key that was known at the look and is new at the claim is
// counted.
func TestLimitsOfARecordThatPassed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &hooked{Store: newStore()}
		e := engineOn(t, s, limited(retrysafe.Limits{Live: 3}))
		s.look = func(rec retrysafe.Record) retrysafe.Record {
			rec.State = retrysafe.StateReleased
			return rec
		}
		begins(t, e, charge, true, "a key whose record passes")
		synctest.Wait()
		s.look = nil
		room(t, e, 2, "then")
	})
}

// TestLimitsOfLostClaims: a claim that was made stays counted although its caller never got the
// reply: its key runs later, as a known one. Otherwise a tenant could have as many keys as callers
// that hang up.
func TestLimitsOfLostClaims(t *testing.T) {
	t.Parallel()

	for name, way := range map[string]func(leave func(), apply func() (storeapi.Acquired, error)) error{
		"reply lost": func(_ func(), apply func() (storeapi.Acquired, error)) error {
			_, _ = apply()
			return storetest.ErrFault
		},
		"caller left": func(leave func(), apply func() (storeapi.Acquired, error)) error {
			_, _ = apply()
			leave()
			return context.Canceled
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &hooked{Store: newStore()}
				e := engineOn(t, s, limited(retrysafe.Limits{Live: 3}))
				for i := range 10 {
					caller, leave := context.WithCancel(ctx)
					s.claim = func(_ context.Context, apply func() (storeapi.Acquired, error)) (storeapi.Acquired, error) {
						return storeapi.Acquired{}, way(leave, apply)
					}
					c := new(counter)
					_, err := retrysafe.Do(caller, e, numbered("ann", i), c.work)
					assert.True(t, err != nil, "a call whose claim is lost")
					c.started(t, 0)
					leave()
					time.Sleep(20 * time.Second) // until the claim is given back
					synctest.Wait()
				}
				s.claim = nil
				ran := 0
				for i := range 10 {
					if _, err := retrysafe.Do(ctx, e, numbered("ann", i), new(counter).work); err == nil {
						ran++
					}
				}
				assert.Equal(t, ran, 3, "keys that run, of three that may live")
				room(t, e, 0, "then")
			})
		})
	}
}

// TestLimitsOfClaimsThatWereNotMade: a claim that did not arrive is given back when it cannot
// arrive any more. It stays counted if the engine has ended before, since its outcome is then
// unknown.
func TestLimitsOfClaimsThatWereNotMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		e := engineOn(t, storetest.NewFaulty(s, only("acquire", storetest.LoseRequest, 1, 3)), limited(retrysafe.Limits{Live: 3}))
		_, err := retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a claim that does not arrive")
		time.Sleep(20 * time.Second)
		room(t, e, 3, "afterwards")

		s = newStore()
		e = engineOn(t, storetest.NewFaulty(s, only("acquire", storetest.LoseRequest, 1, 3)), limited(retrysafe.Limits{Live: 3}))
		_, err = retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a claim that does not arrive")
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_ = e.Shutdown(gone)
		room(t, engineOn(t, s, limited(retrysafe.Limits{Live: 3})), 2, "of an engine that has ended")
	})
}

// TestLimitsOfCallersThatLeave: a charge continues when its caller leaves. The caller returns at
// once, and the charge is given back when its answer comes.
func TestLimitsOfCallersThatLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &hooked{Store: newStore()}
		e := engineOn(t, s, limited(retrysafe.Limits{Live: 3, PerSecond: 0.001, Burst: 3}))
		s.charge = func(ctx context.Context, _ *storeapi.ChargeRequest, apply func() (storeapi.Charged, error)) (storeapi.Charged, error) {
			got, err := apply()
			select {
			case <-time.After(4 * time.Second):
				return got, err
			case <-ctx.Done():
				return storeapi.Charged{}, ctx.Err()
			}
		}
		for range 3 {
			caller, leave := context.WithTimeout(ctx, time.Second)
			begun, c := time.Now(), new(counter)
			_, err := retrysafe.Do(caller, e, charge, c.work)
			assert.ErrorIs(t, err, context.DeadlineExceeded, "a caller that leaves while it is charged")
			assert.Equal(t, time.Since(begun), time.Second, "how long it is held up")
			c.started(t, 0)
			leave()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		s.charge = nil
		room(t, e, 3, "after three have left")
	})
}

// TestLimitsInside: a call inside other work is counted and never refused, since that would put the
// outer key in doubt.
func TestLimitsInside(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), limited(retrysafe.Limits{Live: 3, PerSecond: 0.001, Burst: 1}))
		inner := new(counter)
		_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
			for i := range 5 {
				if _, err := retrysafe.Do(ctx, e.Layer("step"), numbered("ann", i), inner.work); err != nil {
					return "", err
				}
			}
			return "receipt", nil
		})
		assert.NoError(t, err, "work that does more than its tenant may")
		inner.started(t, 5)
		assert.Equal(t, lookup(t, e, charge).State, retrysafe.StateCompleted, "state of the outer key")
		more := e.WithPolicy(retrysafe.Policy{Limits: retrysafe.Limits{Live: 8, PerSecond: -1}})
		room(t, more, 2, "inner keys count")
		assert.Equal(t, tooMany(t, e.WithPolicy(retrysafe.Policy{Limits: retrysafe.Limits{Live: -1}}), numbered("ann", 9)), time.Minute, "when to ask again")
		time.Sleep(5 * 1000 * time.Second) // six keys of one rate, one of them at once
		begins(t, e.WithPolicy(retrysafe.Policy{Limits: retrysafe.Limits{Live: -1}}), numbered("ann", 9), false, "inner keys are of the rate")
		time.Sleep(1000 * time.Second)
		begins(t, e.WithPolicy(retrysafe.Policy{Limits: retrysafe.Limits{Live: -1}}), numbered("ann", 9), true, "when they have passed")
	})
}

// TestLimitsRetryIsBounded: a slow rate, or counts from the future of a clock that was set back,
// never send a caller away for hours.
func TestLimitsRetryIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		clock := storetest.NewClock()
		s := memstore.New(&memstore.Options{Now: clock.Now})
		e := engineOn(t, s, limited(retrysafe.Limits{PerSecond: 10}))
		for i := range 10 {
			begins(t, e, numbered("ann", i), true, "a burst")
		}
		clock.Rewind(time.Hour)
		assert.Equal(t, tooMany(t, e, numbered("ann", 10)), time.Minute, "when to ask again after the clock was set back by an hour")
	})
}

// undoneTx is a transaction that is undone after a time.
type undoneTx struct {
	*hooked
	after time.Duration
}

func (p undoneTx) RunTx(context.Context, storeapi.TxRequest, func(context.Context, int) (retrysafe.State, retrysafe.Answer, error)) (retrysafe.Record, error) {
	time.Sleep(p.after)
	return retrysafe.Record{}, errWork
}

// TestLimitsGiveBackWhatIsThere: a late give-back takes nothing from other keys: what has expired
// by itself is not given back.
func TestLimitsGiveBackWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after  time.Duration
		limits retrysafe.Limits
		room   int // beside one that came a second before the end
	}{
		"soon":                             {2 * time.Second, retrysafe.Limits{Live: 3}, 2},
		"when its time has passed":         {2 * time.Hour, retrysafe.Limits{Live: 3}, 2},
		"soon, of a rate":                  {2 * time.Second, retrysafe.Limits{PerSecond: 0.01, Burst: 3}, 2},
		"of a rate whose time has passed":  {3 * time.Minute, retrysafe.Limits{PerSecond: 0.01, Burst: 3}, 2},
		"when both have passed, of a rate": {2 * time.Hour, retrysafe.Limits{PerSecond: 0.01, Burst: 3}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &hooked{Store: newStore()}
				e := engineOn(t, s, limited(tt.limits))
				go func() {
					_, _ = retrysafe.DoTx(ctx, e, undoneTx{s, tt.after}, charge, func(context.Context, int) (int, error) { return 0, nil })
				}()
				time.Sleep(tt.after - time.Second)
				begins(t, e, numbered("ann", 0), true, "another")
				time.Sleep(2 * time.Second)
				room(t, e, tt.room, name)
			})
		})
	}
}

// TestLimitsGiveBackAgain: a give-back that certainly was not applied is repeated, a few times at
// most. One that may have been applied is not.
func TestLimitsGiveBackAgain(t *testing.T) {
	t.Parallel()
	busy := fmt.Errorf("%w: the file is busy", retrysafe.ErrTooLate)
	for name, tt := range map[string]struct {
		err         error
		fails       int
		tries, room int
	}{
		"not applied, for a while": {busy, 4, 5, 3},
		"not applied, for ever":    {busy, 1000, 5, 2},
		"not answered":             {storetest.ErrFault, 1000, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, tries := &hooked{Store: newStore()}, 0
				s.charge = func(_ context.Context, req *storeapi.ChargeRequest, apply func() (storeapi.Charged, error)) (storeapi.Charged, error) {
					if req.Keys < 0 {
						if tries++; tries <= tt.fails {
							return storeapi.Charged{}, tt.err
						}
					}
					return apply()
				}
				e := engineOn(t, s, limited(retrysafe.Limits{Live: 3}))
				_, err := retrysafe.DoTx(ctx, e, undoneTx{s, 0}, charge, func(context.Context, int) (int, error) { return 0, nil })
				assert.ErrorIs(t, err, errWork, "a transaction that is undone")
				time.Sleep(time.Minute)
				room(t, e, tt.room, name)
				assert.Equal(t, tries, tt.tries, "tries")
			})
		})
	}
}

// TestLimitsOfIssuedKeysLast: an issued key counts as long as its record is kept, which is longer
// than the retention if its time of first use is.
func TestLimitsOfIssuedKeysLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), limited(retrysafe.Limits{Live: 1}))
		signed := retrysafe.MustBeIssuedFor(10*time.Hour, time.Now().Add(10*time.Hour))
		_, err := retrysafe.Do(ctx, e, charge, new(counter).work, signed)
		assert.NoError(t, err, "a signed key")
		time.Sleep(9 * time.Hour)
		assert.Equal(t, lookup(t, e, charge).State, retrysafe.StateCompleted, "its record is there")
		room(t, e, 0, "while its record is kept")
		time.Sleep(2 * time.Hour)
		room(t, e, 1, "when it has passed")
	})
}

// TestChargeIsBounded: numbers stay within what every store counts alike.
func TestChargeIsBounded(t *testing.T) {
	t.Parallel()
	good := storeapi.ChargeRequest{Namespace: "app", Keys: 1, For: time.Hour, Limits: storeapi.Limits{PerSecond: 1, Burst: 1}}
	assert.NoError(t, good.Validate(), "a charge")
	for name, change := range map[string]func(r *storeapi.ChargeRequest){
		"keys":           func(r *storeapi.ChargeRequest) { r.Keys = 100_001 },
		"keys back":      func(r *storeapi.ChargeRequest) { r.Keys = -100_001 },
		"bytes":          func(r *storeapi.ChargeRequest) { r.Bytes = 1<<40 + 1 },
		"bytes back":     func(r *storeapi.ChargeRequest) { r.Bytes = -1<<40 - 1 },
		"a slow rate":    func(r *storeapi.ChargeRequest) { r.Limits.PerSecond = 1e-9 },
		"a fast rate":    func(r *storeapi.ChargeRequest) { r.Limits.PerSecond = 1e9 },
		"a large burst":  func(r *storeapi.ChargeRequest) { r.Limits.Burst = 100_001 },
		"no time at all": func(r *storeapi.ChargeRequest) { r.For = 0 },
	} {
		bad := good
		change(&bad)
		err := bad.Validate()
		assert.True(t, err != nil, "%s: out of bounds", name)
		assert.Contains(t, err.Error(), "; use ", "%s: advice", name)
	}
}
