package redislock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/redisclient"
)

const (
	// recheckAfter is how often a waiter checks the lock although messages come, because a message
	// may be lost.
	recheckAfter = time.Second
	// pollInterval is how often a waiter checks if no messages come: every half of it to all of it.
	pollInterval = 50 * time.Millisecond
)

// Wait implements [lock.Backend]. A message of the owner that unlocks wakes the waiter. Without a
// client that can subscribe, Wait polls up to forty times a second.
func (b *Backend) Wait(ctx context.Context, r lock.Request) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stands, released := make(chan struct{}, 1), make(chan struct{}, 1)
	silence := make(chan struct{}) // closed if no messages come
	if sub, ok := b.client.(redisclient.Subscriber); ok {
		go func() { // it ends with ctx; Wait need not wait for it
			defer close(silence)
			_ = sub.Subscribe(ctx, b.o.Prefix+r.Name, func(payload string) {
				tell := released
				if payload == "" {
					tell = stands
				}
				select {
				case tell <- struct{}{}:
				default:
				}
			})
		}()
	} else {
		close(silence)
	}
	// An unlock before the subscription is active sends no message here, so check once when it
	// becomes active.
	polling := false
	for look := recheckAfter; ; {
		t := time.NewTimer(look)
		select {
		case <-stands:
		case <-released:
			t.Stop()
			return nil
		case <-silence:
			polling, silence = true, nil
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		left, err := b.evalNumber(ctx, b.leaseCall(timeLeftScript, r))
		if err != nil || left <= 0 {
			return err
		}
		look = min(recheckAfter, time.Duration(left)*time.Microsecond)
		if polling {
			look = min(look, pollInterval/2+rand.N(pollInterval/2))
		}
	}
}
