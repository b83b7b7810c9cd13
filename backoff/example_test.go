package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
)

// A call that fails twice before it succeeds.
func ExampleBackoff_Next() {
	ctx := context.Background()
	failures := 2
	call := func() error {
		if failures--; failures >= 0 {
			return errors.New("connection refused")
		}
		return nil
	}

	tries := backoff.Backoff{MaxAttempts: 5, MinWait: time.Millisecond, MaxWait: 10 * time.Millisecond}
	for n := 1; ; n++ {
		err := call()
		if err == nil {
			fmt.Println("try", n, "succeeded")
			return
		}
		wait, again := tries.Next(ctx, n, 0)
		if !again || backoff.Pause(ctx, wait) != nil {
			fmt.Println("gave up:", err)
			return
		}
	}
	// Output: try 3 succeeded
}
