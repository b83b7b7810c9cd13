package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestALockIsNoIdempotency runs three cases with a lock alone, an engine alone, and both. A lock
// keeps out concurrent callers. A later caller finds it free, whether the first one got its answer
// or not, and charges again.
func TestALockIsNoIdempotency(t *testing.T) {
	t.Parallel()
	type shop struct {
		pay     func(context.Context) error // one request
		charges int
		during  func() // runs once, while the first charge is being made
	}
	charge := func(s *shop) error {
		s.charges++
		if f := s.during; f != nil {
			s.during = nil
			f()
		}
		return nil
	}
	ways := map[string]func(*testing.T, *shop){
		"lock": func(_ *testing.T, s *shop) {
			locks := lock.New(memlock.New(), nil)
			s.pay = func(ctx context.Context) error {
				held, err := locks.TryLock(ctx, "order/1")
				if err != nil {
					return err
				}
				return errors.Join(charge(s), held.Release(ctx))
			}
		},
		"engine": func(t *testing.T, s *shop) {
			t.Helper()
			e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("a secret of the test")})
			t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
			s.pay = func(ctx context.Context) error {
				_, err := retrysafe.Run(ctx, e, retrysafe.Key{Tenant: "ann", Operation: "pay", ID: "order/1"}, func(context.Context) error { return charge(s) })
				return err
			}
		},
	}
	ways["both"] = func(t *testing.T, s *shop) {
		t.Helper()
		ways["engine"](t, s)
		inner, locks := s.pay, lock.New(memlock.New(), nil)
		s.pay = func(ctx context.Context) error {
			held, err := locks.TryLock(ctx, "order/1")
			if err != nil {
				return err
			}
			return errors.Join(inner(ctx), held.Release(ctx))
		}
	}
	for _, one := range []struct {
		name string
		run  func(context.Context, *shop)
		want map[string]int // charges
	}{
		{"two at the same time", func(ctx context.Context, s *shop) {
			var second sync.WaitGroup
			s.during = func() {
				second.Go(func() { _ = s.pay(ctx) })
				synctest.Wait()
			}
			_ = s.pay(ctx)
			second.Wait()
		}, map[string]int{"lock": 1, "engine": 1, "both": 1}},
		{"one after the other", func(ctx context.Context, s *shop) {
			_ = s.pay(ctx)
			_ = s.pay(ctx)
		}, map[string]int{"lock": 2, "engine": 1, "both": 1}},
		{"again, since the answer was lost", func(ctx context.Context, s *shop) {
			once, hangUp := context.WithCancel(ctx)
			s.during = hangUp // the client hangs up, but the charge was made
			_ = s.pay(once)
			_ = s.pay(ctx)
		}, map[string]int{"lock": 2, "engine": 1, "both": 1}},
	} {
		for way, open := range ways {
			t.Run(one.name+"/"+way, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := new(shop)
					open(t, s)
					one.run(t.Context(), s)
					assert.Equal(t, s.charges, one.want[way], "charges")
				})
			})
		}
	}
}
