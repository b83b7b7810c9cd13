package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Issue makes a key that calls with [MustBeIssued] accept. The key must be used for the first time
// within life, by the store's clock. A call that has acquired the key is not bound by that. Package
// token makes such keys and hands them out; it calls Issue on its layer.
//
// Issue asks the store once. After an error it is unknown whether the key was issued: do not hand
// it out, and make another one. A copy of the request that arrives late then issues a key that no
// caller has.
//
// Errors: [ErrNotIssued] (the key has a record), [ErrInvalidKey], [ErrUnavailable], [ErrClosed],
// and one that wraps errors.ErrUnsupported if the store issues no keys.
func (e *Engine) Issue(ctx context.Context, k Key, life time.Duration) error {
	c, key := e.c, e.storeKey(k)
	err := key.Validate()
	if err == nil && life <= 0 {
		err = fmt.Errorf("%w: its life is %v; use a positive time, for example 5m", ErrInvalidKey, life)
	}
	if err != nil {
		return &Error{Op: k.Operation, Err: err}
	}
	if !c.enterCall() {
		return c.wrapError(key, 0, ErrClosed, time.Second)
	}
	defer c.life.Leave()
	status, err := c.issueKey(ctx, key, life)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return c.wrapError(key, 0, err, 0)
	case err != nil:
		return c.wrapError(key, 0, storecall.Unavailable(err), time.Second)
	case status != storeapi.StatusAcquired:
		return c.wrapError(key, 0, ErrNotIssued, 0)
	}
	return nil
}

var errNoIssuer = fmt.Errorf("the store issues no keys; use one that implements storeapi.Issuer: %w", errors.ErrUnsupported)

func (c *core) issueKey(ctx context.Context, key storeapi.StoreKey, life time.Duration) (storeapi.Status, error) {
	status, err := c.store.Issue(ctx, storeapi.IssueRequest{Key: key, Owner: claim.NewOwner(), Retention: life})
	if errors.Is(err, errors.ErrUnsupported) {
		err = errNoIssuer
	}
	return status, err
}

// StoreTime returns the store's clock as the engine estimates it from the store's replies. It asks
// the store if the last reply is more than a minute old. If the store does not answer, an old reply
// is good enough; without any reply the error is [ErrUnavailable].
func (e *Engine) StoreTime(ctx context.Context) (time.Time, error) {
	c := e.c
	if !c.store.KnowsTime() || c.store.TimeAge() > time.Minute {
		err := c.store.ReadTime(ctx, e.storeKey(Key{Operation: "time", ID: "time"}))
		if err != nil && !c.store.KnowsTime() {
			return time.Time{}, &Error{Op: "time", Err: storecall.Unavailable(err), RetryAfter: time.Second}
		}
	}
	return c.store.TimeAt(time.Now()), nil
}

// issuedSlack is how much longer a record is kept than the time of first use. Clocks are estimated,
// and never that far off.
const issuedSlack = time.Minute

// extendRetention makes the retention of an issued key long enough: its record has to outlive the
// time of first use. Otherwise the record of a released key would expire too early, and a signed
// key could be issued again.
func (c *core) extendRetention(ctx context.Context, key storeapi.StoreKey, o *callOptions) (*callOptions, error) {
	if !o.issued.signedUntil.IsZero() && !c.store.KnowsTime() {
		if err := c.store.ReadTime(ctx, key); err != nil {
			return nil, storecall.Unavailable(err)
		}
	}
	if least := max(o.issued.life, c.firstUseLeft(o)) + issuedSlack; o.policy.Retention < least {
		own, policy := *o, *o.policy
		policy.Retention = least
		own.policy, o = &policy, &own
	}
	return o, nil
}

// firstUseLeft returns how long a signed key may still be used for the first time; the clock must
// be known. For other keys it returns zero, since the store knows.
func (c *core) firstUseLeft(o *callOptions) time.Duration {
	if o.issued.signedUntil.IsZero() {
		return 0
	}
	return o.issued.signedUntil.Sub(c.store.TimeAt(time.Now()))
}

// issueSigned issues a signed key at its first use.
func (c *core) issueSigned(ctx context.Context, key storeapi.StoreKey, o *callOptions) error {
	left := c.firstUseLeft(o)
	if left <= 0 {
		return nil
	}
	// StatusAlreadyIssued means that it was used before, perhaps by another process just now.
	_, err := c.issueKey(ctx, key, left)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		err = storecall.Unavailable(err)
	}
	return err
}
