// Package quota counts what the tenants of an engine use, in its store, and refuses new keys that
// are over a limit.
package quota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/lifetime"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// ErrTooManyKeys means that a tenant is over its limits. Nothing was stored.
var ErrTooManyKeys = errors.New("the tenant has as many keys as its limits allow")

// ErrNoLimiter means that the store counts nothing.
var ErrNoLimiter = fmt.Errorf("the store counts nothing, and the policy has Limits; use a store that implements storeapi.Limiter, or leave the limits out: %w", errors.ErrUnsupported)

// LatestRetry bounds how long a caller over its limits is sent away: a slow rate, or a clock that
// was set back, must not do so for hours.
const LatestRetry = time.Minute

// chargesAtOnce is how many charges of one engine are in flight in the background.
const chargesAtOnce = 256

// chargeTries is how often a charge in the background is made that certainly was not applied.
const chargeTries = 5

// Quotas counts for one engine. It is safe for concurrent use.
type Quotas struct {
	store *storecall.Store
	life  *lifetime.Life
	slots chan struct{} // one for each charge in flight in the background
}

// New returns Quotas.
func New(store *storecall.Store, life *lifetime.Life) *Quotas {
	return &Quotas{store: store, life: life, slots: make(chan struct{}, chargesAtOnce)}
}

// limitingStore is what limits need of a store that has the records.
type limitingStore interface {
	storeapi.Limiter
	storecall.Looker
}

// Reservation is what a call has counted for its key before it is known whether the key begins.
// Only one goroutine uses it at a time. Nil means that nothing is counted.
type Reservation struct {
	quotas    *Quotas
	store     storeapi.Limiter
	req       storeapi.ChargeRequest
	counted   bool      // false if the key was known, or the call is inside other work
	chargedAt time.Time // when it was charged
	finished  bool
}

// Limited reports whether limits limit anything.
func Limited(l *storeapi.Limits) bool { return l.Live > 0 || l.PerSecond > 0 || l.Bytes > 0 }

// Reserve counts a new key, before anything is stored. It looks the key up first: a known key is
// not charged, so its duplicates write nothing and need no room. If two calls for one new key look
// at once, both are charged, and the one that does not acquire it gives back. Finish counts a key
// that is not charged here and begins nevertheless.
//
// records is the store that has the record. req has the payer, the limits and the retention. inside
// says that the call is inside other work, which must not be refused: its own key would be in
// doubt. After an error, wait is how long the caller waits before a retry.
func (q *Quotas) Reserve(ctx context.Context, records any, key storeapi.StoreKey, req storeapi.ChargeRequest, inside bool) (r *Reservation, wait time.Duration, err error) {
	if !Limited(&req.Limits) {
		return nil, 0, nil
	}
	store, ok := records.(limitingStore)
	if !ok {
		return nil, 0, ErrNoLimiter
	}
	req.Namespace, req.Keys = key.Namespace, 1
	r = &Reservation{quotas: q, store: store, req: req}
	if inside {
		return r, 0, nil
	}
	known, err := q.isKnown(ctx, store, key)
	if err != nil {
		return nil, time.Second, storecall.Unavailable(err)
	}
	if known {
		return r, 0, nil
	}
	got, err := r.chargeKey(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, 0, ErrNoLimiter
	case err != nil:
		return nil, time.Second, storecall.Unavailable(err)
	case !got.OK:
		return nil, min(got.After, LatestRetry), ErrTooManyKeys
	}
	r.counted = true
	return r, 0, nil
}

// isKnown reports whether an attempt of the key has begun before, so that the call makes no new
// key. A key that was only issued is new.
func (q *Quotas) isKnown(ctx context.Context, store storecall.Looker, key storeapi.StoreKey) (bool, error) {
	var rec storeapi.Record
	err := q.store.CallUntilAnswered(ctx, func(limit time.Duration) (err error) {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		rec, err = q.store.LookupIn(limited, store, key)
		return err
	})
	return rec.State > storeapi.StateIssued, err
}

