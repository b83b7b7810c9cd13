package retrysafe

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// reservation is what a call has counted for its key before it is known whether the key begins.
// Only one goroutine uses it at a time.
type reservation struct {
	quotas   *quotas
	store    storeapi.Limiter
	req      storeapi.ChargeRequest
	counted  bool      // false if the key was known, or the call is inside other work
	at       time.Time // when it was charged
	finished bool
}

// charge calls Charge until the store answers, at most a few times. A try that was applied and not
// answered counts in addition to the next one, until its time has passed: it is better to count too
// much than too little.
//
// The call does not end with its caller, who may hang up at any time: a count that no caller knows
// of would stay. What is counted after the caller has left is given back.
func (r *reservation) charge(ctx context.Context) (got storeapi.Charged, err error) {
	type answer struct {
		got storeapi.Charged
		err error
	}
	whole := context.WithoutCancel(ctx)
	ask := func() (a answer) {
		a.err = r.quotas.rt.patience.askAgain(ctx, func(limit time.Duration) (err error) {
			r.at = time.Now()
			a.got, err = r.quotas.chargeOnce(whole, r.store, &r.req, limit)
			return err
		})
		return a
	}
	if ctx.Done() == nil {
		a := ask()
		return a.got, a.err
	}
	answers := make(chan answer) // unbuffered: an answer that was sent was received
	r.quotas.rt.life.stay()
	started := r.quotas.rt.background.start(func() {
		defer r.quotas.rt.life.leave()
		a := ask()
		select {
		case answers <- a:
		case <-ctx.Done():
			r.counted = a.err == nil && a.got.OK
			r.finish(false)
		}
	})
	if !started {
		r.quotas.rt.life.leave()
		return storeapi.Charged{}, ErrClosed
	}
	select {
	case a := <-answers:
		return a.got, a.err
	case <-ctx.Done():
		return storeapi.Charged{}, ctx.Err()
	}
}

// finish ends a reservation. It gives back a key that was counted and did not begin, or was not
// new. It counts a key that began uncounted: its call is inside other work, or its record has
// expired since it was looked up. The first call decides; later calls do nothing.
func (r *reservation) finish(began bool) {
	if r == nil || r.finished {
		return
	}
	r.finished = true
	switch {
	case began == r.counted:
	case began:
		req := r.req
		req.Limits = unrefused(req.Limits)
		r.quotas.chargeLater(r.store, func() (storeapi.ChargeRequest, bool) { return req, true })
	default:
		r.quotas.chargeLater(r.store, r.refund)
	}
}

// refund returns the charge that gives back what still counts. What has expired by itself is left
// out: it would be taken from other keys.
func (r *reservation) refund() (req storeapi.ChargeRequest, ok bool) {
	req = r.req
	req.Keys = -req.Keys
	age := time.Since(r.at)
	if rate := req.Limits.PerSecond; rate > 0 && age.Seconds() >= 1/rate {
		req.Limits = storeapi.Limits{}
	}
	return req, age < req.For
}

// began reports whether owner has made a new key of rec, whatever happened to rec since then.
func began(rec *Record, owner storeapi.Owner) bool { return rec.Attempt == 1 && rec.Owner == owner }
