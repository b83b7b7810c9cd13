package mqidem

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// Once returns a Handler that does the work of a message once for this consumer. The consumer's
// name is part of the key: two consumers of one message both run, and all processes of one consumer
// use the same name.
//
// The source of a message is not part of the key, so that a message that was moved to another queue
// is still the same one. If ids are unique in each queue only, give each queue a name of its own:
// otherwise the second of two messages with one id is acked and never run. A warning then names
// both sources, unless the store keeps no answers (redisstore's Light).
//
// The record is in e's store, in the layer "mq". For a message that is done or a dead letter, the
// handler returns nil without calling h, so ack it. The policy for an outcome in doubt is
// retrysafe.Reexecute unless opts say otherwise: if a consumer died or lost its lease, another one
// does the work again. If the first one had already reached the effect, the effect happens twice.
// The window for that closes when the record is completed; [OnceTx] has no such window. Under
// retrysafe.Refuse such a message becomes a dead letter, in doubt.
//
// Outside of [Consume] an error means that the message must be redelivered, and tries are not
// limited. Once panics if the name is empty or a policy is invalid.
func Once(e *retrysafe.Engine, consumer string, h Handler, opts ...retrysafe.CallOption) Handler {
	w := newOnceHandler(e, "mq", consumer, opts)
	return func(ctx context.Context, m *Message) error { return m.report(w.handle(ctx, m, h)) }
}

// onceHandler is what a handler of this package does around the user's handler.
type onceHandler struct {
	engine     *retrysafe.Engine // on the layer of the records
	layer      string
	consumer   string
	opts       []retrysafe.CallOption
	policy     retrysafe.Policy // the result of opts
	limitedLog *limitedLog
}

func newOnceHandler(e *retrysafe.Engine, layer, consumer string, opts []retrysafe.CallOption) *onceHandler {
	if err := (retrysafe.Key{Operation: consumer, ID: "x"}).Validate(); err != nil {
		panic(fmt.Errorf("mqidem: the consumer's name: %w", err))
	}
	// the record counts tries as long as it exists
	e = e.Layer(layer).WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute, ReleasedFor: retrysafe.Forever})
	p, err := e.PolicyWith(opts...)
	if err != nil {
		panic(fmt.Errorf("mqidem: an option of %s: %w", consumer, err))
	}
	return &onceHandler{engine: e, layer: layer, consumer: consumer, opts: opts, policy: p, limitedLog: new(limitedLog)}
}

var errNoID = errors.New("mqidem: the message has no id; let its producer set one, or say with Options.ID and Options.MissingID what stands for it")

// keyOf returns the key of a message's record. An id may have any length.
func (w *onceHandler) keyOf(m *Message) retrysafe.Key {
	return retrysafe.Key{Operation: w.consumer, ID: retrysafe.KeyPart(m.ID)}
}

// checkReady tests the preconditions of a run. If ready is false, the handler reports the result
// and runs nothing.
func (w *onceHandler) checkReady(ctx context.Context, m *Message) (_ handlerResult, ready bool) {
	t := &messageTry{m: m}
	switch h := m.passedHandling(); {
	case m.ID == "":
		return w.finishDead(ctx, t, DeadNoID, errNoID), false
	case h.brokerHolds > w.policy.Retention:
		return t.resultOf(resultNotRun, &retentionError{w.policy.Retention, h.brokerHolds}), false
	}
	return handlerResult{}, true
}

func (w *onceHandler) handle(ctx context.Context, m *Message, h Handler) handlerResult {
	if r, ready := w.checkReady(ctx, m); !ready {
		return r
	}
	a, rec, err := w.engine.Begin(ctx, w.keyOf(m), w.opts...)
	if rec != nil || err != nil {
		return w.unclaimedResult(ctx, m, rec, err)
	}
	return w.runAttempt(ctx, m, a, func(ctx context.Context) error { return h(ctx, m) })
}

// unclaimedResult returns the result of a message that the engine gave no attempt for: its work was
// done before, which rec says, or err says why not.
func (w *onceHandler) unclaimedResult(ctx context.Context, m *Message, rec *retrysafe.Record, err error) handlerResult {
	t := &messageTry{m: m}
	if rec != nil {
		w.warnOtherSource(m, recordSource(rec))
	}
	if err == nil {
		return t.resultOf(resultDuplicate, nil)
	}
	m.passedHandling().history.countUnanswered(err)
	return w.refusalResult(ctx, t, err)
}

// countUnanswered counts a claim without an answer. The store may have made the claim and released
// it.
func (h *history) countUnanswered(err error) {
	if errors.Is(err, retrysafe.ErrUnavailable) {
		h.unanswered++
	}
}

// refusalResult handles a message whose key the engine did not give.
func (w *onceHandler) refusalResult(ctx context.Context, t *messageTry, err error) handlerResult {
	switch retrysafe.CodeOf(err) {
	case retrysafe.CodeOutcomeUnknown:
		if _, later := retrysafe.Retryable(err); errors.Is(err, retrysafe.ErrInDoubt) && !later {
			return w.finishDead(ctx, t, DeadInDoubt, err)
		}
		// else a later call finds out the outcome
	case retrysafe.CodePayloadMismatch, retrysafe.CodePrincipalChanged:
		return w.finishDead(ctx, t, DeadMismatch, err)
	case retrysafe.CodeAlreadyDone, retrysafe.CodeAnswerNotKept, retrysafe.CodeResolvedFailed:
		// the first copy became a dead letter
		return t.resultOf(resultDuplicate, nil)
	}
	return t.resultOf(resultNotRun, err)
}

// runAttempt runs h under an attempt, and finishes the attempt.
func (w *onceHandler) runAttempt(ctx context.Context, m *Message, a *retrysafe.Attempt, h func(context.Context) error) handlerResult {
	p := m.passedHandling()
	defer w.lapseOnAbandon(p, a)()
	if n := min(p.history.unanswered, a.Tries()-1); n > 0 {
		_ = a.Uncount(ctx, n) // if this fails, the attempt is lost or counts
	}
	p.history.unanswered = 0
	t := &messageTry{m, a, a.Tries()}
	if cause := context.Cause(a.Context()); cause != nil { // it waited too long for its turn
		a.Lapse(cause)
		return t.resultOf(resultNotRun, fmt.Errorf("%w before the work was begun: %w", retrysafe.ErrLeaseLost, cause))
	}
	if why := p.history.deadReason; why != nil {
		t.n = why.Tries
		return w.finishDead(ctx, t, why.Why, p.history.deadError)
	}
	if err := t.checkLimit(); err != nil {
		return w.finishDead(ctx, t, DeadTries, err)
	}
	err := p.pool.callGuarded(func() error { return h(a.Context()) })
	if outcome := w.policy.OutcomeOf(err); outcome != retrysafe.Done {
		return w.finishFailed(ctx, t, outcome, err)
	}
	return t.completedResult(a.Complete(ctx, m.storedAnswer()))
}

// lapseOnAbandon lets the attempt's lease expire when Consume abandons the handler. The work may
// still be running, so the key is not released.
func (w *onceHandler) lapseOnAbandon(p *handling, a *retrysafe.Attempt) (stop func()) {
	if p.abandoned == nil {
		return func() {}
	}
	withdraw := context.AfterFunc(p.abandoned, func() { a.Lapse(errStopped) })
	return func() { withdraw() }
}
