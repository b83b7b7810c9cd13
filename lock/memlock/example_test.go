package memlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
)

// Lockers on one backend compete for its locks, as processes on one server do.
func ExampleNew() {
	ctx := context.Background()
	backend := memlock.New()
	one, two := lock.New(backend, nil), lock.New(backend, nil)
	defer one.Shutdown(ctx)
	defer two.Shutdown(ctx)

	held, err := one.TryLock(ctx, "report")
	fmt.Println("one:", err)
	_, err = two.TryLock(ctx, "report")
	fmt.Println("two is refused:", errors.Is(err, lock.ErrHeld))
	page, err := backend.List(ctx, lock.ListRequest{})
	fmt.Println("held:", page.Locks[0].Name, err)
	fmt.Println("release:", held.Release(ctx))
	// Output:
	// one: <nil>
	// two is refused: true
	// held: report <nil>
	// release: <nil>
}
