// Package storecall makes the calls of an engine to its store. It reports each call to the trace,
// learns the store's clock from the replies, and does not wait long for a store that hangs.
package storecall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Limits of calls.
const (
	// Tries is how often a call is made until it is answered.
	Tries = 3
	// Limit is the longest that an Acquire may be in flight.
	Limit = 5 * time.Second
	// AckTime is how long a finishing call waits for the store before the caller gets the answer
	// without a confirmation.
	AckTime = 2 * time.Second
)

// Observe is called before each call of the store, with a context for the trace and the name of the
// call. The function that it returns is called with the error.
type Observe func(ctx context.Context, op string) func(error)

// Store is a store as an engine calls it. It is safe for concurrent use.
type Store struct {
	inner    storeapi.Store
	observe  Observe // nil: there is no trace
	clock    storeClock
	patience patience
}

// New returns a Store. observe may be nil.
func New(inner storeapi.Store, observe Observe, logger *slog.Logger) *Store {
	return &Store{inner: inner, observe: observe, clock: storeClock{base: time.Now()}, patience: patience{logger: logger}}
}

// Inner returns the store itself, for its optional interfaces.
func (s *Store) Inner() storeapi.Store { return s.inner }

// reportBegin reports that a call begins. The result reports its end.
func (s *Store) reportBegin(ctx context.Context, op string) endReport {
	if s.observe == nil {
		return nil
	}
	return s.observe(ctx, op)
}

// endReport reports the end of a call; nil: there is no trace.
type endReport func(error)

func (done endReport) report(err error) {
	switch {
	case done == nil:
	case errors.Is(err, errors.ErrUnsupported):
		done(nil) // the engine does without what the store cannot do: that is no failure
	default:
		done(err)
	}
}

// Acquire calls the store once, at a time of this process that the caller has taken just before.
// Without an error it sets *found.
func (s *Store) Acquire(ctx context.Context, req *storeapi.AcquireRequest, sent time.Time, found *storeapi.Record) (storeapi.Status, error) {
	done := s.reportBegin(ctx, "acquire")
	got, err := s.inner.Acquire(ctx, *req)
	done.report(err)
	if err == nil {
		*found = got.Record
		s.clock.learn(found.Now, sent)
	}
	return got.Status, err
}

// Lookup calls the store once.
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	sent := time.Now()
	done := s.reportBegin(ctx, "lookup")
	rec, err := s.inner.Lookup(ctx, key)
	done.report(err)
	if err == nil {
		s.clock.learn(rec.Now, sent)
	}
	return rec, err
}

// Looker is the part of a store, or of one with transactions, that looks up records.
type Looker interface {
	Lookup(context.Context, storeapi.StoreKey) (storeapi.Record, error)
}

// LookupIn looks a record up in another store, whose clock may differ.
func (s *Store) LookupIn(ctx context.Context, in Looker, key storeapi.StoreKey) (storeapi.Record, error) {
	done := s.reportBegin(ctx, "lookup")
	rec, err := in.Lookup(ctx, key)
	done.report(err)
	return rec, err
}

// Extend calls the store once. work is the context of the work, which the trace gets.
func (s *Store) Extend(ctx, work context.Context, req storeapi.ExtendRequest) error {
	done := s.reportBegin(work, "extend")
	err := s.inner.Extend(ctx, req)
	done.report(err)
	return err
}

// Complete calls the store once. work is as for Extend.
func (s *Store) Complete(ctx, work context.Context, req storeapi.CompleteRequest) error {
	done := s.reportBegin(work, "complete")
	_, err := s.inner.Complete(ctx, req)
	done.report(err)
	return err
}

// Release calls the store once. work is as for Extend.
func (s *Store) Release(ctx, work context.Context, req storeapi.ReleaseRequest) error {
	done := s.reportBegin(work, "release")
	err := s.inner.Release(ctx, req)
	done.report(err)
	return err
}

