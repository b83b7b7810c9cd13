package retrysafe

import (
	"context"
	"time"
)

const (
	acquireTries = 3
	acquireLimit = 5 * time.Second // the longest that an Acquire may be in flight
)

// ackTime is how long a finishing call waits for the store before the caller gets the answer
// without a confirmation.
const ackTime = 2 * time.Second

// giveBackTime is how long the engine tries to give back what certainly did not happen, while the
// store is away. It is longer than an outage should take: what is not given back is in doubt under
// Refuse, and an operator looks into a call that did nothing.
const giveBackTime = time.Hour

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
