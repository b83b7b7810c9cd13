package zklock_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/idgen"
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

// Ids whose worker number is held in ZooKeeper.
func ExampleNewWorkers() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	backend, err := zklock.Open(ctx, []string{exampleServer()}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer backend.Close()
	held, err := zklock.NewWorkers(backend, &idgen.WorkersOptions{Namespace: "orders"}).Claim(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer held.Release(ctx)
	ids, err := idgen.NewSnowflake(held, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	first, _ := ids.Next(ctx)
	second, _ := ids.Next(ctx)
	fmt.Println(second > first, ids.Layout().Split(second).Worker == held.Number())
	// Output: true true
}
