package redislock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/redisclient"
)

const (
	// lookAgain is how often a waiter looks for itself, where messages come: they are not promised.
	lookAgain = time.Second
	// poll is how often it looks where none come: half of it to all of it.
	poll = 50 * time.Millisecond
)

// Wait implements [lock.Backend]. Who waits is woken by a message of the one who unlocks; without a
// client that can subscribe it asks up to forty times a second.
func (b *Backend) Wait(ctx context.Context, r lock.Request) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stands, released := make(chan struct{}, 1), make(chan struct{}, 1)
	silence := make(chan struct{}) // closed: no messages come
	if sub, ok := b.client.(redisclient.Subscriber); ok {
		go func() { // it ends with ctx, and nobody has to wait for that
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
	// What happens before the subscription stands brings no message, so that the first look comes
	// when it does.
	polling := false
	for look := lookAgain; ; {
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
		left, err := b.ask(ctx, b.call(leftScript, r))
		if err != nil || left <= 0 {
			return err
		}
		look = min(lookAgain, time.Duration(left)*time.Microsecond)
		if polling {
			look = min(look, poll/2+rand.N(poll/2))
		}
	}
}
