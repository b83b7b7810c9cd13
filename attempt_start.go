package retrysafe

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/journal"
)

// newAttempt returns the attempt for a record that was acquired. It has no heartbeats yet.
func newAttempt(ctx context.Context, c *core, rec *Record, sent time.Time, o *callOptions) *Attempt {
	a := &Attempt{
		c: c, key: rec.Key, retention: o.policy.Retention, charge: o.charge(rec.Key), n: rec.Attempt, fence: rec.Fence, owner: rec.Owner, born: rec.Created.UnixMicro(), policy: o.policy, codec: c.codec,
		started: sent,
	}
	parent := ctx
	if o.detached || o.outlives && !o.attached && !o.policy.Attached {
		parent, a.ctx.values = context.Background(), ctx
	}
	a.outlivesRelease = rec.Issued || rec.EarlierCut || len(rec.Earlier) > 0
	a.ctx.attempt = a
	a.ctx.Context, a.cancel = context.WithCancelCause(parent)
	if end, ok := ctx.Deadline(); ok && parent != ctx && !o.detached {
		a.deadline(end)
	}
	a.lease.Start(rec, o.policy.Lease, o.policy.MaxRun, sent, &a.ctx, (*leaseHolder)(a))
	if rec.Answer.Codec != "" { // what earlier attempts have done
		a.steps.Store(journal.Open(&rec.Answer))
	}
	return a
}

// start returns the attempt for a claim that was sent at sent and acquired rec, and starts its
// heartbeats.
func (c *core) start(ctx context.Context, rec *Record, sent time.Time, o *callOptions) (*Attempt, error) {
	a := newAttempt(ctx, c, rec, sent, o)
	// Nothing has run yet. If the caller has gone, or the reply came after the lease had expired,
	// the key is given back.
	err := ctx.Err()
	if err == nil && a.lease.Expired() {
		err = fmt.Errorf("%w: its answer came after the lease (%v) had passed", ErrUnavailable, o.policy.Lease)
	}
	if err == nil && !c.leases.Add(&a.lease) {
		err = ErrClosed
	}
	if err == nil {
		return a, nil
	}
	c.life.Stay() // the attempt leaves once, and so does the caller of start
	if claim.MayFollowDoubt(rec, 0) {
		_ = a.LeaveInDoubt(ctx, err)
	} else {
		_ = a.Release(ctx, NothingDone(err))
	}
	return nil, c.wrap(rec.Key, rec.Attempt, err, time.Second)
}

// leaseHolder is the attempt as the keeper of its lease knows it.
type leaseHolder Attempt

// Lose ends the attempt's context. From now on the attempt is released only if the work itself
// returns NothingDone.
func (h *leaseHolder) Lose(cause error) {
	a := (*Attempt)(h)
	a.lost.Store(true)
	a.cancel(cause)
	if t := a.c.trace.Lost; t != nil && !a.ended.Load() {
		// No report after a finishing call has begun: it may have arrived although its reply has
		// not. The report has its own goroutine, since the lock is held and the function is the
		// user's.
		a.c.life.Go(func() { t(&a.ctx, AttemptInfo{Key: a.Key(), Attempt: a.n, Err: cause}) })
	}
}
