package retrysafe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/detached"
	"github.com/retrysafe/retrysafe/internal/journal"
	"github.com/retrysafe/retrysafe/internal/lease"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Attempt is one run of the work of a key. Finish it once, with Complete, Fail, Release or
// LeaveInDoubt. A second of these calls returns [ErrEnded] and changes nothing, so "defer
// a.LeaveInDoubt(ctx, err)" is safe together with the others. Heartbeats extend the lease until the
// attempt is finished. Methods may be called concurrently.
type Attempt struct {
	c       *core
	key     storeapi.StoreKey
	number  int
	fence   Fence
	owner   storeapi.Owner
	account string // that limits count, instead of the tenant
	// when the record was created, by the store's clock, in microseconds
	recordCreated int64
	policy        *Policy
	codec         Codec
	started       time.Time
	// retention is that of the policy; zero means that of the record.
	retention time.Duration
	// outlivesRelease is set if the record has something that must be kept after a release.
	outlivesRelease bool
	call            *callTrace

	ctx           attemptContext
	cancel        context.CancelCauseFunc
	finishContext detached.Context // of the call that finishes it

	steps   atomic.Pointer[journal.Journal] // nil until it is needed
	noSteps bool                            // it runs no steps, and Complete checks none
	// unattended is set if no caller gets the outcome.
	unattended bool

	ended       atomic.Bool // a finishing call has begun
	workStopped atomic.Bool // the engine has ended its context; see Attempt.finish
	lease       lease.Lease
}

// startAttempt returns the attempt for a claim that was sent at sent and acquired rec, and starts
// its heartbeats.
func (c *core) startAttempt(ctx context.Context, rec *Record, sent time.Time, o *callOptions) (*Attempt, error) {
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
	a.countBesideCall()
	if claim.MayFollowDoubt(rec, 0) {
		_ = a.LeaveInDoubt(ctx, err)
	} else {
		_ = a.Release(ctx, NothingDone(err))
	}
	return nil, c.wrapError(rec.Key, rec.Attempt, err, time.Second)
}

// newAttempt returns the attempt for a record that was acquired. It has no heartbeats yet.
func newAttempt(ctx context.Context, c *core, rec *Record, sent time.Time, o *callOptions) *Attempt {
	a := &Attempt{
		c: c, key: rec.Key, retention: o.policy.Retention, account: o.account, number: rec.Attempt, fence: rec.Fence, owner: rec.Owner, recordCreated: rec.Created.UnixMicro(), policy: o.policy, codec: c.codec,
		started: sent,
	}
	parent := ctx
	if o.detached || o.outlives && !o.attached && !o.policy.Attached {
		parent, a.ctx.callerValues = context.Background(), ctx
	}
	a.outlivesRelease = rec.Issued || rec.EarlierCut || len(rec.Earlier) > 0
	a.ctx.attempt = a
	a.ctx.Context, a.cancel = context.WithCancelCause(parent)
	if end, ok := ctx.Deadline(); ok && parent != ctx && !o.detached {
		a.setDeadline(end)
	}
	a.lease.Start(&a.key, a.owner, a.fence, o.policy.Lease, o.policy.MaxRun, sent, &a.ctx, (*leaseHolder)(a))
	if rec.Answer.Codec != "" { // what earlier attempts have done
		a.steps.Store(journal.Open(&rec.Answer))
	}
	return a
}

// leaseHolder is the attempt as the keeper of its lease knows it.
type leaseHolder Attempt

// StopWork ends the attempt's context. From now on the attempt is released only if the work itself
// returns NothingDone.
func (h *leaseHolder) StopWork(cause error) {
	a := (*Attempt)(h)
	a.workStopped.Store(true)
	a.cancel(cause)
	if t := a.c.trace.Lost; t != nil && !a.ended.Load() {
		// No report after a finishing call has begun: it may have arrived although its reply has
		// not. The report has its own goroutine, since the lock is held and the function is the
		// user's.
		a.c.life.Go(func() { t(&a.ctx, AttemptInfo{Key: a.Key(), Attempt: a.number, Err: cause}) })
	}
}

// setDeadline sets the caller's deadline for the attempt's context.
func (a *Attempt) setDeadline(end time.Time) {
	stop := a.cancel
	within, done := context.WithDeadline(a.ctx.Context, end)
	a.ctx.Context = within
	a.cancel = func(cause error) {
		stop(cause) // the first cause counts
		done()
	}
}

// reportBegun makes call the trace of the attempt, and reports that its work is about to run.
func (a *Attempt) reportBegun(call *callTrace) {
	if a.call = call; call != nil {
		call.fence = a.fence
	}
	if a.c.trace.Begun != nil {
		a.c.trace.Begun(&a.ctx)
	}
}

// attemptContext is the attempt's context. It has its own cancellation, and the attempt among its
// values.
type attemptContext struct {
	context.Context
	attempt      *Attempt
	callerValues context.Context // of a detached attempt: the caller's context, for its values only
}

type attemptKey struct{}

func (c *attemptContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c.attempt
	}
	if v := c.Context.Value(key); v != nil || c.callerValues == nil {
		return v
	}
	return c.callerValues.Value(key)
}

