package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/internal/quota"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/storeapi"
)

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
	err := c.store.AskAgain(ctx, func(limit time.Duration) (err error) {
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
