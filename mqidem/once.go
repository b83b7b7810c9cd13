package mqidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Once returns a Handler that does the work of a message once for this consumer. The consumer's
// name is part of the key: two consumers of one message both run, and all processes of one consumer
// use the same name.
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
	w := newWork(e, "mq", consumer, opts)
	return func(ctx context.Context, m *Message) error { return w.handle(ctx, m, h) }
}

// work is what a handler of this package does around the user's handler.
type work struct {
	engine   *retrysafe.Engine // on the layer of the records
	layer    string
	consumer string
	opts     []retrysafe.CallOption
	policy   retrysafe.Policy // the result of opts
}

func newWork(e *retrysafe.Engine, layer, consumer string, opts []retrysafe.CallOption) *work {
	if err := (retrysafe.Key{Operation: consumer, ID: "x"}).Validate(); err != nil {
		panic(fmt.Errorf("mqidem: the consumer's name: %w", err))
	}
	// the record counts tries as long as it exists
	e = e.Layer(layer).WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute, ReleasedFor: retrysafe.Forever})
	p, err := e.PolicyWith(opts...)
	if err != nil {
		panic(fmt.Errorf("mqidem: an option of %s: %w", consumer, err))
	}
	return &work{engine: e, layer: layer, consumer: consumer, opts: opts, policy: p}
}

var errNoID = errors.New("mqidem: the message has no id; let its producer set one, or say with Options.ID and Options.MissingID what stands for it")

// key returns the key of a message's record. An id may have any length.
func (w *work) key(m *Message) retrysafe.Key {
	return retrysafe.Key{Operation: w.consumer, ID: retrysafe.KeyPart(m.ID)}
}

// check tests the preconditions of a run. If over is true, the handler returns err and runs
// nothing.
func (w *work) check(ctx context.Context, m *Message) (over bool, err error) {
	switch r := m.told(); {
	case m.ID == "":
		return true, w.bury(ctx, m, nil, DeadNoID, errNoID)
	case r.holds > w.policy.Retention:
		return true, &retentionError{w.policy.Retention, r.holds}
	}
	return false, nil
}

func (w *work) handle(ctx context.Context, m *Message, h Handler) error {
	if over, err := w.check(ctx, m); over {
		return err
	}
	key := w.key(m)
	a, rec, err := w.engine.Begin(ctx, key, w.opts...)
	switch {
	case rec != nil:
		m.told().repeat = true
		return nil
	case err != nil:
		m.told().unanswered(err)
		return w.refused(ctx, m, err)
	}
	return w.attempt(ctx, m, a, func(ctx context.Context) error { return h(ctx, m) })
}

// refused handles a message whose key the engine did not give.
func (w *work) refused(ctx context.Context, m *Message, err error) error {
	switch {
	case errors.Is(err, retrysafe.ErrInDoubt):
		if _, later := retrysafe.Retryable(err); later {
			return err // a later call finds out the outcome
		}
		return w.bury(ctx, m, nil, DeadInDoubt, err)
	case errors.Is(err, retrysafe.ErrFingerprintMismatch), errors.Is(err, retrysafe.ErrPrincipalChanged):
		return w.bury(ctx, m, nil, DeadMismatch, err)
	case errors.Is(err, retrysafe.ErrDuplicate), errors.Is(err, retrysafe.ErrAnswerNotKept),
		errors.Is(err, retrysafe.ErrFailedBefore): // the first copy became a dead letter
		m.told().repeat = true
		return nil
	}
	return err
}

// unanswered counts a claim without an answer. The store may have made the claim and released it.
func (r *run) unanswered(err error) {
	if errors.Is(err, retrysafe.ErrUnavailable) {
		r.past.unanswered++
	}
}

// attempt runs h under an attempt, and finishes the attempt.
func (w *work) attempt(ctx context.Context, m *Message, a *retrysafe.Attempt, h func(context.Context) error) error {
	r := m.told()
	defer w.lapses(r, a)()
	if n := min(r.past.unanswered, a.Tries()-1); n > 0 {
		_ = a.Uncount(ctx, n) // if this fails, the attempt is lost or counts
	}
	r.past.unanswered = 0
	r.tries = a.Tries()
	if cause := context.Cause(a.Context()); cause != nil { // it waited too long for its turn
		a.Lapse(cause)
		return fmt.Errorf("%w before the work was begun: %w", retrysafe.ErrLeaseLost, cause)
	}
	if dead := r.past.dead; dead != nil {
		r.tries = dead.Tries
		return w.bury(ctx, m, a, dead.Why, errors.New(dead.Error))
	}
	if err := usedUp(r); err != nil {
		return w.bury(ctx, m, a, DeadTries, err)
	}
	return w.end(ctx, m, a, call(func() error { return h(a.Context()) }))
}

