package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
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

// limited returns a policy with limits.
func limited(l retrysafe.Limits) retrysafe.Policy {
	return retrysafe.Policy{Limits: l, Retention: time.Hour}
}

func numbered(tenant string, n int) retrysafe.Key {
	return retrysafe.Key{Tenant: tenant, Operation: "charge", ID: fmt.Sprint("k-", n)}
}

// begins requires that new keys of the tenant run, or do not.
func begins(t *testing.T, e *retrysafe.Engine, k retrysafe.Key, want bool, what string) {
	t.Helper()
	_, err := retrysafe.Do(ctx, e, k, new(counter).work)
	if want {
		assert.NoError(t, err, "%s", what)
		return
	}
	assert.ErrorIs(t, err, retrysafe.ErrTooManyKeys, "%s", what)
}

// tooMany requires that the call is refused, and returns when to ask again.
func tooMany(t *testing.T, e *retrysafe.Engine, k retrysafe.Key, opts ...retrysafe.CallOption) time.Duration {
	t.Helper()
	c := new(counter)
	_, err := retrysafe.Do(ctx, e, k, c.work, opts...)
	assert.ErrorIs(t, err, retrysafe.ErrTooManyKeys, "a key over the limit")
	c.started(t, 0)
	after, ok := retrysafe.Retryable(err)
	assert.True(t, ok && after > 0, "it may be retried after a time: %v", after)
	assert.Contains(t, err.Error(), "nothing was run", "advice")
	return after
}

func TestLimitsLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		e := engineOn(t, s, limited(retrysafe.Limits{Live: 3}))
		for i := range 3 {
			begins(t, e, numbered("ann", i), true, "one of three")
		}
		after := tooMany(t, e, numbered("ann", 3))
		assert.True(t, after >= time.Second && after <= time.Minute, "when to ask again: %v", after)
		assert.Equal(t, s.Len(), 3, "records: one that is refused stores nothing")
		for _, tenant := range []string{"bob", ""} {
			for i := range 3 {
				begins(t, e, numbered(tenant, i), true, "three of another tenant, also of none")
			}
			tooMany(t, e, numbered(tenant, 3))
		}
		begins(t, e.Layer("http").WithPolicy(retrysafe.Policy{Limits: retrysafe.Limits{Live: 4}}), numbered("ann", 3), true, "a limit of its own")
		begins(t, e.Layer("http"), numbered("ann", 4), false, "the count is that of all layers")
		begins(t, e.WithPolicy(retrysafe.Policy{Limits: retrysafe.Limits{Live: -1}}), numbered("ann", 4), true, "a policy without a limit")

		time.Sleep(time.Hour - time.Minute)
		tooMany(t, e, numbered("ann", 5))
		time.Sleep(time.Minute + time.Hour/16)
		begins(t, e, numbered("ann", 5), true, "a new key when the others have passed")
	})
}

// TestLimitsRepeats: a known key gets its answer over the limit and under it, and is never counted.
func TestLimitsRepeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), limited(retrysafe.Limits{Live: 3}))
		c := new(counter)
		again := func(k retrysafe.Key, opts ...retrysafe.CallOption) error {
			var err error
			for range 50 {
				_, err = retrysafe.Do(ctx, e, k, c.work, opts...)
				synctest.Wait()
			}
			return err
		}
		done, running, released := numbered("ann", 0), numbered("ann", 1), numbered("ann", 2)
		assert.NoError(t, again(done, retrysafe.WithPayload("tea")), "repeats of a key")
		c.started(t, 1)
		assert.ErrorIs(t, again(done, retrysafe.WithPayload("milk")), retrysafe.ErrFingerprintMismatch, "repeats with another payload")
		a, _, err := e.Begin(ctx, running)
		assert.NoError(t, err, "a second key")
		assert.ErrorIs(t, again(running), retrysafe.ErrInProgress, "repeats while it runs")
		for range 50 {
			_, err = retrysafe.Do(ctx, e, released, func(context.Context) (string, error) { return "", retrysafe.NothingDone(errWork) })
			assert.ErrorIs(t, err, errWork, "a third key, which does nothing again and again")
			synctest.Wait()
		}

		tooMany(t, e, numbered("ann", 3))
		assert.NoError(t, again(done, retrysafe.WithPayload("tea")), "repeats over the limit")
		assert.ErrorIs(t, again(running), retrysafe.ErrInProgress, "repeats over the limit while the first runs")
		got := make(chan error)
		go func() {
			_, err := retrysafe.Do(ctx, e, running, c.work, retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Hour}))
			got <- err
		}()
		time.Sleep(time.Minute)
		assert.NoError(t, a.Complete(ctx, retrysafe.Answer{Codec: "json", Body: []byte(`"receipt"`), Kept: true}), "the first ends")
		assert.NoError(t, <-got, "one that has waited over the limit")
		assert.NoError(t, again(released), "what was released runs again over the limit")
		c.started(t, 2)
		tooMany(t, e, numbered("ann", 3))
	})
}

func TestLimitsRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), limited(retrysafe.Limits{PerSecond: 10, Burst: 5}))
		n := 0
		next := func() retrysafe.Key { n++; return numbered("ann", n) }
		for range 3 {
			for range 5 {
				begins(t, e, next(), true, "a burst")
			}
			assert.Equal(t, tooMany(t, e, next()), 100*time.Millisecond, "when to ask again")
			time.Sleep(100*time.Millisecond - time.Microsecond)
			assert.Equal(t, tooMany(t, e, next()), time.Microsecond, "when to ask again")
			time.Sleep(time.Microsecond)
			begins(t, e, next(), true, "one more")
			time.Sleep(time.Second)
		}
		for range 20 { // duplicates are not new
			begins(t, e, numbered("ann", 1), true, "a repeat")
			synctest.Wait()
		}
		begins(t, e, next(), true, "a new key after many repeats")
	})
}

func TestLimitsBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), limited(retrysafe.Limits{Bytes: 20}))
		for i := range 3 { // "receipt" takes nine
			begins(t, e, numbered("ann", i), true, "while there is room")
			synctest.Wait()
		}
		tooMany(t, e, numbered("ann", 3))
		begins(t, e, numbered("ann", 0), true, "a repeat")
		begins(t, e, numbered("bob", 0), true, "another tenant")
		time.Sleep(time.Hour + time.Hour/16)
		begins(t, e, numbered("ann", 3), true, "when the answers have passed")
	})
}

// TestLimitsBytesOfTheLast: an engine that ends first counts the bytes of its last answer, also of
// one that was confirmed late.
func TestLimitsBytesOfTheLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		f := storetest.NewFaulty(s, only("complete", storetest.LoseReply, 1, 3))
		first := engineOn(t, f, limited(retrysafe.Limits{Bytes: 5}))
		begins(t, first, numbered("ann", 0), true, "the first")
		assert.NoError(t, first.Shutdown(ctx), "shutdown")
		assert.Equal(t, f.Calls("charge"), 2, "charges: the key, and the answer")
		tooMany(t, engineOn(t, s, limited(retrysafe.Limits{Bytes: 5})), numbered("ann", 1))
	})
}

// TestLimitsAreShared: of many new keys that come to two engines at once, exactly as many run as
// Live allows.
func TestLimitsAreShared(t *testing.T) {
	t.Parallel()
	s := newStore()
	engines := []*retrysafe.Engine{engineOn(t, s, limited(retrysafe.Limits{Live: 20})), engineOn(t, s, limited(retrysafe.Limits{Live: 20}))}
	var ran, refused atomic.Int64
	var callers sync.WaitGroup
	for i := range 200 {
		callers.Go(func() {
			_, err := retrysafe.Do(ctx, engines[i%2], numbered("ann", i), new(counter).work)
			switch {
			case err == nil:
				ran.Add(1)
			case errors.Is(err, retrysafe.ErrTooManyKeys):
				refused.Add(1)
			}
		})
	}
	callers.Wait()
	assert.Equal(t, ran.Load(), int64(20), "keys that ran")
	assert.Equal(t, refused.Load(), int64(180), "keys that were refused")
	assert.Equal(t, s.Len(), 20, "records")
}

