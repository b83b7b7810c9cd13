package retrysafe

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options configure an [Engine]; nil and every zero field are fine.
type Options struct {
	// Namespace is part of every key: two applications on one store do not meet, and the processes
	// of one have the same. It is required on stores that others may share ([Sharer]: Redis,
	// PostgreSQL, MySQL); in memory and on SQLite the default is "app". Another namespace is
	// another key space: retries that meet it run again.
	Namespace string
	// Policy is what calls and operations inherit.
	Policy Policy
	// Secret keys the digests of credentials and the hashes of keys that people see. It is the same
	// on all processes of one store, at least 16 bytes. Without one they are plain SHA-256, which
	// can be guessed for short keys; the engine warns of that once.
	Secret []byte
	// Codec turns answers into bytes; default [JSON].
	Codec Codec
	// Trace is told of calls, for logs, metrics and spans.
	Trace *Trace
	// Sweep is how often expired records are removed, where the store can; default 1 minute,
	// negative never.
	Sweep time.Duration
	// Logger gets the engine's few warnings; default slog.Default().
	Logger *slog.Logger
}

// Validate says what is wrong with o; [New] panics on what it refuses.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	if len(o.Namespace) > MaxPart {
		errs = append(errs, fmt.Errorf("retrysafe: options: Namespace has %d bytes, at most %d are allowed", len(o.Namespace), MaxPart))
	}
	if n := len(o.Secret); n > 0 && n < 16 {
		errs = append(errs, fmt.Errorf("retrysafe: options: Secret has %d bytes; use at least 16 random ones", n))
	}
	if o.Codec != nil && (o.Codec.Name() == "" || len(o.Codec.Name()) > 64) {
		errs = append(errs, errors.New("retrysafe: options: Codec.Name must have 1 to 64 bytes, since it is kept with each answer"))
	}
	return errors.Join(append(errs, o.Policy.Validate())...)
}

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

// Call is several options in one, for callers on a hot path: a pointer to it is an option. Zero
// fields change nothing.
type Call struct {
	// Fingerprint is as in [WithFingerprint].
	Fingerprint []byte
	// FingerprintRule tells fingerprints of different rules apart, 1 to 127; they are not compared.
	// Zero: there is only one rule.
	FingerprintRule uint8
	// Binding is as in [WithBinding].
	Binding []byte
	// Account is as in [WithAccount].
	Account string
	// Detached is as in the function [Detached].
	Detached bool
	// MustBeIssued is as in the function [MustBeIssued].
	MustBeIssued bool
	// SignedUntil is for a key whose signature stands for having been issued: until then, by the
	// store's clock, the store need not know it. It counts with MustBeIssued.
	SignedUntil time.Time
	// Life is that of issued keys. A record is kept for a minute longer at least, so that a key
	// that was given back can be used again.
	Life time.Duration
}

func (c *Call) apply(o *callOptions) {
	if c.Fingerprint != nil {
		o.give(c.Fingerprint)
		if c.FingerprintRule != 0 && len(o.fingerprint) > 0 {
			o.fingerprint[0] = fingerprintOfRules | c.FingerprintRule
		}
	}
	if c.Binding != nil {
		o.binding = c.Binding
	}
	if c.Account != "" {
		o.account = KeyPart(c.Account)
	}
	o.detached = o.detached || c.Detached
	if c.MustBeIssued {
		o.issued = issued{must: true, signedUntil: c.SignedUntil, life: c.Life}
	}
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

// PolicyWith returns the policy that a call with opts goes by, every field filled, and what is
// wrong with opts.
func (e *Engine) PolicyWith(opts ...CallOption) (Policy, error) {
	o := e.callOptions(opts)
	return *o.policy, o.err
}

// callOptions returns what a call with opts goes by. Without options that is shared and costs
// nothing.
func (e *Engine) callOptions(opts []CallOption) *callOptions { return e.defaults.with(opts) }

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