// AttemptFrom returns the attempt that ctx belongs to, and reports whether there is one. There is
// one in the work of [Do], in a guarded handler and in a consumer.
func AttemptFrom(ctx context.Context) (*Attempt, bool) {
	a, ok := ctx.Value(attemptKey{}).(*Attempt)
	return a, ok
}

// String returns the operation and the number of the attempt. It shows no key, so that printing an
// attempt by mistake discloses nothing.
func (a *Attempt) String() string { return fmt.Sprintf("attempt %d of %s", a.number, a.key.Operation) }

// GoString returns the same as String.
func (a *Attempt) GoString() string { return a.String() }

// LogValue returns the same as String.
func (a *Attempt) LogValue() slog.Value { return slog.StringValue(a.String()) }

// Key returns the key of the attempt.
func (a *Attempt) Key() Key { return a.key.Key }

// KeyHash returns the name of the key for logs; see [Engine.KeyHash].
func (a *Attempt) KeyHash() string { return a.c.keyHash(a.key) }

// KeyFor returns an idempotency key for a call that the work makes to another service, so that this
// call takes effect once however often the work is tried. The key is the same in every attempt of
// this record. It is another one for another name, for another key, and for the same key after its
// record has expired, since the work is then another piece of work.
//
// It is the SHA-256, in hex, of this key, the time when its record was created, and name. It
// discloses nothing of the key to the other service. Give each call that the work makes a name of
// its own, for example "charge".
func (a *Attempt) KeyFor(name string) string {
	// No error is possible: the key of an attempt is valid.
	text, _ := a.key.AppendText([]byte("retrysafe derived key 1\n"))
	text = strconv.AppendInt(append(text, '\n'), a.recordCreated, 10)
	sum := sha256.Sum256(append(append(text, '\n'), name...))
	return hex.EncodeToString(sum[:])
}

// Layer returns the layer of the engine's view that began the attempt.
func (a *Attempt) Layer() string { return a.key.Layer }

// Number returns the number of the attempt in the record's life, from 1. It is for people and for
// retry limits.
func (a *Attempt) Number() int { return a.number }

// Tries returns the number of attempts since the record was created or reopened (see
// [Resolution].Reopen), from 1. Use it to limit tries. It counts attempts whose lease expired as
// well as those that failed.
func (a *Attempt) Tries() int {
	b := a.steps.Load()
	if b == nil {
		return a.number
	}
	return max(1, a.number-b.Reopened())
}

// Uncount subtracts n from the number that Tries returns; this attempt is included if n is large
// enough. Use it for attempts that certainly ran nothing and must not use up a limit. Errors are
// those of Extend, and [ErrUnconfirmed] if the store does not answer.
func (a *Attempt) Uncount(ctx context.Context, n int) error {
	return a.setCountFrom(ctx, func(from int) int { return min(a.number, from+max(0, n)) })
}

// setCountFrom changes the attempt after which tries are counted.
func (a *Attempt) setCountFrom(ctx context.Context, from func(now int) int) error {
	b := a.journal()
	order, err := b.CountFrom(from)
	if err != nil {
		return err
	}
	return a.saveJournal(ctx, b, order)
}

// Fence returns the fence of this attempt.
func (a *Attempt) Fence() Fence { return a.fence }

// Policy returns the policy of this attempt.
func (a *Attempt) Policy() Policy { return *a.policy }

// Context returns the attempt's context. It ends
//
//   - when the attempt is finished;
//   - when its lease could not be extended in time, with the cause [ErrLeaseLost]: a tenth of the
//     lease before the lease expires, whether or not the store answered;
//   - when MaxRun has passed, with the cause [ErrMaxRun];
//   - when Shutdown stops waiting, with the cause [ErrClosed];
//   - with the caller's context, unless the call was [Detached]. In [Do] without [Attached] it ends
//     at the caller's deadline, but not with the caller's cancellation.
//
// While the machine sleeps the monotonic clock may stand still. Then only the fence protects the
// resource.
func (a *Attempt) Context() context.Context { return &a.ctx }

// LeaseLeft returns how long Context still lives if the store answers no Extend from now on. It is
// zero after the attempt has ended or its lease was lost.
func (a *Attempt) LeaseLeft() time.Duration { return a.c.leases.TimeLeft(&a.lease) }

// Extend renews the lease now. Heartbeats do that automatically. Call Extend before work that
// cannot be undone, to be sure that the lease covers it. [ErrLeaseLost] means that another attempt
// has taken over, or this one has ended: do not act. [ErrUnavailable] means that the store has not
// answered, and the lease may or may not be held.
func (a *Attempt) Extend(ctx context.Context) error {
	err := a.c.leases.Extend(ctx, &a.lease, storeapi.ExtendRequest{})
	if err == nil && a.workStopped.Load() {
		// Its context has ended, so no work uses the renewed lease.
		err = ErrLeaseLost
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrLeaseLost):
		err = storecall.Unavailable(err)
	}
	return a.c.wrapError(a.key, a.number, err, 0)
}
