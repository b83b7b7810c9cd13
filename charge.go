package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// limiting is what a store of records needs to have for limits.
type limiting interface {
	Limiter
	Lookup(context.Context, StoreKey) (Record, error)
}

var errNoLimiter = fmt.Errorf("the store counts nothing, and the policy has Limits; use a store that implements retrysafe.Limiter, or leave the limits out: %w", errors.ErrUnsupported)

// latestRetry bounds what a caller over its limits is told: a rate that is slow, or a clock that
// was set back, must not send it away for hours.
const latestRetry = time.Minute

// reserve counts a new key, before anything is stored. It looks first: a key that is known is not
// charged, so that its repeats write nothing and need no room. Two calls of one new key that look
// at once are both charged, and the one that does not win gives back. What is not charged here and
// begins all the same is counted when it is settled. s is the store that has the record. A nil
// reservation: the policy has no limits.
func (c *core) reserve(ctx context.Context, s any, key StoreKey, o *callOptions) (*reservation, error) {
	p := o.policy
	if !p.Limits.any() {
		return nil, nil //nolint:nilnil // nothing is counted
	}
	store, ok := s.(limiting)
	if !ok {
		return nil, c.wrap(key, 0, errNoLimiter, 0)
	}
	r := &reservation{core: c, store: store, req: ChargeRequest{
		Namespace: key.Namespace, Tenant: o.payer(key), Keys: 1, For: p.Retention, Limits: p.Limits,
	}}
	if _, inside := AttemptFrom(ctx); inside {
		// work that runs already cannot be told to come later: its own key would be in doubt
		return r, nil
	}
	known, err := c.known(ctx, store, key)
	if err != nil {
		return nil, c.wrap(key, 0, unavailable(err), time.Second)
	}
	if known {
		return r, nil
	}
	got, err := r.charge(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, c.wrap(key, 0, errNoLimiter, 0)
	case err != nil:
		return nil, c.wrap(key, 0, unavailable(err), time.Second)
	case !got.OK:
		return nil, c.wrap(key, 0, ErrTooManyKeys, min(got.After, latestRetry))
	}
	r.counted = true
	return r, nil
}

// known tells whether an attempt of the key has begun before, so that no new key is made of it. One
// that was only issued is new.
func (c *core) known(ctx context.Context, store limiting, key StoreKey) (bool, error) {
	var rec Record
	err := askAgain(ctx, func() (err error) {
		limited, cancel := context.WithTimeout(ctx, acquireLimit)
		defer cancel()
		done := c.trace.store(ctx, "lookup")
		rec, err = store.Lookup(limited, key)
		done(err)
		return err
	})
	return rec.State > StateIssued, err
}

// askAgain makes a call until it is answered, a few times, as acquire does.
func askAgain(ctx context.Context, call func() error) (err error) {
	begun := time.Now()
	for try := range acquireTries {
		if try > 0 && (time.Since(begun) >= 2*acquireLimit || !pause(ctx, time.Duration(try*try)*50*time.Millisecond)) {
			break
		}
		if err = call(); err == nil || !mayBeApplied(err) && !errors.Is(err, ErrTooLate) {
			break
		}
	}
	return err
}

func (c *core) chargeOnce(ctx context.Context, store Limiter, req *ChargeRequest, limit time.Duration) (Charged, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := c.trace.store(ctx, "charge")
	got, err := store.Charge(ctx, *req)
	done(err)
	return got, err
}

// Bounds of what is charged in the background.
const (
	chargesAtOnce = 256 // of an engine
	chargeTries   = 5   // of what certainly was not applied
)

// chargeLater charges what nobody waits for, and what is never refused; next says what, and false
// when it is of no use any more. What certainly was not applied is tried again. What was not
// answered is not: it counts wrongly until its time has passed. Where too many are under way
// already the caller makes the call, once, which holds up those who make them.
func (c *core) chargeLater(store Limiter, next func() (ChargeRequest, bool)) {
	once := func() (again bool) {
		req, ok := next()
		if !ok {
			return false
		}
		_, err := c.chargeOnce(c.ctx, store, &req, ackTime)
		return errors.Is(err, ErrTooLate)
	}
	select {
	case c.charges <- struct{}{}:
	default:
		once()
		return
	}
	c.life.stay() // Shutdown waits for it
	leave := func() {
		<-c.charges
		c.life.leave()
	}
	started := c.background.start(func() {
		defer leave()
		for try := 1; once(); try++ {
			if try == chargeTries || !c.sleep(time.Duration(try)*time.Second) {
				return
			}
		}
	})
	if !started {
		leave()
	}
}

// count adds what the answer of an ending takes that the store has confirmed.
func (a *Attempt) count(e *ending, err error) {
	if err == nil && e.completes() {
		a.core.countAnswer(a.core.store, a.key.Namespace, a.payer, a.policy, &e.complete.Answer)
	}
}

func (c *core) countAnswer(s any, namespace, payer string, p *Policy, answer *Answer) {
	store, ok := s.(Limiter)
	if !ok || p.Limits.Bytes <= 0 || len(answer.Body) == 0 {
		return
	}
	req := ChargeRequest{Namespace: namespace, Tenant: payer, Bytes: int64(len(answer.Body)), For: p.Retention, Limits: p.Limits}
	c.chargeLater(store, func() (ChargeRequest, bool) { return req, true })
}