// Issue calls the store once. The error wraps errors.ErrUnsupported if the store issues no keys.
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	issuer, ok := s.inner.(storeapi.Issuer)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	done := s.reportBegin(ctx, "issue")
	status, err := issuer.Issue(ctx, req)
	done.report(err)
	return status, err
}

// Charge calls a store that counts, once.
func (s *Store) Charge(ctx context.Context, counts storeapi.Limiter, req *storeapi.ChargeRequest, limit time.Duration) (storeapi.Charged, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := s.reportBegin(ctx, "charge")
	got, err := counts.Charge(ctx, *req)
	done.report(err)
	return got, err
}

// Sweep calls the store once.
func (s *Store) Sweep(ctx context.Context, sweeper storeapi.Sweeper, limit int) (int, error) {
	done := s.reportBegin(ctx, "sweep")
	n, err := sweeper.Sweep(ctx, limit)
	done.report(err)
	return n, err
}

// AcquireBatch makes many claims that are sent at a time of this process.
func (s *Store) AcquireBatch(ctx context.Context, b storeapi.Batcher, reqs []storeapi.AcquireRequest, sent time.Time) ([]storeapi.BatchResult[storeapi.Acquired], error) {
	done := s.reportBegin(ctx, "acquire")
	results, err := b.AcquireBatch(ctx, reqs)
	done.report(err)
	if err == nil {
		for i := range results {
			if results[i].Err == nil {
				s.clock.learn(results[i].Value.Record.Now, sent)
			}
		}
	}
	return results, err
}

// CompleteBatch stores many answers.
func (s *Store) CompleteBatch(ctx context.Context, b storeapi.Batcher, reqs []storeapi.CompleteRequest) ([]storeapi.BatchResult[storeapi.Record], error) {
	done := s.reportBegin(ctx, "complete")
	results, err := b.CompleteBatch(ctx, reqs)
	done.report(err)
	return results, err
}

// MayBeApplied reports whether a store call that failed may have been applied nevertheless.
func MayBeApplied(err error) bool {
	for _, base := range []error{storeapi.ErrLeaseLost, storeapi.ErrInvalidKey, storeapi.ErrTooLate, storeapi.ErrInTransaction, errors.ErrUnsupported} {
		if errors.Is(err, base) {
			return false
		}
	}
	return true
}

// Unavailable wraps an error of the store in [storeapi.ErrUnavailable]. Its text may name hosts and
// files, never keys.
func Unavailable(err error) error {
	if errors.Is(err, storeapi.ErrInvalidKey) || errors.Is(err, storeapi.ErrInTransaction) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", storeapi.ErrUnavailable, err)
}

// Pause waits for d. It returns false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// storeClock estimates the store's clock from its replies. The wall clock of this process does not
// matter: the monotonic clock measures the time between replies.
type storeClock struct {
	base    time.Time
	known   atomic.Bool
	offset  atomic.Int64 // nanoseconds that the store is ahead of base + elapsed
	learned atomic.Int64 // nanoseconds from base to the last reply that was used
}

// learnEvery is the age of the estimate from which the next reply is used. Clocks do not drift
// apart in that time.
const learnEvery = 100 * time.Millisecond

// learn updates the estimate with the store's time in a reply to a request that was sent at sent.
// It assumes that the store read its clock halfway between request and reply.
func (c *storeClock) learn(storeNow, sent time.Time) {
	begun := sent.Sub(c.base)
	if storeNow.IsZero() || c.known.Load() && begun-time.Duration(c.learned.Load()) < learnEvery {
		return
	}
	local := begun + time.Since(sent)/2
	c.offset.Store(int64(storeNow.Sub(c.base.Round(0)) - local))
	c.learned.Store(int64(begun))
	c.known.Store(true)
}

// TimeAt returns the store's time at a time of this process.
func (s *Store) TimeAt(local time.Time) time.Time {
	return s.clock.base.Add(local.Sub(s.clock.base) + time.Duration(s.clock.offset.Load()))
}

// KnowsTime reports whether the store's clock is known.
func (s *Store) KnowsTime() bool { return s.clock.known.Load() }

