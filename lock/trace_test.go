package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
)

type askerKey struct{}

// TestTrace: each request and each end of a lock is reported once.
func TestTrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []string
		event := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, what)
		}
		l := lock.New(memlock.New(), &lock.Options{Lease: time.Second, MaxHold: time.Second, Trace: &lock.Trace{
			Lock: func(context.Context) func(lock.AcquireDone) {
				return func(d lock.AcquireDone) {
					switch {
					case d.Err == nil && d.Fence > 0:
						event("locked")
					case errors.Is(d.Err, lock.ErrHeld):
						event("held")
					default:
						event("other")
					}
				}
			},
			Ended: func(ctx context.Context, d lock.HoldDone) {
				if ctx.Err() != nil || ctx.Value(askerKey{}) != "asker" {
					event("another context")
				}
				switch {
				case errors.Is(d.Err, lock.ErrReleased):
					event("released after " + d.Took.String())
				case errors.Is(d.Err, lock.ErrMaxHold), errors.Is(d.Err, lock.ErrLost):
					event("ended")
				}
			},
		}})
		asker, cancel := context.WithCancel(context.WithValue(t.Context(), askerKey{}, "asker"))
		held, err := l.Lock(asker, "account", lock.WithLease(time.Minute))
		assert.NoError(t, err, "lock")
		again, err := l.Lock(held.Context(), "account")
		assert.NoError(t, err, "again in its context")
		_, err = l.TryLock(t.Context(), "account")
		assert.ErrorIs(t, err, lock.ErrHeld, "another")
		<-time.After(time.Second)
		assert.NoError(t, again.Release(t.Context()), "inner release")
		assert.NoError(t, held.Release(t.Context()), "release")
		held, err = l.TryLock(asker, "account")
		assert.NoError(t, err, "try")
		cancel()
		<-held.Done()
		_ = held.Release(t.Context())
		assert.NoError(t, l.Shutdown(t.Context()), "shutdown")
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, strings.Join(events, ", "), "locked, locked, held, released after 1s, locked, ended", "events")
	})
}