// usedUp returns an error if a try beyond the limit was begun. A message that kills its consumer
// never ends its last try, so the limit must also hold before a run.
func usedUp(r *run) error {
	if r.limit > 0 && r.tries > r.limit {
		return fmt.Errorf("mqidem: %d tries were begun and none has ended well; the last one did not end at all", r.limit)
	}
	return nil
}

// lapses lets the attempt's lease expire when Consume abandons the handler. The work may still be
// running, so the key is not released.
func (w *work) lapses(r *run, a *retrysafe.Attempt) (stop func()) {
	if r.gaveUp == nil {
		return func() {}
	}
	withdraw := context.AfterFunc(r.gaveUp, func() { a.Lapse(errStopped) })
	return func() { withdraw() }
}

var doneAnswer = retrysafe.Answer{Codec: "raw", Body: []byte{}, Kept: true}

// end finishes an attempt according to the error of its work.
func (w *work) end(ctx context.Context, m *Message, a *retrysafe.Attempt, err error) error {
	outcome := w.policy.OutcomeOf(err)
	if outcome == retrysafe.Done {
		return a.Complete(ctx, doneAnswer)
	}
	return w.fail(ctx, m, a, outcome, err)
}

// fail finishes an attempt whose work has failed.
func (w *work) fail(ctx context.Context, m *Message, a *retrysafe.Attempt, outcome retrysafe.Outcome, err error) error {
	r := m.told()
	again := outcome == retrysafe.NotDone || outcome == retrysafe.Doubtful && w.policy.OnDoubt == retrysafe.Reexecute
	lost := context.Cause(a.Context())
	switch {
	case again && (errors.Is(lost, retrysafe.ErrLeaseLost) || errors.Is(lost, retrysafe.ErrClosed)):
		a.Lapse(err) // another consumer may be working on it
		return fmt.Errorf("%w: %w", retrysafe.ErrLeaseLost, err)
	case again && errors.Is(context.Cause(ctx), errStopped):
		_ = a.Uncount(ctx, 1) // a stopped try does not count as a failure
		_ = a.Release(ctx, err)
		return err
	}
	r.failed = true
	switch {
	case outcome == retrysafe.Failed:
		return w.bury(ctx, m, a, whyRefused(err), err)
	case !again:
		return w.bury(ctx, m, a, DeadInDoubt, err)
	case r.limit > 0 && r.tries >= r.limit:
		return w.bury(ctx, m, a, DeadTries, err)
	case outcome == retrysafe.Doubtful:
		_ = a.Doubt(ctx, err)
	default:
		_ = a.Release(ctx, err) // if the release fails, the lease expires
	}
	return err
}

// whyRefused returns the reason for a dead letter that the handler refused for good.
func whyRefused(err error) string {
	var f *retrysafe.Failure
	if errors.As(err, &f) && f.Code == DeadPoison {
		return DeadPoison
	}
	return DeadRefused
}

// bury moves a message to the dead-letter queue and then finishes its attempt, if there is one, so
// that copies of the message are duplicates. The order matters: if the record came first and this
// process died in between, a copy would be acked although the dead-letter queue has no message.
func (w *work) bury(ctx context.Context, m *Message, a *retrysafe.Attempt, why string, err error) error {
	r := m.told()
	if r.park != nil {
		reason := w.reason(m, why, err)
		if cause := r.park(ctx, reason); cause != nil {
			onlyParks := r.past.dead != nil // an earlier try has run the handler
			r.past.dead = &reason
			switch {
			case a == nil:
			case why == DeadInDoubt, w.policy.OnDoubt == retrysafe.Refuse:
				// Under Refuse no other consumer may run it again, and none knows of the refusal.
				_ = a.Doubt(ctx, err)
			default:
				if onlyParks {
					_ = a.Uncount(ctx, 1)
				}
				_ = a.Release(ctx, err)
			}
			return &deadLetterError{cause}
		}
		r.parked = true
	}
	switch {
	case a == nil:
	case why == DeadInDoubt:
		_ = a.Doubt(ctx, err)
	case r.park == nil && why == DeadTries:
		_ = a.Release(ctx, err)
	default:
		_ = a.Fail(ctx, &retrysafe.Failure{Code: why, Message: err.Error()})
	}
	return err
}

func (w *work) reason(m *Message, why string, err error) Reason {
	r := Reason{
		Why: why, Error: err.Error(), Tries: m.told().tries, Consumer: w.consumer,
		Source: m.Source, At: time.Now().UTC(), Redrives: m.redrives(),
	}
	if keep := w.policy.Retention; keep != retrysafe.Forever {
		r.Until = r.At.Add(keep)
	}
	if m.ID != "" {
		// a valid key has no error
		key, _ := retrysafe.StoreKey{Namespace: w.engine.Namespace(), Layer: w.layer, Key: w.key(m)}.MarshalText()
		r.Key = string(key)
	}
	return r
}

// redrives returns how often the message was redriven from the dead-letter queue.
func (m *Message) redrives() int {
	n, _ := strconv.Atoi(m.Header(HeaderRedrives))
	return max(0, n)
}
