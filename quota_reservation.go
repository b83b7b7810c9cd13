package retrysafe

import (
	"context"
	"time"
)

// reservation is what a call has counted of its key before it is known whether the key begins. One
// goroutine has it at a time.
type reservation struct {
	quotas   *quotas
	store    Limiter
	req      ChargeRequest
	counted  bool      // false where the key was known, or is one of work that runs
	at       time.Time // when it was charged
	finished bool
}

// charge asks until it is answered, a few times. A try that was applied and not answered counts
// beside the next one, until its time has passed: too much is counted rather than too little.
//
// The call does not end with its caller, who may hang up at any time: a count that nobody knows of
// would stay. What is counted after the caller has left is given back.
func (r *reservation) charge(ctx context.Context) (got Charged, err error) {
	type answer struct {
		got Charged
		err error
	}
	whole := context.WithoutCancel(ctx)
	ask := func() (a answer) {
		a.err = askAgain(ctx, func() (err error) {
			r.at = time.Now()
			a.got, err = r.quotas.chargeOnce(whole, r.store, &r.req, acquireLimit)
			return err
		})
		return a
	}
	if ctx.Done() == nil {
		a := ask()
		return a.got, a.err
	}
	answers := make(chan answer) // without room: what is in it was taken
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
		return Charged{}, ErrClosed
	}
	select {
	case a := <-answers:
		return a.got, a.err
	case <-ctx.Done():
		return Charged{}, ctx.Err()
	}
}

// settle ends a reservation: a key that was counted and did not begin, or was not new, is given
// back. One that began uncounted is counted now: it is one inside of other work, or its record has
// passed since it was looked at. The first word counts.
func (r *reservation) finish(began bool) {
	if r == nil || r.finished {
		return
	}
	r.finished = true
	switch {
	case began == r.counted:
	case began:
		req := r.req
		req.Limits = req.Limits.unrefused()
		r.quotas.chargeLater(r.store, func() (ChargeRequest, bool) { return req, true })
	default:
		r.quotas.chargeLater(r.store, r.refund)
	}
}

// refund is what is given back now. What has passed by itself is not: it would be taken from the
// keys of others.
func (r *reservation) refund() (req ChargeRequest, ok bool) {
	req = r.req
	req.Keys = -req.Keys
	age := time.Since(r.at)
	if rate := req.Limits.PerSecond; rate > 0 && age.Seconds() >= 1/rate {
		req.Limits = Limits{}
	}
	return req, age < req.For
}

// began tells whether rec says that owner has made a new key of it, whatever became of it since.
func began(rec *Record, owner Owner) bool { return rec.Attempt == 1 && rec.Owner == owner }
