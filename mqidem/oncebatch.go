package mqidem

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// BatchHandler does the work of several messages. It returns one error for each message, in the
// same order, or nil if all are done. A panic or a slice of another length is a failure that cannot
// be assigned to one message.
type BatchHandler func(context.Context, []*Message) []error

// OnceBatch is [Once] for batches. It claims the messages together and completes them together, in
// as few round trips as the store needs (see storeapi.Batcher). Each message has its own record
// and fails separately.
//
// If a failure cannot be assigned to one message, h gets each message alone, in the same try. What
// h had done of the batch is then done again; under retrysafe.Refuse all messages of the batch are
// in doubt instead. A message that was delivered or tried before runs alone from the start, so that
// one that kills its consumer does not take others with it each time. A second copy in one batch
// waits for the first.
func OnceBatch(e *retrysafe.Engine, consumer string, h BatchHandler, opts ...retrysafe.CallOption) BatchHandler {
	w := newOnceHandler(e, "mq", consumer, opts)
	return func(ctx context.Context, ms []*Message) []error {
		b := &batch{onceHandler: w, h: h, ms: ms, results: make([]handlerResult, len(ms))}
		b.handle(ctx)
		errs := make([]error, len(ms))
		for i, m := range ms {
			errs[i] = m.report(b.results[i])
		}
		return errs
	}
}

// batch is one call of a handler of OnceBatch.
type batch struct {
	*onceHandler
	h       BatchHandler
	ms      []*Message
	results []handlerResult // of the messages
}

// claimedMessage is a message of the batch that was claimed.
type claimedMessage struct {
	index int
	*messageTry
}

func (b *batch) handle(ctx context.Context) {
	together, before, after := b.split(ctx)
	if len(together) == 1 {
		before, together = append(before, together...), nil
	}
	// first, while nothing else is claimed: if one of these kills the consumer, the others lose no
	// try
	b.handleAlone(ctx, before)
	if claimed := b.claim(ctx, together); len(claimed) > 0 {
		after = append(b.runClaimed(ctx, claimed), after...)
	}
	b.handleAlone(ctx, after)
}

// handleAlone works on messages one by one, and claims each separately.
func (b *batch) handleAlone(ctx context.Context, places []int) {
	for _, at := range places {
		b.results[at] = b.onceHandler.handle(ctx, b.ms[at], func(ctx context.Context, m *Message) error { return b.runOne(ctx, m) })
	}
}

// split divides the batch: messages that run together, those that run alone before them, and second
// copies, which run alone after them.
func (b *batch) split(ctx context.Context) (together, before, after []int) {
	seen := make(map[string]bool, len(b.ms))
	for at, m := range b.ms {
		r, ready := b.checkReady(ctx, m)
		switch {
		case !ready:
			b.results[at] = r
		case seen[m.ID]:
			after = append(after, at)
		case m.Deliveries > 1 || m.passedHandling().history.deadReason != nil:
			before = append(before, at)
		default:
			together = append(together, at)
		}
		seen[m.ID] = true
	}
	return together, before, after
}

// claim begins the messages at these places, and sets the result of those that need not run.
func (b *batch) claim(ctx context.Context, places []int) (claimed []claimedMessage) {
	keys := make([]retrysafe.Key, len(places))
	for i, at := range places {
		keys[i] = b.keyOf(b.ms[at])
	}
	for i, begun := range b.engine.BeginBatch(ctx, keys, b.opts...) {
		at := places[i]
		m := b.ms[at]
		if begun.Record != nil || begun.Err != nil {
			b.results[at] = b.unclaimedResult(ctx, m, begun.Record, begun.Err)
			continue
		}
		claimed = append(claimed, claimedMessage{at, &messageTry{m, begun.Attempt, begun.Attempt.Tries()}})
	}
	return claimed
}

