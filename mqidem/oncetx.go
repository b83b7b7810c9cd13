package mqidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// OnceTx returns a Handler whose effect happens exactly once. It writes the record of the message
// in the transaction of the effect, and the message is acked after the commit. There is no lease;
// after any crash either both the record and the effect exist or neither does. h must do its work
// in the transaction that it gets; see retrysafe.DoTx.
//
// e must be an engine on the same store as db. Otherwise the tries of a message would be counted in
// another place than its outcome. A message that succeeds at once makes one record. Tries are
// counted in the same record: a try that failed, and each try of a message that the broker
// redelivers (its first consumer may have died), is stored separately, since a failed transaction
// leaves nothing. If a consumer dies at the very first delivery, that try is not counted.
//
// Everything else is as with [Once].
func OnceTx[Tx any](e *retrysafe.Engine, db retrysafe.TxStore[Tx], consumer string, h func(context.Context, Tx, *Message) error, opts ...retrysafe.CallOption) Handler {
	w := newWork(e, "tx", consumer, opts)
	return func(ctx context.Context, m *Message) error {
		t := &txTry{work: w, m: m, r: m.told()}
		return t.handle(ctx, func(ctx context.Context, key retrysafe.Key) error {
			_, err := retrysafe.DoTx(ctx, w.engine, db, key, func(ctx context.Context, tx Tx) (struct{}, error) {
				t.ran, t.err = true, nil
				t.err = call(func() error { return h(ctx, tx, m) })
				if t.err != nil {
					// DoTx must not see the marks of the error: the message becomes a dead letter
					// before its record says so
					return struct{}{}, errRollBack
				}
				return struct{}{}, nil
			}, opts...)
			return err
		})
	}
}

var errRollBack = errors.New("mqidem: the handler failed")

// txTry is one delivery of a message to a handler of OnceTx.
type txTry struct {
	*work
	m   *Message
	r   *run
	ran bool
	err error // of the user's handler
}

// handle runs the transaction, which is do.
func (t *txTry) handle(ctx context.Context, do func(context.Context, retrysafe.Key) error) error {
	if over, err := t.check(ctx, t.m); over {
		return err
	}
	key := t.key(t.m)
	if dead := t.r.past.dead; dead != nil {
		a, over, err := t.begin(ctx, key)
		if over {
			return err
		}
		t.r.tries = dead.Tries
		return t.bury(ctx, t.m, a, dead.Why, errors.New(dead.Error))
	}
	if t.r.tries = t.r.past.counted; t.m.Deliveries > 1 && t.r.tries == 0 {
		if over, err := t.count(ctx, key); over {
			return err
		}
	}
	err := do(ctx, key)
	if !t.ran && errors.Is(err, retrysafe.ErrInDoubt) {
		// A consumer died while it stored the count. Nothing runs under such an attempt, so it can
		// be taken over.
		if over, err := t.count(ctx, key); over {
			return err
		}
		err = do(ctx, key)
	}
	var kept *retrysafe.Failure
	switch {
	case !t.ran && (err == nil || errors.As(err, &kept)):
		t.r.repeat = true
		return nil
	case t.ran && t.err != nil && errors.Is(err, errRollBack):
		return t.failed(ctx, key)
	case err == nil:
		t.r.tries = max(t.r.tries, 1)
		return nil
	case t.ran && !errors.Is(err, retrysafe.ErrUnconfirmed):
		// The database did not commit. Either it is unavailable, or it refuses what the handler did
		// (a deferred constraint, a statement whose error was dropped). The two look the same, so
		// the commit gets several chances before it counts as a failure.
		if t.r.past.refused++; t.r.past.refused < refusals {
			break
		}
		t.r.past.refused, t.err = 0, err
		return t.failed(ctx, key)
	}
	return t.refused(ctx, t.m, err)
}

// refusals is how often a commit may be refused before that counts as a failure. It takes about a
// minute.
const refusals = 10

var errOnlyCounted = retrysafe.NothingDone(errors.New("the try was counted; the work runs in a transaction"))

// count stores a try before it is made. If over is true, the handler returns err and does nothing
// more.
func (t *txTry) count(ctx context.Context, key retrysafe.Key) (over bool, err error) {
	a, over, err := t.begin(ctx, key)
	if over {
		return true, err
	}
	t.r.tries, t.r.past.counted = a.Tries(), a.Tries()
	if err := usedUp(t.r); err != nil {
		return true, t.bury(ctx, t.m, a, DeadTries, err)
	}
	if err := a.Release(ctx, errOnlyCounted); err != nil {
		return true, err
	}
	return false, nil
}

// countLease is the lease of the attempts that store a count. It is short, since they do nothing
// else. Moving a message to the dead-letter queue extends it.
const countLease = 5 * time.Second

// countWait is how long count waits for the record, which another consumer's transaction may hold.
const countWait = time.Second

func (t *txTry) begin(ctx context.Context, key retrysafe.Key) (a *retrysafe.Attempt, over bool, err error) {
	opts := append(append([]retrysafe.CallOption(nil), t.opts...), retrysafe.WithPolicy(retrysafe.Policy{
		Lease: countLease, OnDoubt: retrysafe.Reexecute, Wait: -1,
	}))
	short, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	a, rec, err := t.engine.Begin(short, key, append(opts, retrysafe.Detached())...)
	switch {
	case err != nil && ctx.Err() == nil && short.Err() != nil: // no claim is applied after this
		return nil, true, fmt.Errorf("%w: its record was held for %v: %w", retrysafe.ErrInProgress, countWait, err)
	case rec != nil:
		t.r.repeat = true
		return nil, true, nil
	case err != nil:
		return nil, true, t.refused(ctx, t.m, err)
	}
	return a, false, nil
}

// failed counts a try that failed and was rolled back, unless it was counted before. After the last
// try it makes the message a dead letter.
func (t *txTry) failed(ctx context.Context, key retrysafe.Key) error {
	outcome := t.policy.OutcomeOf(t.err)
	if outcome == retrysafe.Doubtful || outcome == retrysafe.Done {
		outcome = retrysafe.NotDone // it was rolled back
	}
	counted := t.r.past.counted
	if errors.Is(context.Cause(ctx), errStopped) && outcome == retrysafe.NotDone {
		return t.err // a stopped try does not count as a failure
	}
	if counted > 0 && outcome == retrysafe.NotDone && (t.r.limit == 0 || counted < t.r.limit) {
		t.r.failed, t.r.past.counted = true, 0 // the next try counts again
		return t.err
	}
	a, over, err := t.begin(ctx, key)
	if over {
		return err
	}
	if t.r.tries = a.Tries(); counted > 0 {
		t.r.tries = counted
	}
	return t.fail(ctx, t.m, a, outcome, t.err)
}
