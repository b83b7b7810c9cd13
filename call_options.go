package retrysafe

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// CallOption changes one call of Do, Run, Begin or DoTx.
type CallOption interface{ apply(*callOptions) }

type callOptions struct {
	policy      *Policy // never changed: options make another
	fingerprint []byte
	space       [1 + sha256.Size]byte // of a fingerprint of the usual size
	binding     []byte                // the credential itself; digested by the engine
	account     string                // whom Limits count, instead of the tenant
	// the context keeps the deadline of the caller's, and not its cancellation: Do
	outlives bool
	attached bool // it ends with the caller's all the same
	detached bool // it keeps neither
	issued   issued
	retries  int     // of DoTx
	input    *Answer // kept with the record before the work begins; nil: not
	err      error
}

type optionFunc func(*callOptions)

func (f optionFunc) apply(c *callOptions) { f(c) }

// payer is whom limits count for a key.
func (c *callOptions) payer(key StoreKey) string {
	if c.account != "" {
		return c.account
	}
	return key.Tenant
}

// WithPolicy changes the policy of this call; a zero field keeps the engine's.
func WithPolicy(p Policy) CallOption {
	return optionFunc(func(c *callOptions) {
		p := p.Or(*c.policy)
		c.policy, c.err = &p, errors.Join(c.err, p.Validate())
	})
}

// WithBinding ties the key to a credential: a repeat with another one is refused with
// [ErrPrincipalChanged]. Only a digest is kept.
func WithBinding(credential []byte) CallOption {
	return optionFunc(func(c *callOptions) { c.binding = credential })
}

// WithAccount names whom [Limits] count instead of the tenant, for callers whose tenant nobody has
// verified: a stranger who only says that he is somebody must not use up what that one has. It is
// no part of the key.
func WithAccount(account string) CallOption {
	return optionFunc(func(c *callOptions) { c.account = KeyPart(account) })
}

// Attached ends the work of [Do] when ctx is cancelled, as [Policy].Attached does. It is for work
// that undoes itself then, or that does no harm when it is begun anew.
func Attached() CallOption {
	return optionFunc(func(c *callOptions) { c.attached = true })
}

// Detached lets the attempt outlive ctx: its context keeps ctx's values, but neither its end nor
// its deadline. Begin itself still ends with ctx.
func Detached() CallOption {
	return optionFunc(func(c *callOptions) { c.detached = true })
}

// RetryWork lets [DoTx] make its transaction anew, the work included, up to so many times, where
// the database has rolled it back in favour of another one: a deadlock, or a failure to serialize.
// Default 0: the caller is told, and tries again. Use it where the work does nothing outside of its
// transaction. Other calls ignore it.
func RetryWork(times int) CallOption {
	return optionFunc(func(c *callOptions) {
		if c.retries = times; times < 0 {
			c.err = errors.Join(c.err, fmt.Errorf("retrysafe: RetryWork(%d): use 0 or more", times))
		}
	})
}

func (c *callOptions) with(opts []CallOption) *callOptions {
	if len(opts) == 0 {
		return c
	}
	own := *c
	for _, o := range opts {
		o.apply(&own)
	}
	return &own
}

// outliving are the options of [Do]: work that has begun does not end because its caller has gone.
func (c callOptions) outliving() *callOptions {
	c.outlives = true
	return &c
}

// issued is what a call knows of a key that must have been issued.
type issued struct {
	must        bool
	signedUntil time.Time
	life        time.Duration
}

// MustBeIssued refuses keys that the server has not issued, or whose time of first use has passed,
// with [ErrNotIssued]. DoTx does not take it: redeem the key around the transaction.
func MustBeIssued() CallOption {
	return optionFunc(func(c *callOptions) { c.issued.must = true })
}
