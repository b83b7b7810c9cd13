package mqidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// OnceTx makes of h a handler whose effect happens exactly once: the record of the message is
// written in the transaction of the effect, and the message is acked when that is committed. There
// is no lease; whatever dies, either both are there or neither. h must do its work in the
// transaction that it is given; see retrysafe.DoTx.
//
// e is an engine on the store that db is, or the tries of a message are counted in another place
// than its end. A straight run makes one record. Tries are counted in the same one: a try that
// failed, and each try of a message that the broker delivers again (its first consumer may have
// died), is written down by itself, since the transaction of a try that fails leaves nothing. The
// death of a consumer at the very first delivery is not counted.
//
// The rest is as with [Once].
func OnceTx[Tx any](e *retrysafe.Engine, db retrysafe.TxStore[Tx], consumer string, h func(context.Context, Tx, *Message) error, opts ...retrysafe.CallOption) Handler {
	w := newWork(e, "tx", consumer, opts)
	return func(ctx context.Context, m *Message) error {
		t := &txTry{work: w, m: m, r: m.told()}
		return t.handle(ctx, func(ctx context.Context, key retrysafe.Key) error {
			_, err := retrysafe.DoTx(ctx, w.engine, db, key, func(ctx context.Context, tx Tx) (struct{}, error) {
				t.ran, t.err = true, nil
				t.err = call(func() error { return h(ctx, tx, m) })
				if t.err != nil {
					// its marks are for us: the message has to be parked before its record says so
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

// handle runs the transaction by do.
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
		// A consumer died while it counted. Nothing runs under such an attempt, so that it can be
		// taken over.
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
		// The database did not take the end of the transaction: it is away, or it refuses what the
		// handler did (a deferred constraint, a statement whose error was dropped). That looks the
		// same, so it is given some time before it counts.
		if t.r.past.refused++; t.r.past.refused < refusals {
			break
		}
		t.r.past.refused, t.err = 0, err
		return t.failed(ctx, key)
	}
	return t.refused(ctx, t.m, err)
}

// refusals are how many turns a transaction whose end is refused has in hand before that is a
// failure, about a minute.
const refusals = 10

var errOnlyCounted = retrysafe.NothingDone(errors.New("the try was counted; the work runs in a transaction"))

// count writes a try down before it is made. over: there is nothing more to do, and err is what the
// handler returns.
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

// countLease is that of the attempts that count: short, for they do nothing else. Parking a message
// extends it.
const countLease = 5 * time.Second

// countWait is how long it waits for the record, which another consumer's transaction may hold.
const countWait = time.Second

func (t *txTry) begin(ctx context.Context, key retrysafe.Key) (a *retrysafe.Attempt, over bool, err error) {
	opts := append(append([]retrysafe.CallOption(nil), t.opts...), retrysafe.WithPolicy(retrysafe.Policy{
		Lease: countLease, OnDoubt: retrysafe.Reexecute, Wait: -1,
	}))
	short, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	a, rec, err := t.engine.Begin(short, key, append(opts, retrysafe.Detached())...)
	switch {
	case err != nil && ctx.Err() == nil && short.Err() != nil: // no claim of it is applied any more
		return nil, true, fmt.Errorf("%w: its record was held for %v: %w", retrysafe.ErrInProgress, countWait, err)
	case rec != nil:
		t.r.repeat = true
		return nil, true, nil
	case err != nil:
		return nil, true, t.refused(ctx, t.m, err)
	}
	return a, false, nil
}

// failed counts a try that failed and was rolled back, if it was not counted before, and parks the
// message where it was the last.
func (t *txTry) failed(ctx context.Context, key retrysafe.Key) error {
	outcome := t.policy.OutcomeOf(t.err)
	if outcome == retrysafe.Doubtful || outcome == retrysafe.Done {
		outcome = retrysafe.NotDone // it was rolled back
	}
	counted := t.r.past.counted
	if errors.Is(context.Cause(ctx), errStopped) && outcome == retrysafe.NotDone {
		return t.err // to be told to end is no failure
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