// DoubtTime makes the next reply count, since a store has refused a request as too late.
func (s *Store) DoubtTime() { s.clock.known.Store(false) }

// TimeAge returns the age of the last reply that was used for the clock.
func (s *Store) TimeAge() time.Duration {
	return time.Since(s.clock.base) - time.Duration(s.clock.learned.Load())
}

// ReadTime reads the store's clock by looking up a key; any key will do.
func (s *Store) ReadTime(ctx context.Context, key storeapi.StoreKey) error {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	_, err := s.Lookup(ctx, key)
	return err
}

// NotAfter returns the store's time after which an Acquire that is sent at sent must not be
// applied.
func (s *Store) NotAfter(ctx context.Context, sent time.Time) time.Time {
	limit := Limit
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, end.Sub(sent))
	}
	return s.TimeAt(sent).Add(limit)
}

// hastyLimit is how long a call waits for a store that hangs.
const hastyLimit = time.Second

// patience knows whether the store hangs: it takes calls and answers none. Without it each caller
// would wait ten seconds for the error that the store is away.
//
// The store hangs once a call got no answer in the time that it has. From then on one call at a
// time waits as long as before, to see whether the store is back, and all others give up after
// hastyLimit. They are sent nevertheless, since a store may have parts, and only one of them may
// hang. One answer to the call that waits ends this, so a store that is merely slow is not given
// up.
type patience struct {
	logger  *slog.Logger
	hangs   atomic.Bool
	probing atomic.Bool // a call waits as long as before
	warned  atomic.Bool // the operator knows
}

// Turn is what one caller asks of the store, in one call or several tries.
type Turn struct {
	patience     *patience
	began        time.Time
	limit        time.Duration // of one call
	hasty, probe bool
	cancel       context.CancelFunc // of a hasty turn
}

// BeginTurn begins a turn. The caller ends it. The context is for its calls: it is ctx, unless the
// turn is hasty.
func (s *Store) BeginTurn(ctx context.Context) (Turn, context.Context) {
	p := &s.patience
	t := Turn{patience: p, began: time.Now(), limit: Limit}
	switch {
	case !p.hangs.Load():
	case p.probing.CompareAndSwap(false, true):
		t.probe = true
	default:
		t.hasty, t.limit = true, hastyLimit
		ctx, t.cancel = context.WithTimeout(ctx, t.limit)
	}
	return t, ctx
}

// End ends a turn with the error of its last try.
func (t *Turn) End(err error) {
	p, answered := t.patience, err == nil || !MayBeApplied(err)
	late := !answered && time.Since(t.began) >= Limit
	switch {
	case t.hasty:
		t.cancel()
	case !t.probe && late:
		p.hangs.Store(true)
	case t.probe && late && !p.warned.Swap(true):
		// the first call may have waited for its key alone
		p.logger.Warn("retrysafe: the store takes calls and does not answer; until it does, one call at a time waits for it, and others fail after a second")
	case t.probe && answered:
		if p.hangs.Store(false); p.warned.Swap(false) {
			p.logger.Info("retrysafe: the store answers again")
		}
	}
	if t.probe {
		p.probing.Store(false)
	}
}

// IsOver reports whether a turn is not to try again.
func (t *Turn) IsOver() bool { return t.hasty || time.Since(t.began) >= 2*Limit }

// CallUntilAnswered makes a call until it is answered, at most a few times, as a claim is. The call
// keeps to the limit.
func (s *Store) CallUntilAnswered(ctx context.Context, call func(limit time.Duration) error) (err error) {
	t, _ := s.BeginTurn(ctx) // the call has its own context
	defer func() { t.End(err) }()
	for try := range Tries {
		if try > 0 && (t.IsOver() || !Pause(ctx, time.Duration(try*try)*50*time.Millisecond)) {
			break
		}
		if err = call(t.limit); err == nil || !MayBeApplied(err) && !errors.Is(err, storeapi.ErrTooLate) {
			break
		}
	}
	return err
}