// TestLimitsStoreAway: without an answer to the charge nothing runs and nothing is claimed.
func TestLimitsStoreAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		f := storetest.NewFaulty(s, only("charge", storetest.LoseRequest, 1, 3))
		e := engineOn(t, f, limited(retrysafe.Limits{Live: 2}))
		_, err := retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "no answer at all")
		assert.Equal(t, f.Calls("acquire"), 0, "claims")
		begins(t, e, numbered("ann", 0), true, "when the store is back")

		f = storetest.NewFaulty(s, only("charge", storetest.LoseReply, 1, 1))
		e = engineOn(t, f, limited(retrysafe.Limits{Live: 3}))
		begins(t, e, numbered("ann", 1), true, "a reply that is lost is asked for again")
		tooMany(t, e, numbered("ann", 2)) // both tries count

		f = storetest.NewFaulty(s, only("lookup", storetest.LoseRequest, 1, 5))
		e = engineOn(t, f, limited(retrysafe.Limits{Live: 10}))
		_, err = retrysafe.Do(ctx, e, numbered("ann", 3), new(counter).work)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "nobody knows whether it is a repeat")
		assert.Equal(t, f.Calls("charge"), 0, "charges")
		begins(t, e, numbered("ann", 3), true, "a look that is lost twice, and asked for again")

		f = storetest.NewFaulty(newStore(), only("acquire", storetest.LoseRequest, 1, 3))
		e = engineOn(t, f, limited(retrysafe.Limits{Live: 1}))
		_, err = retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a claim without an answer")
		tooMany(t, e, numbered("ann", 2)) // as long as it may still arrive
		time.Sleep(6 * time.Second)
		synctest.Wait()
		begins(t, e, charge, true, "what did not begin is given back")
	})
}

// TestLimitsNeedALimiter: limits on a store that counts nothing are an error, never no limits.
func TestLimitsNeedALimiter(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]storeapi.Store{"no method": plainStore{newStore()}, "a method that refuses": storetest.NewFaulty(plainStore{newStore()}, nil)} {
		e, c := engineOn(t, s, limited(retrysafe.Limits{Live: 3})), new(counter)
		_, err := retrysafe.Do(ctx, e, charge, c.work)
		assert.ErrorIs(t, err, errors.ErrUnsupported, "%s: a call", name)
		assert.Contains(t, err.Error(), "use a store that implements storeapi.Limiter", "%s: advice", name)
		_, err = retrysafe.DoTx(ctx, e, noTx{}, charge, func(context.Context, int) (int, error) { return 0, c.fail(nil) })
		assert.ErrorIs(t, err, errors.ErrUnsupported, "%s: a transaction", name)
		c.started(t, 0)
		_, err = retrysafe.Do(ctx, e, charge, c.work, retrysafe.WithPolicy(retrysafe.Policy{Limits: retrysafe.Limits{Live: -1}}))
		assert.NoError(t, err, "%s: a call without limits", name)
	}
}

// TestNoLimitsCostNothing: without limits the store gets no charge, nor when an operator resolves a
// key.
func TestNoLimitsCostNothing(t *testing.T) {
	t.Parallel()
	f := storetest.NewFaulty(newStore(), nil)
	begins(t, engineOn(t, f, retrysafe.Policy{}), charge, true, "a call")
	assert.Equal(t, f.Calls("charge"), 0, "charges without limits")

	e := engineOn(t, f, limited(retrysafe.Limits{Live: 2, Bytes: 1}))
	k := numbered("ann", 5)
	_, err := retrysafe.Do(ctx, e, k, func(context.Context) (string, error) { return "", errWork })
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a doubt")
	assert.Equal(t, f.Calls("charge"), 1, "charges of one key")
	r := retrysafe.Resolution{Fence: lookup(t, e, k).Fence, Outcome: retrysafe.Done, Answer: found}
	assert.NoError(t, e.Resolve(ctx, k, r), "resolve")
	assert.NoError(t, e.Shutdown(ctx), "shutdown")
	assert.Equal(t, f.Calls("charge"), 1, "charges after a resolution")
}

