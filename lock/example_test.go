package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
)

// One at a time, as long as it is needed: heartbeats keep the lock while the work goes on, and its
// context ends if it is lost.
func ExampleLocker_With() {
	ctx := context.Background()
	locks := lock.New(memlock.New(), &lock.Options{Lease: 10 * time.Second})
	defer locks.Shutdown(ctx)

	err := locks.With(ctx, "account/42", func(ctx context.Context, held *lock.Lock) error {
		_, err := locks.TryLock(context.Background(), "account/42") // somebody else
		fmt.Println("another one:", errors.Is(err, lock.ErrHeld))
		return ctx.Err() // the work; it gives held.Fence() to each write
	})
	fmt.Println(err)
	// Output:
	// another one: true
	// <nil>
}

// Who must not wait, asks.
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

// Inside of the lock's context the same name is not waited for, so that a function that locks may
// call another one that does.
func ExampleLock_Context() {
	ctx := context.Background()
	locks := lock.New(memlock.New(), nil)
	defer locks.Shutdown(ctx)

	outer, _ := locks.Lock(ctx, "account/42")
	inner, err := locks.Lock(outer.Context(), "account/42")
	fmt.Println(err, inner.Fence() == outer.Fence())
	fmt.Println(inner.Release(ctx), outer.Err()) // still held by the outer one
	fmt.Println(outer.Release(ctx))
	// Output:
	// <nil> true
	// <nil> <nil>
	// <nil>
}
