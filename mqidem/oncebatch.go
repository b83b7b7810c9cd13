package mqidem

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// BatchHandler does the work of several messages at once. It returns one error for each, at its place; nil: all are done. A panic, and a slice of
// another length, is a failure that nobody can be blamed for.
type BatchHandler func(context.Context, []*Message) []error

// OnceBatch is [Once] for batches: the messages are claimed together and completed together, in as few round trips as the store can (see
// retrysafe.Batcher). Each has a record of its own, and fails by itself.
//
// Where nobody can be blamed for a failure, each message is given to h alone, in the same try. A message that was delivered before, or tried
// before, is alone from the start: one that kills its consumer takes no others with it, time and again. A second copy in one
// batch waits for the first.
func OnceBatch(e *retrysafe.Engine, consumer string, h BatchHandler, opts ...retrysafe.CallOption) BatchHandler {
	w := newWork(e, "mq", consumer, opts)
	return func(ctx context.Context, ms []*Message) []error {
		b := &batch{work: w, h: h, ms: ms, errs: make([]error, len(ms))}
		b.handle(ctx)
		return b.errs
	}
}

// batch is one call of a handler of OnceBatch.
type batch struct {
	*work
	h    BatchHandler
	ms   []*Message
	errs []error
}

// place is a message of the batch that was claimed.
type place struct {
	at      int
	attempt *retrysafe.Attempt
}

func (b *batch) handle(ctx context.Context) {
	together, alone := b.split(ctx)
	if len(together) == 1 {
		together, alone = nil, append(together, alone...)
	}
	if claimed := b.claim(ctx, together); len(claimed) > 0 {
		defer b.unended(ctx, claimed)
		b.run(ctx, claimed)
	}
	for _, at := range alone {
		m := b.ms[at]
		b.errs[at] = b.work.handle(ctx, m, func(ctx context.Context, m *Message) error { return b.one(ctx, m) })
	}
}

// split tells those that go together from those that go alone, behind them.
func (b *batch) split(ctx context.Context) (together, alone []int) {
	seen := make(map[string]bool, len(b.ms))
	for at, m := range b.ms {
		over, err := b.check(ctx, m)
		switch {
		case over:
			b.errs[at] = err
		case m.Deliveries > 1 || seen[m.ID]:
			alone = append(alone, at)
		default:
			together = append(together, at)
		}
		seen[m.ID] = true
	}
	return together, alone
}

// claim begins the messages at these places, and settles those that need not be run.
func (b *batch) claim(ctx context.Context, places []int) (claimed []place) {
	keys := make([]retrysafe.Key, len(places))
	for i, at := range places {
		keys[i] = b.key(b.ms[at])
	}
	for i, begun := range b.engine.BeginBatch(ctx, keys, b.opts...) {
		at := places[i]
		m := b.ms[at]
		switch {
		case begun.Record != nil:
			m.told().repeat = true
		case begun.Err != nil:
			b.errs[at] = b.refused(ctx, m, begun.Err)
		default:
			m.told().tries = begun.Attempt.Tries()
			claimed = append(claimed, place{at, begun.Attempt})
		}
	}
	return claimed
}

// unended gives back what h has left behind by ending its goroutine.
func (b *batch) unended(ctx context.Context, claimed []place) {
	for _, p := range claimed {
		if !p.attempt.Ended() {
			b.ms[p.at].told().failed = true
			_ = p.attempt.Release(ctx, errExited)
		}
	}
}

// run works on what was claimed.
func (b *batch) run(ctx context.Context, claimed []place) {
	var fresh, suspect []place
	for _, p := range claimed {
		if p.attempt.Tries() > 1 {
			suspect = append(suspect, p)
		} else {
			fresh = append(fresh, p)
		}
	}
	errs, blame := b.together(ctx, fresh)
	if blame {
		b.complete(ctx, fresh, errs)
	} else {
		suspect = append(fresh, suspect...)
	}
	for _, p := range suspect {
		m := b.ms[p.at]
		b.errs[p.at] = b.attempt(ctx, m, p.attempt, func(ctx context.Context) error { return b.one(ctx, m) })
	}
}

// together gives messages to h at once. blame is false where all of them have to be tried alone.
func (b *batch) together(ctx context.Context, places []place) (errs []error, blame bool) {
	if len(places) == 0 {
		return nil, true
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ms := make([]*Message, len(places))
	for i, p := range places {
		ms[i] = b.ms[p.at]
		defer b.lapses(ms[i].told(), p.attempt)()
		// What belongs to others by now must not be worked on.
		defer context.AfterFunc(p.attempt.Context(), func() { cancel(context.Cause(p.attempt.Context())) })()
	}
	err := call(func() error {
		errs = b.h(ctx, ms)
		return nil
	})
	switch {
	case err != nil || len(errs) != 0 && len(errs) != len(ms):
		return nil, false
	case len(errs) == 0:
		errs = make([]error, len(ms))
	}
	return errs, true
}

// one gives a message to h alone.
func (b *batch) one(ctx context.Context, m *Message) error {
	switch errs := b.h(ctx, []*Message{m}); len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	default:
		return fmt.Errorf("mqidem: the handler returned %d errors for one message; return one for each, or nil", len(errs))
	}
}

// complete ends what was worked on together.
func (b *batch) complete(ctx context.Context, places []place, errs []error) {
	var done []*retrysafe.Attempt
	var at []int
	for i, p := range places {
		m := b.ms[p.at]
		if outcome := outcomeOf(errs[i], &b.policy); outcome != retrysafe.Done {
			b.errs[p.at] = b.fail(ctx, m, p.attempt, outcome, errs[i])
			continue
		}
		done, at = append(done, p.attempt), append(at, p.at)
	}
	answers := make([]retrysafe.Answer, len(done))
	for i := range answers {
		answers[i] = doneAnswer
	}
	for i, err := range b.engine.CompleteBatch(ctx, done, answers) {
		b.errs[at[i]] = err
	}
}
