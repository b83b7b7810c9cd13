package rpcidem_test

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/rpcidem"
)

// A client's interceptor repeats a call until its result is final. Every try carries one key.
func ExampleRetry_Do() {
	retry := rpcidem.Retry{MaxAttempts: 5, MinWait: time.Millisecond, MaxWait: 10 * time.Millisecond}
	tries := 0
	retry.Do(context.Background(), func() *rpcidem.Failure {
		if tries++; tries < 3 {
			return &rpcidem.Failure{Code: rpcidem.Unavailable}
		}
		return nil
	})
	fmt.Println("tries:", tries)
	// Output: tries: 3
}

// A server asks which codes let a retry run. Under Refuse a conflict is an outcome, unless
// Options.NotRun lists it.
func ExampleCode_NotRun() {
	for _, code := range []rpcidem.Code{rpcidem.PermissionDenied, rpcidem.Aborted} {
		fmt.Println(code, code.NotRun())
	}
	// Output:
	// PERMISSION_DENIED true
	// ABORTED false
}
