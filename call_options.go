package retrysafe

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// CallOption changes one call of [Do], [Run], [Engine.Begin] or [DoTx].
type CallOption interface{ apply(*callOptions) }

type callOptions struct {
	policy      *Policy // never modified: options replace it
	fingerprint []byte
	space       [1 + sha256.Size]byte // for a fingerprint of the usual size
	binding     []byte                // the credential itself; the engine stores a digest
	account     string                // the account that Limits count, instead of the tenant
	// The context keeps the caller's deadline, but not its cancellation. Set by Do.
	outlives bool
	attached bool // the context ends with the caller's, even if outlives is set
	detached bool // the context keeps neither deadline nor cancellation
	issued   issued
	retries  int     // for DoTx
	input    *Answer // stored in the record before the work begins; nil: none
	err      error
}

type optionFunc func(*callOptions)

func (f optionFunc) apply(c *callOptions) { f(c) }

// payer returns the account that limits count for a key.
func (c *callOptions) payer(key storeapi.StoreKey) string {
	if c.account != "" {
		return c.account
	}
	return key.Tenant
}

// charge returns what the limits of the policy count for a key.
func (c *callOptions) charge(key storeapi.StoreKey) storeapi.ChargeRequest {
	return storeapi.ChargeRequest{Namespace: key.Namespace, Tenant: c.payer(key), For: c.policy.Retention, Limits: c.policy.Limits.forStore()}
}

// WithPolicy changes the policy of this call. A zero field of p keeps the engine's value.
func WithPolicy(p Policy) CallOption {
	return optionFunc(func(c *callOptions) {
		p := p.Or(*c.policy)
		c.policy, c.err = &p, errors.Join(c.err, p.Validate())
	})
}

// WithBinding binds the key to a credential: a duplicate with another credential gets
// [ErrPrincipalChanged]. Only a digest of the credential is stored.
func WithBinding(credential []byte) CallOption {
	return optionFunc(func(c *callOptions) { c.binding = credential })
}

// WithAccount sets the account that [Limits] count instead of the tenant. Use it for callers whose
// tenant is not verified: otherwise a caller that only claims to be a tenant could use up that
// tenant's quota. The account is not part of the key.
func WithAccount(account string) CallOption {
	return optionFunc(func(c *callOptions) { c.account = KeyPart(account) })
}

// Attached ends the work of [Do] when ctx is cancelled, as [Policy].Attached does. Use it for work
// that then undoes what it did, or that does no harm if it starts again.
func Attached() CallOption {
	return optionFunc(func(c *callOptions) { c.attached = true })
}

// Detached lets the attempt outlive ctx: the attempt's context has the values of ctx, but neither
// its cancellation nor its deadline. Begin itself still ends with ctx.
func Detached() CallOption {
	return optionFunc(func(c *callOptions) { c.detached = true })
}

// RetryWork lets [DoTx] run its transaction again, the work included, at most this many times, if
// the database has rolled it back in favour of another one: a deadlock, or a serialization failure.
// The default is 0: the caller gets the error and retries. Use it only if the work does nothing
// outside its transaction. Other calls ignore it.
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

// outliving returns the options with outlives set, for [Do]: work that has begun does not end
// because its caller has gone.
func (c callOptions) outliving() *callOptions {
	c.outlives = true
	return &c
}

// issued holds the options of a call whose key the server must have issued.
type issued struct {
	must        bool
	signedUntil time.Time
	life        time.Duration
}

// MustBeIssued refuses a key with [ErrNotIssued] if the server has not issued it, or if the time
// for its first use has passed. [DoTx] does not support it: redeem the key around the transaction.
func MustBeIssued() CallOption {
	return optionFunc(func(c *callOptions) { c.issued.must = true })
}