// chargeKey calls Charge until the store answers, at most a few times. A try that was applied and
// not answered counts in addition to the next one, until its time has passed: it is better to count
// too much than too little.
//
// The call does not end with its caller, who may hang up at any time: a count that no caller knows
// of would stay. What is counted after the caller has left is given back.
func (r *Reservation) chargeKey(ctx context.Context) (got storeapi.Charged, err error) {
	type answer struct {
		got storeapi.Charged
		err error
	}
	q, whole := r.quotas, context.WithoutCancel(ctx)
	ask := func() (a answer) {
		a.err = q.store.CallUntilAnswered(ctx, func(limit time.Duration) (err error) {
			r.chargedAt = time.Now()
			a.got, err = q.store.Charge(whole, r.store, &r.req, limit)
			return err
		})
		return a
	}
	if ctx.Done() == nil {
		a := ask()
		return a.got, a.err
	}
	answers := make(chan answer) // unbuffered: an answer that was sent was received
	q.life.EnterAgain()
	started := q.life.Go(func() {
		defer q.life.Leave()
		a := ask()
		select {
		case answers <- a:
		case <-ctx.Done():
			r.counted = a.err == nil && a.got.OK
			r.Finish(false)
		}
	})
	if !started {
		q.life.Leave()
		return storeapi.Charged{}, lifetime.ErrClosed
	}
	select {
	case a := <-answers:
		return a.got, a.err
	case <-ctx.Done():
		return storeapi.Charged{}, ctx.Err()
	}
}

// Finish ends a reservation. It gives back a key that was counted and did not begin, or was not
// new. It counts a key that began uncounted: its call is inside other work, or its record has
// expired since it was looked up. The first call decides; later calls do nothing.
func (r *Reservation) Finish(began bool) {
	if r == nil || r.finished {
		return
	}
	r.finished = true
	switch {
	case began == r.counted:
	case began:
		req := r.req
		req.Limits = unrefusedLimits(req.Limits)
		r.quotas.chargeLater(r.store, func() (storeapi.ChargeRequest, bool) { return req, true })
	default:
		r.quotas.chargeLater(r.store, r.refundRequest)
	}
}

// refundRequest returns the charge that gives back what still counts. What has expired by itself is
// left out: it would be taken from other keys.
func (r *Reservation) refundRequest() (req storeapi.ChargeRequest, ok bool) {
	req = r.req
	req.Keys = -req.Keys
	age := time.Since(r.chargedAt)
	if rate := req.Limits.PerSecond; rate > 0 && age.Seconds() >= 1/rate {
		req.Limits = storeapi.Limits{}
	}
	return req, age < req.For
}

// unrefusedLimits returns the limits for a key that is counted and not refused. Only a key that is
// more than the largest burst ahead of the rate is still refused.
func unrefusedLimits(l storeapi.Limits) storeapi.Limits {
	if l.PerSecond <= 0 {
		return storeapi.Limits{}
	}
	return storeapi.Limits{PerSecond: l.PerSecond, Burst: storeapi.MaxBurst}
}

// CountBytes counts the bytes of an answer that was stored in records, in the background. req has
// the payer, the limits and the retention.
func (q *Quotas) CountBytes(records any, req storeapi.ChargeRequest) {
	store, ok := records.(storeapi.Limiter)
	if !ok || req.Limits.Bytes <= 0 || req.Bytes <= 0 {
		return
	}
	q.chargeLater(store, func() (storeapi.ChargeRequest, bool) { return req, true })
}

// chargeLater makes a charge that no caller waits for and that is never refused. next returns the
// charge, or false if it is no longer of use. A charge that certainly was not applied is tried
// again. One that was not answered is not, and counts wrongly until its time has passed. If too
// many charges are in flight, the caller makes the call itself, once, which slows down those who
// make them.
func (q *Quotas) chargeLater(store storeapi.Limiter, next func() (storeapi.ChargeRequest, bool)) {
	once := func() (again bool) {
		req, ok := next()
		if !ok {
			return false
		}
		_, err := q.store.Charge(q.life.Context(), store, &req, storecall.AckTime)
		return errors.Is(err, storeapi.ErrTooLate)
	}
	select {
	case q.slots <- struct{}{}:
	default:
		once()
		return
	}
	q.life.EnterAgain() // Shutdown waits for it
	leave := func() {
		<-q.slots
		q.life.Leave()
	}
	started := q.life.Go(func() {
		defer leave()
		for try := 1; once(); try++ {
			if try == chargeTries || !q.life.Sleep(time.Duration(try)*time.Second) {
				return
			}
		}
	})
	if !started {
		leave()
	}
}
