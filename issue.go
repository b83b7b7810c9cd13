package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Issue makes a key that calls with [MustBeIssued] accept. Its first use must come within life, by
// the store's clock; a call that has won it is not bound by that. The package token makes such keys
// and hands them out; it calls this on its layer.
//
// The store is asked once. After an error nobody knows whether the key was issued: do not hand it
// out, make another one. A copy of the request that arrives late then issues a key that nobody has.
//
// Errors: [ErrNotIssued] (there is a record of this key), [ErrInvalidKey], [ErrUnavailable],
// [ErrClosed], and one that wraps errors.ErrUnsupported where the store issues no keys.
func (e *Engine) Issue(ctx context.Context, k Key, life time.Duration) error {
	c, key := e.c, e.storeKey(k)
	err := key.Validate()
	if err == nil && life <= 0 {
		err = fmt.Errorf("%w: its life is %v; use a positive time, for example 5m", ErrInvalidKey, life)
	}
	if err != nil {
		return &Error{Op: k.Operation, Err: err}
	}
	if !c.enter() {
		return c.wrap(key, 0, ErrClosed, time.Second)
	}
	defer c.life.leave()
	status, err := c.issue(ctx, key, life)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return c.wrap(key, 0, err, 0)
	case err != nil:
		return c.wrap(key, 0, unavailable(err), time.Second)
	case status != Won:
		return c.wrap(key, 0, ErrNotIssued, 0)
	}
	return nil
}

var errNoIssuer = fmt.Errorf("the store issues no keys; use one that implements retrysafe.Issuer: %w", errors.ErrUnsupported)

func (c *core) issue(ctx context.Context, key StoreKey, life time.Duration) (Status, error) {
	s, ok := c.store.(Issuer)
	if !ok {
		return 0, errNoIssuer
	}
	ctx, cancel := context.WithTimeout(ctx, acquireLimit)
	defer cancel()
	done := c.trace.store(ctx, "issue")
	status, err := s.Issue(ctx, IssueRequest{Key: key, Owner: newOwner(), Retention: life})
	done(err)
	if errors.Is(err, errors.ErrUnsupported) {
		err = errNoIssuer
	}
	return status, err
}

// StoreTime is the store's clock as the engine knows it from the store's replies. It asks the store
// where the last reply is more than a minute old. [ErrUnavailable]: there was no reply yet; an old
// one is good enough where the store is away.
func (e *Engine) StoreTime(ctx context.Context) (time.Time, error) {
	c := e.c
	if !c.clock.known.Load() || c.clock.age() > time.Minute {
		err := c.readClock(ctx, e.storeKey(Key{Operation: "time", ID: "time"}))
		if err != nil && !c.clock.known.Load() {
			return time.Time{}, &Error{Op: "time", Err: unavailable(err), RetryAfter: time.Second}
		}
	}
	return c.clock.at(time.Now()), nil
}

// issuedSlack is what a record outlives the time of first use by. Clocks are estimated, and never
// that far off.
const issuedSlack = time.Minute

// lasting makes the retention right for an issued key. Its record has to outlive the time of first
// use: else a key that was given back would be gone too early, and one that is signed could be
// issued anew.
func (c *core) lasting(ctx context.Context, key StoreKey, o *callOptions) (*callOptions, error) {
	if !o.issued.must {
		return o, nil
	}
	if !o.issued.signedUntil.IsZero() && !c.clock.known.Load() {
		if err := c.readClock(ctx, key); err != nil {
			return nil, unavailable(err)
		}
	}
	if least := max(o.issued.life, c.timeLeft(o)) + issuedSlack; o.policy.Retention < least {
		own, policy := *o, *o.policy
		policy.Retention = least
		own.policy, o = &policy, &own
	}
	return o, nil
}

// timeLeft is how long a signed key may still be used first, once the clock is known; of others
// zero, for the store knows.
func (c *core) timeLeft(o *callOptions) time.Duration {
	if o.issued.signedUntil.IsZero() {
		return 0
	}
	return o.issued.signedUntil.Sub(c.clock.at(time.Now()))
}

// issueSigned issues a signed key, by its first use.
func (c *core) issueSigned(ctx context.Context, key StoreKey, o *callOptions) error {
	left := c.timeLeft(o)
	if !o.issued.must || left <= 0 {
		return nil
	}
	// AlreadyIssued: it was used before, perhaps by another process just now
	_, err := c.issue(ctx, key, left)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		err = unavailable(err)
	}
	return err
}

// issuedTooLate tells of a signed key that was won although it was issued after its time: by a
// process that was held up between its look at the clock and the store. The key may have been used
// long ago, and its record be gone.
func (c *callOptions) issuedTooLate(rec *Record) bool {
	return !c.issued.signedUntil.IsZero() && rec.Created.After(c.issued.signedUntil)
}
