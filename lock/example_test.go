package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
)

// One holder at a time, for as long as the work takes: heartbeats keep the lock, and the context
// ends if the lock is lost.
func ExampleLocker_With() {
	ctx := context.Background()
	locks := lock.New(memlock.New(), &lock.Options{Lease: 10 * time.Second})
	defer locks.Shutdown(ctx)

	err := locks.With(ctx, "account/42", func(ctx context.Context, held *lock.Lock) error {
		_, err := locks.TryLock(context.Background(), "account/42") // another caller
		fmt.Println("another one:", errors.Is(err, lock.ErrHeld))
		return ctx.Err() // the work; it gives held.Fence() to each write
	})
	fmt.Println(err)
	// Output:
	// another one: true
	// <nil>
}

// A caller that must not wait uses TryLock.
func ExampleLocker_TryLock() {
	ctx := context.Background()
	locks := lock.New(memlock.New(), nil)
	defer locks.Shutdown(ctx)

	first, err := locks.TryLock(ctx, "report", lock.WithLease(time.Minute))
	fmt.Println(err)
	_, err = locks.TryLock(ctx, "report")
	fmt.Println(errors.Is(err, lock.ErrHeld))
	fmt.Println(first.Release(ctx))
	// Output:
	// <nil>
	// true
	// <nil>
}

// In the lock's context the same name needs no wait, so a function that locks may call another one
// that does.
func ExampleLock_Context() {
	ctx := context.Background()
	locks := lock.New(memlock.New(), nil)
	defer locks.Shutdown(ctx)

	outer, _ := locks.Lock(ctx, "account/42")
	inner, err := locks.Lock(outer.Context(), "account/42")
	fmt.Println(err, inner.Fence() == outer.Fence())
	fmt.Println(inner.Release(ctx), outer.Err()) // the outer one still holds it
	fmt.Println(outer.Release(ctx))
	// Output:
	// <nil> true
	// <nil> <nil>
	// <nil>
}
