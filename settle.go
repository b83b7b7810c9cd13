package retrysafe

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// end sends the one call that ends an attempt, either a completion or a release, and goes on in the background where the store does
// not answer: an answer that was given to a caller must reach the record, and what certainly did not happen must not become a doubt.
// Whatever it is, no other ending is ever sent after it: a Release behind an unanswered Complete would run the work twice.
func (a *Attempt) end(ctx context.Context, outcome string, why error, complete *CompleteRequest, release *ReleaseRequest) error {
	if !a.ended.CompareAndSwap(false, true) {
		return a.core.wrap(a.key, a.n, ErrEnded, 0)
	}
	if release != nil && !release.InDoubt && a.lost.Load() {
		a.leave(outcome, why)
		return a.core.wrap(a.key, a.n, ErrLeaseLost, 0)
	}
	begun := time.Now()
	a.late.values, a.late.deadline = ctx, begun.Add(ackTime)
	err := a.send(&a.late, complete, release)
	a.late.stop()
	if err == nil || !mayBeApplied(err) {
		return a.settled(outcome, why, err)
	}

	result := make(chan error, 1)
	// What outlives this call must not keep the caller's answer: the buffer may be used again.
	if complete != nil {
		c := *complete
		c.Answer.Body = append([]byte(nil), complete.Answer.Body...)
		if complete.Answer.Body == nil {
			c.Answer.Body = nil
		}
		complete = &c
	}
	if !a.core.background.start(func() { result <- a.settle(outcome, why, complete, release) }) {
		a.leave(outcome, why)
		return a.unconfirmed(ctx, err)
	}
	t := time.NewTimer(ackTime - time.Since(begun))
	defer t.Stop()
	select {
	case err := <-result:
		return err
	case <-t.C:
		return a.unconfirmed(ctx, err)
	}
}

// send makes the call once.
func (a *Attempt) send(ctx context.Context, complete *CompleteRequest, release *ReleaseRequest) error {
	if release != nil {
		return a.core.release(ctx, *release)
	}
	done := a.core.trace.store(ctx, "complete")
	_, err := a.core.store.Complete(ctx, *complete)
	done(err)
	return err
}

// settle repeats the call until it is answered, MaxRun has passed or the engine ends.
func (a *Attempt) settle(outcome string, why error, complete *CompleteRequest, release *ReleaseRequest) error {
	err := ErrUnavailable
	for wait := 25 * time.Millisecond; time.Now().Before(a.boundAt); wait = min(2*wait, time.Second) {
		if !a.core.sleep(wait/2 + rand.N(wait)) {
			break
		}
		ctx, cancel := context.WithTimeout(a.core.ctx, ackTime)
		err = a.send(ctx, complete, release)
		cancel()
		if err == nil || !mayBeApplied(err) {
			return a.settled(outcome, why, err)
		}
	}
	a.leave(outcome, why)
	return a.core.wrap(a.key, a.n, errors.Join(ErrUnconfirmed, err), 0)
}

// settled ends an attempt that the store has answered.
func (a *Attempt) settled(outcome string, why, err error) error {
	if err != nil {
		err = a.core.wrap(a.key, a.n, err, 0)
		if errors.Is(err, ErrLeaseLost) {
			outcome = "lease-lost"
		}
		why = errors.Join(why, err)
	}
	a.leave(outcome, why)
	return err
}

// leave takes the attempt out of the engine's books.
func (a *Attempt) leave(outcome string, why error) {
	a.core.beat.remove(a)
	a.cancel(ErrEnded)
	a.core.waiting.wake(a.key, a.fence)
	a.call.done(outcome, a.n, why)
	a.core.life.leave()
}

func (a *Attempt) unconfirmed(ctx context.Context, err error) error {
	if a.core.trace.Unconfirmed != nil {
		a.core.trace.Unconfirmed(ctx, a.Key(), a.n)
	}
	return a.core.wrap(a.key, a.n, errors.Join(ErrUnconfirmed, err), 0)
}
