package retrysafe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/internal/quota"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Limits bound what one tenant may have in the store, across all processes: the store keeps the
// counts ([storeapi.Limiter]), one for each namespace and tenant. They cover all layers, so a
// transaction inside a guarded handler is a second key. A new key that is over a limit gets
// [ErrTooManyKeys] before anything is stored. A known key is answered as usual, and not counted
// again. Callers without a tenant count as one tenant.
//
// A call inside the work of another call (where [AttemptFrom] returns that call's attempt) is
// counted and never refused: a refusal would put the outer key in doubt although the call is only
// too early. The work itself must handle a refusal that comes from elsewhere, over HTTP for
// example.
//
// In a [Policy] a zero field takes the engine's default; in the engine's policy it means no limit.
// A negative field means no limit. Different policies compare the same count with limits of their
// own. Calls under a policy without any limits are not counted.
type Limits struct {
	// Live is how many keys may be within their retention, counted from when they began. A key
	// stops counting at most a sixteenth of its retention late, never early. With [Forever] it
	// counts for ever.
	Live int64
	// PerSecond is how many new keys may begin in a second on average, 0.0001 to 100000, by the
	// generic cell rate algorithm (GCRA; ATM Forum, Traffic Management 4.0). Policies with the same
	// PerSecond share one rate.
	PerSecond float64
	// Burst is how many new keys may begin at once, at most 100000; default PerSecond, rounded up.
	Burst int64
	// Bytes is how many bytes the stored answers may have before new keys are refused. An answer is
	// counted after it is stored, and no answer is refused, so work that already runs may exceed
	// the limit. Only answers under a policy with this limit count.
	Bytes int64
}

// withBase returns l with each zero field taken from base. If l has its own rate, it also keeps its
// own burst.
func (l Limits) withBase(base Limits) Limits {
	if l.PerSecond == 0 {
		setDefault(&l.Burst, base.Burst)
	}
	setDefault(&l.Live, base.Live)
	setDefault(&l.PerSecond, base.PerSecond)
	setDefault(&l.Bytes, base.Bytes)
	return l
}

func (l *Limits) validate() error {
	var errs []error
	if limits := storeapi.Limits(*l); !limits.ValidRate() {
		errs = append(errs, fmt.Errorf("retrysafe: policy: Limits.PerSecond is %v; use %v to %v, or a negative number for no limit", l.PerSecond, storeapi.MinRate, storeapi.MaxRate))
	}
	if l.Burst < 0 || l.Burst > storeapi.MaxBurst {
		errs = append(errs, fmt.Errorf("retrysafe: policy: Limits.Burst is %d; use 1 to %d, or zero for a second's worth", l.Burst, storeapi.MaxBurst))
	}
	if l.Burst > 0 && l.PerSecond == 0 {
		errs = append(errs, fmt.Errorf("retrysafe: policy: Limits.Burst is %d, and there is no PerSecond that it belongs to", l.Burst))
	}
	return errors.Join(errs...)
}

// chargeRequest returns what the limits of p count for a key: on the account, or else on the
// tenant.
func chargeRequest(key storeapi.StoreKey, account string, p *Policy) storeapi.ChargeRequest {
	return storeapi.ChargeRequest{Namespace: key.Namespace, Tenant: cmp.Or(account, key.Tenant), For: p.Retention, Limits: storeapi.Limits(p.Limits)}
}

// reserveKey counts a new key as the policy's limits say; records is the store that has the record.
func (c *core) reserveKey(ctx context.Context, records any, key storeapi.StoreKey, o *callOptions) (*quota.Reservation, error) {
	_, inside := AttemptFrom(ctx)
	reserved, wait, err := c.quotas.Reserve(ctx, records, key, chargeRequest(key, o.account, o.policy), inside)
	if err != nil {
		return nil, c.wrapError(key, 0, err, wait)
	}
	return reserved, nil
}

func setDefault[T comparable](field *T, base T) {
	var zero T
	if *field == zero {
		*field = base
	}
}

// Rate bounds how often something may be requested, by the generic cell rate algorithm (GCRA; ATM
// Forum, Traffic Management 4.0). Unlike [Limits], which count new keys, it counts every request,
// duplicates included.
type Rate struct {
	// PerSecond is how many requests may come in a second on average, 0.0001 to 100000; 0.1 is six
	// in a minute.
	PerSecond float64
	// Burst is how many requests may come at once, 1 to 100000; default PerSecond, rounded up.
	Burst int64
}

// Validate returns an error that says what is wrong with r, or nil. The zero Rate is an error,
// since it has no rate.
func (r Rate) Validate() error {
	l := r.limits()
	switch {
	case r.PerSecond <= 0 || !l.ValidRate():
		return fmt.Errorf("retrysafe: Rate.PerSecond is %v; use %v to %v", r.PerSecond, storeapi.MinRate, storeapi.MaxRate)
	case r.Burst < 0 || r.Burst > storeapi.MaxBurst:
		return fmt.Errorf("retrysafe: Rate.Burst is %d; use 1 to %d, or zero for a second's worth", r.Burst, storeapi.MaxBurst)
	}
	return nil
}

func (r Rate) limits() storeapi.Limits {
	return storeapi.Limits{PerSecond: r.PerSecond, Burst: r.Burst}
}

// rateSpace is appended to the namespace for the counts of rates, so that they never meet those of
// a tenant's keys.
const rateSpace = "\x00rate"

// Allow counts a request of a tenant for a thing, such as an operation or a route. The count is in
// the store, so all processes share one rate. A call costs one round trip.
//
// [ErrTooManyRequests] means that the request came too early and was not counted; RetryAfter of the
// [*Error] says when to retry. [ErrUnavailable] means that the store does not answer: a request
// that cannot be counted should not run. If the store has no [storeapi.Limiter], the error wraps
// errors.ErrUnsupported.
//
// A request whose reply is lost may have been counted. That costs the tenant one request too many,
// never one too few. Allow does not depend on the engine's layer and policy.
func (e *Engine) Allow(ctx context.Context, tenant, thing string, r Rate) error {
	if err := r.Validate(); err != nil {
		return err
	}
	c := e.c
	refuse := func(err error, after time.Duration) error { return &Error{Op: thing, Err: err, RetryAfter: after} }
	store, ok := c.store.Inner().(storeapi.Limiter)
	if !ok {
		return refuse(quota.ErrNoLimiter, 0)
	}
	req := storeapi.ChargeRequest{
		Namespace: KeyPart(c.namespace + rateSpace), Tenant: KeyPart(strconv.Itoa(len(thing)) + ":" + thing + tenant),
		// The lifetime of keys does not matter here.
		Keys: 1, For: time.Millisecond, Limits: r.limits(),
	}
	var got storeapi.Charged
	err := c.store.CallUntilAnswered(ctx, func(limit time.Duration) (err error) {
		got, err = c.store.Charge(ctx, store, &req, limit)
		return err
	})
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return refuse(quota.ErrNoLimiter, 0)
	case err != nil:
		return refuse(storecall.Unavailable(err), time.Second)
	case !got.OK:
		return refuse(ErrTooManyRequests, min(got.After, quota.LatestRetry))
	}
	return nil
}
