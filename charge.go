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

// reservation is a new key that was counted before it is known whether it is new. nil: nothing was counted.
type reservation struct {
	core    *core
	store   Limiter
	req     ChargeRequest
	settled bool
}

// reserve counts a new key, before anything is stored. One that is refused may be known already: its call goes on, and nothing is
// counted. s is the store that has the record.
func (c *core) reserve(ctx context.Context, s any, key StoreKey, p *Policy) (*reservation, error) {
	if !p.Limits.any() {
		return nil, nil //nolint:nilnil // nothing is counted
	}
	store, ok := s.(limiting)
	if !ok {
		return nil, c.wrap(key, 0, errNoLimiter, 0)
	}
	req := ChargeRequest{Namespace: key.Namespace, Tenant: key.Tenant, Keys: 1, For: p.Retention, Limits: p.Limits}
	got, err := c.charge(ctx, store, &req)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, c.wrap(key, 0, errNoLimiter, 0)
	case err != nil:
		return nil, c.wrap(key, 0, unavailable(err), time.Second)
	case got.OK:
		return &reservation{core: c, store: store, req: req}, nil
	}
	known, err := c.known(ctx, store, key)
	if err != nil {
		return nil, c.wrap(key, 0, unavailable(err), time.Second)
	}
	if !known {
		return nil, c.wrap(key, 0, ErrTooManyKeys, got.After)
	}
	return nil, nil //nolint:nilnil // nothing is counted
}

// known tells whether an attempt of the key has begun before, so that no new key is made of it. One that was only issued is new.
func (c *core) known(ctx context.Context, store limiting, key StoreKey) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, acquireLimit)
	defer cancel()
	done := c.trace.store(ctx, "lookup")
	rec, err := store.Lookup(ctx, key)
	done(err)
	return rec.State > StateIssued, err
}

// charge asks until it is answered, a few times, as acquire does. A try that was applied and not answered counts beside the next one,
// until its time has passed: too much is counted rather than too little.
func (c *core) charge(ctx context.Context, store Limiter, req *ChargeRequest) (got Charged, err error) {
	begun := time.Now()
	for try := range acquireTries {
		if try > 0 && (time.Since(begun) >= 2*acquireLimit || !pause(ctx, time.Duration(try*try)*50*time.Millisecond)) {
			break
		}
		if got, err = c.chargeOnce(ctx, store, req, acquireLimit); err == nil || !mayBeApplied(err) {
			break
		}
	}
	return got, err
}

func (c *core) chargeOnce(ctx context.Context, store Limiter, req *ChargeRequest, limit time.Duration) (Charged, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := c.trace.store(ctx, "charge")
	got, err := store.Charge(ctx, *req)
	done(err)
	return got, err
}

// chargesAtOnce is how many charges an engine has under way in the background.
const chargesAtOnce = 256

// chargeLater counts what was not refused and nobody waits for. It is tried once: what is lost counts wrongly until its time has passed.
// Where too many are under way already the caller makes it, which holds up those who make them.
func (c *core) chargeLater(store Limiter, req *ChargeRequest) {
	once := func() { _, _ = c.chargeOnce(c.ctx, store, req, ackTime) }
	select {
	case c.charges <- struct{}{}:
	default:
		once()
		return
	}
	c.life.stay() // Shutdown waits for it
	started := c.background.start(func() {
		once()
		<-c.charges
		c.life.leave()
	})
	if !started {
		<-c.charges
		c.life.leave()
	}
}

// settle ends a reservation: a key that was not new, or that did not begin, is given back. The first word counts.
func (r *reservation) settle(began bool) {
	if r == nil || r.settled {
		return
	}
	if r.settled = true; !began {
		r.req.Keys = -1
		r.core.chargeLater(r.store, &r.req)
	}
}

// count adds what the answer of an ending takes that the store has confirmed.
func (a *Attempt) count(e *ending, err error) {
	if err == nil && e.completes() {
		a.core.countAnswer(a.core.store, a.key, a.policy, &e.complete.Answer)
	}
}

func (c *core) countAnswer(s any, key StoreKey, p *Policy, answer *Answer) {
	store, ok := s.(Limiter)
	if !ok || p.Limits.Bytes <= 0 || len(answer.Body) == 0 {
		return
	}
	c.chargeLater(store, &ChargeRequest{
		Namespace: key.Namespace, Tenant: key.Tenant, Bytes: int64(len(answer.Body)), For: p.Retention, Limits: p.Limits,
	})
}