// TestLimitsOfIssuedKeys: an issued key is new until its first use. Over the limit it stays as it
// is, and keys that were not issued get the same error.
func TestLimitsOfIssuedKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		e := engineOn(t, s, limited(retrysafe.Limits{Live: 1}))
		begins(t, e, numbered("ann", 0), true, "the first")
		assert.NoError(t, e.Issue(ctx, charge, 2*time.Hour), "issue")
		tooMany(t, e, charge, retrysafe.MustBeIssued())
		tooMany(t, e, numbered("ann", 5), retrysafe.MustBeIssued())
		signed := retrysafe.MustBeIssuedFor(2*time.Hour, time.Now().Add(2*time.Hour))
		tooMany(t, e, numbered("ann", 2), signed)
		assert.Equal(t, s.Len(), 2, "records: a signed key that is refused is not stored")
		time.Sleep(time.Hour + time.Hour/16)
		_, err := retrysafe.Do(ctx, e, numbered("ann", 5), new(counter).work, retrysafe.MustBeIssued())
		assert.ErrorIs(t, err, retrysafe.ErrNotIssued, "one that was never issued")
		synctest.Wait()
		for range 3 {
			_, err = retrysafe.Do(ctx, e, charge, new(counter).work, retrysafe.MustBeIssued())
			assert.NoError(t, err, "the issued one runs, and is told again")
			synctest.Wait()
		}
		tooMany(t, e, numbered("ann", 3))
	})
}

// TestManyCopiesAtOnce: if the store hangs on give-backs, copies of a key that all look before the
// first begins do not leave goroutines without bound.
func TestManyCopiesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, slowRefunds{newStore()}, limited(retrysafe.Limits{Live: 5000}))
		begins(t, e, charge, true, "the first")
		var answered, failed atomic.Int64
		for range 2000 {
			go func() {
				if _, err := retrysafe.Do(ctx, e, charge, new(counter).work); err != nil {
					failed.Add(1)
				}
				answered.Add(1)
			}()
		}
		synctest.Wait()
		assert.Equal(t, answered.Load(), int64(256), "copies that left something behind; the others see to it themselves")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, answered.Load(), int64(2000), "copies that are answered in the end")
		assert.Equal(t, failed.Load(), int64(0), "copies that failed")
	})
}

// slowRefunds hangs on give-backs, and hides known keys from lookups.
type slowRefunds struct{ *memstore.Store }

func (s slowRefunds) Lookup(ctx context.Context, key storeapi.StoreKey) (retrysafe.Record, error) {
	rec, err := s.Store.Lookup(ctx, key)
	return retrysafe.Record{Key: key, Now: rec.Now}, err
}

func (s slowRefunds) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	if req.Keys < 0 {
		<-ctx.Done()
		return storeapi.Charged{}, ctx.Err()
	}
	return s.Store.Charge(ctx, req)
}

func TestLimitsOfPolicies(t *testing.T) {
	t.Parallel()
	base := retrysafe.Limits{Live: 1, PerSecond: 2, Burst: 3, Bytes: 4}
	for _, tt := range []struct{ own, want retrysafe.Limits }{
		{retrysafe.Limits{}, base},
		{retrysafe.Limits{Live: 9, Bytes: -1}, retrysafe.Limits{Live: 9, PerSecond: 2, Burst: 3, Bytes: -1}},
		{retrysafe.Limits{Burst: 7}, retrysafe.Limits{Live: 1, PerSecond: 2, Burst: 7, Bytes: 4}},
		// A burst of its own.
		{retrysafe.Limits{PerSecond: 50}, retrysafe.Limits{Live: 1, PerSecond: 50, Bytes: 4}},
	} {
		got := retrysafe.Policy{Limits: tt.own}.Or(retrysafe.Policy{Limits: base})
		assert.Equal(t, got.Limits, tt.want, "%+v", tt.own)
		assert.NoError(t, got.Validate(), "%+v", tt.own)
	}
	for _, wrong := range []retrysafe.Limits{
		{PerSecond: math.NaN()}, {PerSecond: math.Inf(1)}, {PerSecond: 1e6}, {PerSecond: 1e-9}, {PerSecond: 1, Burst: -1}, {PerSecond: 1, Burst: 1e6}, {Burst: 1},
	} {
		err := retrysafe.Policy{Limits: wrong}.Validate()
		assert.True(t, err != nil, "%+v is refused", wrong)
		assert.Contains(t, err.Error(), "policy: Limits.", "%+v", wrong)
	}
}
