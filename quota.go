package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// limiting is what limits need of a store that has the records.
type limiting interface {
	storeapi.Limiter
	Lookup(context.Context, storeapi.StoreKey) (Record, error)
}

var errNoLimiter = fmt.Errorf("the store counts nothing, and the policy has Limits; use a store that implements storeapi.Limiter, or leave the limits out: %w", errors.ErrUnsupported)

// latestRetry bounds the RetryAfter of a caller over its limits: a slow rate, or a clock that was
// set back, must not send it away for hours.
const latestRetry = time.Minute

// quotas counts what the tenants of an engine use, in its store.
type quotas struct {
	rt    *runtime
	slots chan struct{} // one for each charge in flight in the background
}

// reserve counts a new key, before anything is stored. It looks the key up first: a known key is
// not charged, so its duplicates write nothing and need no room. If two calls for one new key look
// at once, both are charged, and the one that does not acquire it gives back. finish counts a key
// that is not charged here and begins nevertheless. s is the store that has the record. A nil
// reservation means that the policy has no limits.
func (q *quotas) reserve(ctx context.Context, s any, key storeapi.StoreKey, p *Policy, payer string, inside bool) (*reservation, error) {
	if !p.Limits.any() {
		return nil, nil //nolint:nilnil // nothing is counted
	}
	store, ok := s.(limiting)
	if !ok {
		return nil, q.rt.wrap(key, 0, errNoLimiter, 0)
	}
	r := &reservation{quotas: q, store: store, req: storeapi.ChargeRequest{
		Namespace: key.Namespace, Tenant: payer, Keys: 1, For: p.Retention, Limits: p.Limits.forStore(),
	}}
	if inside {
		// Work that already runs must not be refused: its own key would be in doubt.
		return r, nil
	}
	known, err := q.known(ctx, store, key)
	if err != nil {
		return nil, q.rt.wrap(key, 0, unavailable(err), time.Second)
	}
	if known {
		return r, nil
	}
	got, err := r.charge(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, q.rt.wrap(key, 0, errNoLimiter, 0)
	case err != nil:
		return nil, q.rt.wrap(key, 0, unavailable(err), time.Second)
	case !got.OK:
		return nil, q.rt.wrap(key, 0, ErrTooManyKeys, min(got.After, latestRetry))
	}
	r.counted = true
	return r, nil
}

// known reports whether an attempt of the key has begun before, so that the call makes no new key.
// A key that was only issued is new.
func (q *quotas) known(ctx context.Context, store limiting, key storeapi.StoreKey) (bool, error) {
	var rec Record
	err := q.rt.patience.askAgain(ctx, func(limit time.Duration) (err error) {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		done := q.rt.trace.store(ctx, "lookup")
		rec, err = store.Lookup(limited, key)
		done.with(err)
		return err
	})
	return rec.State > StateIssued, err
}

func (q *quotas) chargeOnce(ctx context.Context, store storeapi.Limiter, req *storeapi.ChargeRequest, limit time.Duration) (storeapi.Charged, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := q.rt.trace.store(ctx, "charge")
	got, err := store.Charge(ctx, *req)
	done.with(err)
	return got, err
}

// Bounds of charges in the background.
const (
	chargesAtOnce = 256 // in flight for one engine
	chargeTries   = 5   // of a charge that certainly was not applied
)

// chargeLater makes a charge that no caller waits for and that is never refused. next returns the
// charge, or false if it is no longer of use. A charge that certainly was not applied is tried
// again. One that was not answered is not, and counts wrongly until its time has passed. If too
// many charges are in flight, the caller makes the call itself, once, which slows down those who
// make them.
func (q *quotas) chargeLater(store storeapi.Limiter, next func() (storeapi.ChargeRequest, bool)) {
	once := func() (again bool) {
		req, ok := next()
		if !ok {
			return false
		}
		_, err := q.chargeOnce(q.rt.ctx, store, &req, ackTime)
		return errors.Is(err, ErrTooLate)
	}
	select {
	case q.slots <- struct{}{}:
	default:
		once()
		return
	}
	q.rt.life.stay() // Shutdown waits for it
	leave := func() {
		<-q.slots
		q.rt.life.leave()
	}
	started := q.rt.background.start(func() {
		defer leave()
		for try := 1; once(); try++ {
			if try == chargeTries || !q.rt.sleep(time.Duration(try)*time.Second) {
				return
			}
		}
	})
	if !started {
		leave()
	}
}

func (q *quotas) countAnswer(s any, namespace, payer string, p *Policy, answer *Answer) {
	store, ok := s.(storeapi.Limiter)
	if !ok || p.Limits.Bytes <= 0 || len(answer.Body) == 0 {
		return
	}
	req := storeapi.ChargeRequest{Namespace: namespace, Tenant: payer, Bytes: int64(len(answer.Body)), For: p.Retention, Limits: p.Limits.forStore()}
	q.chargeLater(store, func() (storeapi.ChargeRequest, bool) { return req, true })
}
