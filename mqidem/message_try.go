package mqidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// messageTry is a message and the attempt under which its work runs; nil if none was claimed.
type messageTry struct {
	m       *Message
	attempt *retrysafe.Attempt
	n       int // the number of the try; zero means that none was counted
}

// resultOf returns a result of this try.
func (t *messageTry) resultOf(kind resultKind, err error) handlerResult {
	return handlerResult{kind, t.n, err}
}

// completedResult returns the result of a try whose work is done. err is that of storing this.
func (t *messageTry) completedResult(err error) handlerResult {
	if err != nil {
		return t.resultOf(resultNotRun, err)
	}
	return t.resultOf(resultDone, nil)
}

// checkLimit returns an error if a try beyond the limit was begun. A message that kills its
// consumer never ends its last try, so the limit must also hold before a run.
func (t *messageTry) checkLimit() error {
	if limit := t.m.passedHandling().limit; limit > 0 && t.n > limit {
		return fmt.Errorf("mqidem: all %d tries have begun and none has succeeded; the last one has not ended, as if its process was killed", limit)
	}
	return nil
}

// finishFailed finishes an attempt whose work has failed.
func (w *onceHandler) finishFailed(ctx context.Context, t *messageTry, outcome retrysafe.Outcome, err error) handlerResult {
	again := outcome == retrysafe.NotDone || outcome == retrysafe.Doubtful && w.policy.OnDoubt == retrysafe.Reexecute
	lost := context.Cause(t.attempt.Context())
	switch {
	case again && (errors.Is(lost, retrysafe.ErrLeaseLost) || errors.Is(lost, retrysafe.ErrClosed)):
		t.attempt.Lapse(err) // another consumer may be working on it
		return t.resultOf(resultNotRun, fmt.Errorf("%w: %w", retrysafe.ErrLeaseLost, err))
	case again && errors.Is(context.Cause(ctx), errStopped):
		_ = t.attempt.Uncount(ctx, 1) // a stopped try does not count as a failure
		_ = t.attempt.Release(ctx, err)
		return t.resultOf(resultNotRun, err)
	}
	limit := t.m.passedHandling().limit
	switch {
	case outcome == retrysafe.Failed:
		return w.finishDead(ctx, t, whyRefused(err), err)
	case !again:
		return w.finishDead(ctx, t, DeadInDoubt, err)
	case limit > 0 && t.n >= limit:
		return w.finishDead(ctx, t, DeadTries, err)
	case outcome == retrysafe.Doubtful:
		_ = t.attempt.LeaveInDoubt(ctx, err)
	default:
		_ = t.attempt.Release(ctx, err) // if the release fails, the lease expires
	}
	return t.resultOf(resultFailed, err)
}

// whyRefused returns the reason for a dead letter that the handler refused for good.
func whyRefused(err error) string {
	var f *retrysafe.Failure
	if errors.As(err, &f) && f.Code == DeadPoison {
		return DeadPoison
	}
	return DeadRefused
}

// finishDead moves a message to the dead-letter queue and then finishes its attempt, if there is
// one, so that copies of the message are duplicates. The order matters: if the record came first
// and this process died in between, a copy would be acked although the dead-letter queue has no
// message. Outside of Consume there is no queue, and the record alone says it.
func (w *onceHandler) finishDead(ctx context.Context, t *messageTry, why string, err error) handlerResult {
	p := t.m.passedHandling()
	kind := resultFailed
	if p.deadLetter != nil {
		reason := w.recordedReason(t, why, err)
		if cause := p.deadLetter(ctx, reason); cause != nil {
			w.postponeDead(ctx, t, &reason, err)
			return t.resultOf(resultNotRun, &deadLetterError{cause})
		}
		kind = resultDead
	}
	switch {
	case t.attempt == nil:
	case why == DeadInDoubt:
		_ = t.attempt.LeaveInDoubt(ctx, err)
	case p.deadLetter == nil && why == DeadTries:
		_ = t.attempt.Release(ctx, err)
	default:
		_ = t.attempt.Fail(ctx, t.m.storedFailure(why, err))
	}
	return t.resultOf(kind, err)
}

// postponeDead keeps the reason of a message that could not be moved to the dead-letter queue, and
// gives up its attempt. Later tries only move the message.
func (w *onceHandler) postponeDead(ctx context.Context, t *messageTry, reason *Reason, err error) {
	h := t.m.passedHandling().history
	postponed := h.deadReason != nil // an earlier try has run the handler
	h.deadReason, h.deadError = reason, err
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

func (w *onceHandler) recordedReason(t *messageTry, why string, err error) Reason {
	m := t.m
	r := Reason{
		Why: why, Error: err.Error(), Tries: t.n, Consumer: w.consumer,
		Source: m.Source, At: time.Now().UTC(), Redrives: m.redriveCount(),
	}
	if keep := w.policy.Retention; keep != retrysafe.Forever {
		r.Until = r.At.Add(keep)
	}
	if m.ID != "" {
		// a valid key has no error
		key, _ := storeapi.StoreKey{Namespace: w.engine.Namespace(), Layer: w.layer, Key: w.keyOf(m)}.MarshalText()
		r.Key = string(key)
	}
	return r
}

// redriveCount returns how often the message was redriven from the dead-letter queue.
func (m *Message) redriveCount() int {
	n, _ := strconv.Atoi(m.Header(HeaderRedrives))
	return max(0, n)
}
