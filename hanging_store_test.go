package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// hanging is a store that takes calls and answers late, or with an error after ten seconds, as the
// clients of servers do that do not answer.
type hanging struct {
	*memstore.Store
	hangs atomic.Bool
	slow  atomic.Int64    // how long it takes to answer
	log   strings.Builder // slog's handler has a lock
}

func (s *hanging) answer(ctx context.Context) error {
	after, err := time.Duration(s.slow.Load()), error(nil)
	if s.hangs.Load() {
		after, err = 10*time.Second, errors.New("i/o timeout")
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(after):
		return err
	}
}

func (s *hanging) Acquire(ctx context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if err := s.answer(ctx); err != nil {
		return storeapi.Acquired{}, err
	}
	return s.Store.Acquire(ctx, r)
}

func (s *hanging) Lookup(ctx context.Context, k storeapi.StoreKey) (storeapi.Record, error) {
	if err := s.answer(ctx); err != nil {
		return storeapi.Record{}, err
	}
	return s.Store.Lookup(ctx, k)
}

func (s *hanging) Charge(ctx context.Context, r storeapi.ChargeRequest) (storeapi.Charged, error) {
	if err := s.answer(ctx); err != nil {
		return storeapi.Charged{}, err
	}
	return s.Store.Charge(ctx, r)
}

// onHanging runs f with an engine on a hanging store, and with the ways to ask it. Each returns how
// long it took, in virtual time.
func onHanging(t *testing.T, f func(t *testing.T, s *hanging, ways map[string]func(key string) (time.Duration, error))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &hanging{Store: memstore.New(nil)}
		e := retrysafe.New(s, &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
		timed := func(call func(key string) error) func(string) (time.Duration, error) {
			return func(key string) (time.Duration, error) {
				begun := time.Now()
				err := call(key)
				return time.Since(begun), err
			}
		}
		limited := e.WithPolicy(retrysafe.Policy{Limits: retrysafe.Limits{Live: 1000}})
		begin := func(e *retrysafe.Engine) func(key string) error {
			return func(key string) error {
				a, _, err := e.Begin(t.Context(), retrysafe.Key{Operation: "pay", ID: retrysafe.KeyPart(key)})
				if a != nil {
					_ = a.Complete(t.Context(), retrysafe.Answer{Codec: "raw"})
				}
				return err
			}
		}
		f(t, s, map[string]func(string) (time.Duration, error){
			"begin":   timed(begin(e)),
			"limited": timed(begin(limited)),
			"allow": timed(func(key string) error {
				return e.Allow(t.Context(), key, "thing", retrysafe.Rate{PerSecond: 1000})
			}),
			"lookup": timed(func(key string) error {
				_, err := e.Lookup(t.Context(), retrysafe.Key{Operation: "pay", ID: retrysafe.KeyPart(key)})
				if errors.Is(err, retrysafe.ErrNotFound) {
					err = nil
				}
				return err
			}),
		})
		s.hangs.Store(false)
		s.slow.Store(0)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		assert.NoError(t, e.Shutdown(ctx), "shutdown")
	})
}

// TestHangingStore tests that one caller at a time waits for a store that hangs, that all others
// get their error within a second, and that the first answer ends this.
func TestHangingStore(t *testing.T) {
	for _, way := range []string{"begin", "limited", "allow", "lookup"} {
		t.Run(way, func(t *testing.T) {
			onHanging(t, func(t *testing.T, s *hanging, ways map[string]func(string) (time.Duration, error)) {
				ask := ways[way]
				took, err := ask("before")
				assert.True(t, took == 0 && err == nil, "before: %v, %v", took, err)
				s.hangs.Store(true)
				took, err = ask("first")
				assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "the first")
				assert.True(t, took >= 5*time.Second && took <= 16*time.Second, "the first waits: %v", took)
				for round := range 3 { // the log says so in the second
					var patient, hasty atomic.Int64
					var all sync.WaitGroup
					for range 20 {
						all.Go(func() {
							took, err := ask("while it hangs")
							assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "while it hangs")
							if took <= 1100*time.Millisecond {
								hasty.Add(1)
							} else {
								patient.Add(1)
							}
						})
					}
					all.Wait()
					assert.True(t, patient.Load() == 1 && hasty.Load() == 19, "round %d: %d wait, and %d get an error within a second", round, patient.Load(), hasty.Load())
				}
				s.hangs.Store(false)
				took, err = ask("back")
				assert.True(t, took == 0 && err == nil, "back: %v, %v", took, err)
				s.slow.Store(int64(2 * time.Second))
				var all sync.WaitGroup
				for i := range 20 {
					all.Go(func() {
						took, err := ask(fmt.Sprint("slow ", i))
						assert.True(t, took >= 2*time.Second && err == nil, "afterwards all wait again: %v, %v", took, err)
					})
				}
				all.Wait()
				said := s.log.String()
				assert.True(t, strings.Count(said, "does not answer") == 1 && strings.Count(said, "answers again") == 1, "the log: %s", said)
			})
		})
	}
}

// TestSlowStoreIsNotGivenUp tests that a store that has hung and is slow now is used again.
func TestSlowStoreIsNotGivenUp(t *testing.T) {
	onHanging(t, func(t *testing.T, s *hanging, ways map[string]func(string) (time.Duration, error)) {
		s.hangs.Store(true)
		_, err := ways["begin"]("first")
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "the first")
		s.hangs.Store(false)
		s.slow.Store(int64(3 * time.Second))
		var done atomic.Int64
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := ways["begin"]("a"); err == nil {
					done.Add(1)
				}
			})
		}
		all.Wait()
		assert.Equal(t, done.Load(), int64(1), "the one that looks whether it is back")
		for range 3 {
			took, err := ways["begin"]("b")
			assert.True(t, err == nil && took <= 10*time.Second, "afterwards: %v, %v", took, err)
		}
	})
}

// TestHangOfOneCaller tests that callers who leave early do not make the store one that hangs, and
// that one whose own time is short does not keep the place of the one that waits.
func TestHangOfOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hanging{Store: memstore.New(nil)}
		e := retrysafe.New(s, &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
		look := func(own time.Duration) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), own)
			defer cancel()
			begun := time.Now()
			_, err := e.Lookup(ctx, retrysafe.Key{Operation: "pay", ID: "k"})
			return time.Since(begun), err
		}
		s.slow.Store(int64(4 * time.Second))
		_, err := look(time.Second)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "a caller that leaves")
		took, err := look(time.Minute)
		assert.True(t, took == 4*time.Second && errors.Is(err, retrysafe.ErrNotFound), "another one: %v, %v", took, err)
		s.hangs.Store(true)
		_, _ = look(time.Minute)
		for range 3 { // each waits for its own time, and leaves the place to the next
			took, _ = look(2 * time.Second)
			assert.Equal(t, took, 2*time.Second, "a caller that looks whether it is back")
		}
		assert.NoError(t, e.Shutdown(t.Context()), "shutdown")
	})
}
