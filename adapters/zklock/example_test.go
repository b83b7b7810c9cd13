package zklock_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/lock"
)

// One lock, held by one process at a time.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	backend, err := zklock.Open(ctx, []string{exampleServer()}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer backend.Close()
	locks := lock.New(backend, nil)
	err = locks.With(ctx, "account/42", func(_ context.Context, held *lock.Lock) error {
		fmt.Println("held, with a fence:", held.Fence() > 0)
		_, err := lock.New(backend, nil).TryLock(ctx, "account/42") // another holder
		fmt.Println(err)
		return nil
	})
	fmt.Println(err)
	// Output:
	// held, with a fence: true
	// lock: another holder has it; nothing was done; wait with Lock, or try again later
	// <nil>
}
