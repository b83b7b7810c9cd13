package retrysafe

import (
	"context"
	"fmt"
	"time"
)

// newAttempt returns the attempt for a record that was acquired. It has no heartbeats yet.
func newAttempt(ctx context.Context, c *core, rec *Record, sent time.Time, o *callOptions) *Attempt {
	a := &Attempt{
		rt: c.runtime, beat: &c.beat, waiting: &c.waiting, quotas: &c.quotas,
		key: rec.Key, retention: o.policy.Retention, payer: o.payer(rec.Key), n: rec.Attempt, fence: rec.Fence, owner: rec.Owner, born: rec.Created.UnixMicro(), policy: o.policy, codec: c.codec,
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
	a.until = sent.Add(o.policy.Lease - o.policy.Lease/10)
	a.beatAt = sent.Add(o.policy.Lease / 3)
	a.boundAt = sent.Add(o.policy.MaxRun)
	if rec.Answer.Codec != "" { // what earlier attempts have done
		a.steps.Store(openJournal(&rec.Answer))
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
	if err == nil && !time.Now().Before(a.until) {
		err = fmt.Errorf("%w: its answer came after the lease (%v) had passed", ErrUnavailable, o.policy.Lease)
	}
	if err == nil && !c.beat.add(a) {
		err = ErrClosed
	}
	if err == nil {
		return a, nil
	}
	c.life.stay() // the attempt leaves once, and so does the caller of start
	if mayFollowDoubt(rec, 0) {
		_ = a.LeaveInDoubt(ctx, err)
	} else {
		_ = a.Release(ctx, NothingDone(err))
	}
	return nil, c.wrap(rec.Key, rec.Attempt, err, time.Second)
}