// runClaimed works on the claimed messages. It returns those that must be claimed again and run
// alone.
func (b *batch) runClaimed(ctx context.Context, claimed []claimedMessage) (again []int) {
	var fresh []claimedMessage
	for _, p := range claimed {
		if p.n == 1 {
			fresh = append(fresh, p)
		} else {
			again = append(again, b.unclaim(ctx, p)) // it was tried before
		}
	}
	errs, err, cut := b.runTogether(ctx, fresh)
	switch {
	case err == nil:
		return append(b.finishTogether(ctx, fresh, errs, cut), again...)
	case b.policy.OnDoubt == retrysafe.Refuse: // each may have been done
		for _, p := range fresh {
			b.results[p.index] = b.finishFailed(ctx, p.messageTry, retrysafe.Doubtful, err)
		}
		return again
	}
	var alone []int
	for _, p := range fresh {
		alone = append(alone, b.unclaim(ctx, p))
	}
	return append(alone, again...)
}

// unclaim releases a claim and does not count it as a try. The message then holds no claim while
// another one runs, which may be slow or kill the consumer.
func (b *batch) unclaim(ctx context.Context, p claimedMessage) (at int) {
	_ = p.attempt.Uncount(ctx, 1)
	_ = p.attempt.Release(ctx, nil) // if the release fails, the lease expires
	return p.index
}

// runTogether calls h once with all messages. err is a failure that cannot be assigned to one
// message. cut reports that a lost claim ended the context, so the errors of the other messages may
// not be their own.
func (b *batch) runTogether(ctx context.Context, places []claimedMessage) (errs []error, err error, cut bool) { //nolint:revive // it belongs to all of errs
	if len(places) == 0 {
		return nil, nil, false
	}
	whole := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ms := make([]*Message, len(places))
	for i, p := range places {
		ms[i] = p.m
		defer b.lapseOnAbandon(p.m.passedHandling(), p.attempt)()
		// If another consumer has a message by now, the work must stop.
		defer context.AfterFunc(p.attempt.Context(), func() { cancel(context.Cause(p.attempt.Context())) })()
	}
	err = ms[0].passedHandling().pool.callGuarded(func() error {
		errs = b.h(ctx, ms)
		return nil
	})
	switch {
	case err == nil && len(errs) != 0 && len(errs) != len(ms):
		err = wrongLength(len(errs), len(ms))
	case len(errs) == 0:
		errs = make([]error, len(ms))
	}
	return errs, err, ctx.Err() != nil && whole.Err() == nil
}

func wrongLength(errs, messages int) error {
	return fmt.Errorf("mqidem: the handler returned %d errors for %d messages; return one for each, or nil", errs, messages)
}

// runOne calls h with one message.
func (b *batch) runOne(ctx context.Context, m *Message) error {
	switch errs := b.h(ctx, []*Message{m}); len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	default:
		return wrongLength(len(errs), 1)
	}
}

// finishTogether finishes the messages that ran together. The completed ones come first: until its
// record is written, a message is done again if this process dies. It returns those that must run
// alone.
func (b *batch) finishTogether(ctx context.Context, places []claimedMessage, errs []error, cut bool) (alone []int) {
	var finished []*retrysafe.Attempt
	var completed, unclaimed, failed []claimedMessage
	of := map[int]error{}
	for i, p := range places {
		switch {
		case b.policy.OutcomeOf(errs[i]) == retrysafe.Done:
			finished, completed = append(finished, p.attempt), append(completed, p)
		case cut && b.policy.OnDoubt == retrysafe.Reexecute:
			unclaimed = append(unclaimed, p)
		default:
			failed = append(failed, p)
			of[p.index] = errs[i]
		}
	}
	answers := make([]retrysafe.Answer, len(finished))
	for i, p := range completed {
		answers[i] = p.m.storedAnswer()
	}
	for i, err := range b.engine.CompleteBatch(ctx, finished, answers) {
		b.results[completed[i].index] = completed[i].completedResult(err)
	}
	for _, p := range failed {
		err := of[p.index]
		b.results[p.index] = b.finishFailed(ctx, p.messageTry, b.policy.OutcomeOf(err), err)
	}
	for _, p := range unclaimed {
		alone = append(alone, b.unclaim(ctx, p))
	}
	return alone
}
