package sqlkit

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
)

// Retry calls try until no other transaction is in its way, or ctx ends. It returns the last error
// of try; [InTheWay] holds for it only if ctx has ended.
func Retry(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil || !InTheWay(err) || !Pause(ctx) {
			return err
		}
	}
}

// Pause waits 1 to 10 ms to let others go first. It returns false when ctx ends. The jitter keeps
// processes from polling in step.
func Pause(ctx context.Context) bool {
	return backoff.Pause(ctx, time.Millisecond+rand.N(9*time.Millisecond)) == nil && ctx.Err() == nil
}
