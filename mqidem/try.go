package mqidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/storeapi"
)

// try is a message and the attempt under which its work runs; nil if none was claimed.
type try struct {
	m       *Message
	attempt *retrysafe.Attempt
	n       int // the number of the try; zero means that none was counted
}

// result returns a result of this try.
func (t *try) result(kind resultKind, err error) result { return result{kind, t.n, err} }

// completed returns the result of a try whose work is done. err is that of storing this.
func (t *try) completed(err error) result {
	if err != nil {
		return t.result(notRun, err)
	}
	return t.result(done, nil)
}

// usedUp returns an error if a try beyond the limit was begun. A message that kills its consumer
// never ends its last try, so the limit must also hold before a run.
func (t *try) usedUp() error {
	if limit := t.m.handling().limit; limit > 0 && t.n > limit {
		return fmt.Errorf("mqidem: %d tries were begun and none has ended well; the last one did not end at all", limit)
	}
	return nil
}

// fail finishes an attempt whose work has failed.
func (w *work) fail(ctx context.Context, t *try, outcome retrysafe.Outcome, err error) result {
	again := outcome == retrysafe.NotDone || outcome == retrysafe.Doubtful && w.policy.OnDoubt == retrysafe.Reexecute
	lost := context.Cause(t.attempt.Context())
	switch {
	case again && (errors.Is(lost, retrysafe.ErrLeaseLost) || errors.Is(lost, retrysafe.ErrClosed)):
		t.attempt.Lapse(err) // another consumer may be working on it
		return t.result(notRun, fmt.Errorf("%w: %w", retrysafe.ErrLeaseLost, err))
	case again && errors.Is(context.Cause(ctx), errStopped):
		_ = t.attempt.Uncount(ctx, 1) // a stopped try does not count as a failure
		_ = t.attempt.Release(ctx, err)
		return t.result(notRun, err)
	}
	limit := t.m.handling().limit
	switch {
	case outcome == retrysafe.Failed:
		return w.deadLetter(ctx, t, whyRefused(err), err)
	case !again:
		return w.deadLetter(ctx, t, DeadInDoubt, err)
	case limit > 0 && t.n >= limit:
		return w.deadLetter(ctx, t, DeadTries, err)
	case outcome == retrysafe.Doubtful:
		_ = t.attempt.LeaveInDoubt(ctx, err)
	default:
		_ = t.attempt.Release(ctx, err) // if the release fails, the lease expires
	}
	return t.result(failedTry, err)
}

// whyRefused returns the reason for a dead letter that the handler refused for good.
func whyRefused(err error) string {
	var f *retrysafe.Failure
	if errors.As(err, &f) && f.Code == DeadPoison {
		return DeadPoison
	}
	return DeadRefused
}

// deadLetter moves a message to the dead-letter queue and then finishes its attempt, if there is
// one, so that copies of the message are duplicates. The order matters: if the record came first
// and this process died in between, a copy would be acked although the dead-letter queue has no
// message. Outside of Consume there is no queue, and the record alone says it.
func (w *work) deadLetter(ctx context.Context, t *try, why string, err error) result {
	p := t.m.handling()
	kind := failedTry
	if p.deadLetter != nil {
		reason := w.reason(t, why, err)
		if cause := p.deadLetter(ctx, reason); cause != nil {
			w.postpone(ctx, t, &reason, err)
			return t.result(notRun, &deadLetterError{cause})
		}
		kind = dead
	}
	switch {
	case t.attempt == nil:
	case why == DeadInDoubt:
		_ = t.attempt.LeaveInDoubt(ctx, err)
	case p.deadLetter == nil && why == DeadTries:
		_ = t.attempt.Release(ctx, err)
	default:
		_ = t.attempt.Fail(ctx, t.m.failure(why, err))
	}
	return t.result(kind, err)
}

// postpone keeps the reason of a message that could not be moved to the dead-letter queue, and
// gives up its attempt. Later tries only move the message.
func (w *work) postpone(ctx context.Context, t *try, reason *Reason, err error) {
	h := t.m.handling().history
	postponed := h.dead != nil // an earlier try has run the handler
	h.dead, h.deadError = reason, err
	switch {
	case t.attempt == nil:
	case reason.Why == DeadInDoubt, w.policy.OnDoubt == retrysafe.Refuse:
		// Under Refuse no other consumer may run it again, and none knows of the refusal.
		_ = t.attempt.LeaveInDoubt(ctx, err)
	default:
		if postponed {
			_ = t.attempt.Uncount(ctx, 1)
		}
		_ = t.attempt.Release(ctx, err)
	}
}

func (w *work) reason(t *try, why string, err error) Reason {
	m := t.m
	r := Reason{
		Why: why, Error: err.Error(), Tries: t.n, Consumer: w.consumer,
		Source: m.Source, At: time.Now().UTC(), Redrives: m.redrives(),
	}
	if keep := w.policy.Retention; keep != retrysafe.Forever {
		r.Until = r.At.Add(keep)
	}
	if m.ID != "" {
		// a valid key has no error
		key, _ := storeapi.StoreKey{Namespace: w.engine.Namespace(), Layer: w.layer, Key: w.key(m)}.MarshalText()
		r.Key = string(key)
	}
	return r
}

// redrives returns how often the message was redriven from the dead-letter queue.
func (m *Message) redrives() int {
	n, _ := strconv.Atoi(m.Header(HeaderRedrives))
	return max(0, n)
}
