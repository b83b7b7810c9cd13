package mqidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
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
func OnceTx[Tx any](e *retrysafe.Engine, db storeapi.TxStore[Tx], consumer string, h func(context.Context, Tx, *Message) error, opts ...retrysafe.CallOption) Handler {
	w := newOnceHandler(e, "tx", consumer, opts)
	return func(ctx context.Context, m *Message) error {
		t := &transactionTry{onceHandler: w, m: m, history: m.passedHandling().history}
		return m.report(t.handle(ctx, func(ctx context.Context, key retrysafe.Key) (ran transactionRun) {
			first, err := retrysafe.DoTx(ctx, w.engine, db, key, func(ctx context.Context, tx Tx) (origin, error) {
				ran.began = true
				ran.err = m.passedHandling().pool.callGuarded(func() error { return h(ctx, tx, m) })
				if ran.err != nil {
					// DoTx must not see the marks of the error: the message becomes a dead letter
					// before its record says so
					return origin{}, errRollBack
				}
				return origin{m.Source}, nil
			}, opts...)
			ran.stored, ran.source = err, first.Value.Source
			return ran
		}))
	}
}

var errRollBack = errors.New("mqidem: the handler failed")

// transactionTry is one delivery of a message to a handler of OnceTx.
type transactionTry struct {
	*onceHandler
	m       *Message
	history *history
}

// transactionRun is what DoTx and the user's handler in it have returned.
type transactionRun struct {
	began  bool   // the handler was called
	err    error  // of the handler
	stored error  // of DoTx
	source string // of the message that was done, if this one is its duplicate
}

// handle runs the transaction, which is do.
func (t *transactionTry) handle(ctx context.Context, do func(context.Context, retrysafe.Key) transactionRun) handlerResult {
	if r, ready := t.checkReady(ctx, t.m); !ready {
		return r
	}
	key := t.keyOf(t.m)
	if why := t.history.deadReason; why != nil {
		a, r, ok := t.claimForCount(ctx, key)
		if !ok {
			return r
		}
		return t.finishDead(ctx, &messageTry{t.m, a, why.Tries}, why.Why, t.history.deadError)
	}
	if t.m.Deliveries > 1 && t.history.counted == 0 {
		if r, ok := t.countTry(ctx, key); !ok {
			return r
		}
	}
	ran := do(ctx, key)
	if !ran.began && errors.Is(ran.stored, retrysafe.ErrInDoubt) {
		// A consumer died while it stored the count. Nothing runs under such an attempt, so it can
		// be taken over.
		if r, ok := t.countTry(ctx, key); !ok {
			return r
		}
		ran = do(ctx, key)
	}
	return t.runResult(ctx, key, ran)
}

// runResult returns the result of a transaction.
func (t *transactionTry) runResult(ctx context.Context, key retrysafe.Key, ran transactionRun) handlerResult {
	counted := &messageTry{m: t.m, n: t.history.counted}
	var kept *retrysafe.Failure
	switch err := ran.stored; {
	case !ran.began && (err == nil || errors.As(err, &kept)):
		if kept != nil {
			ran.source = string(kept.Detail)
		}
		t.warnOtherSource(t.m, ran.source)
		return counted.resultOf(resultDuplicate, nil)
	case ran.began && ran.err != nil && errors.Is(err, errRollBack):
		return t.countFailure(ctx, key, ran.err)
	case err == nil:
		return handlerResult{kind: resultDone, try: max(counted.n, 1)}
	case ran.began && errors.Is(err, retrysafe.ErrCommitRefused):
		return t.countFailure(ctx, key, err)
	case ran.began && !errors.Is(err, retrysafe.ErrUnconfirmed):
		// The database did not commit. Either it is unavailable, or it refuses what the handler did
		// (a statement whose error was dropped). The two look the same, so the commit gets several
		// chances before it counts as a failure.
		if t.history.refusedCommits++; t.history.refusedCommits >= maxRefusals {
			t.history.refusedCommits = 0
			return t.countFailure(ctx, key, err)
		}
	}
	return t.refusalResult(ctx, counted, ran.stored)
}

// maxRefusals is how often a commit may be refused before that counts as a failure. It takes about
// a minute.
const maxRefusals = 10

var errOnlyCounted = retrysafe.NothingDone(errors.New("the try was counted; the work runs in a transaction"))

// countTry stores a try before it is made. If ok is false, the handler reports the result and does
// nothing more.
func (t *transactionTry) countTry(ctx context.Context, key retrysafe.Key) (_ handlerResult, ok bool) {
	a, r, ok := t.claimForCount(ctx, key)
	if !ok {
		return r, false
	}
	one := &messageTry{t.m, a, a.Tries()}
	t.history.counted = one.n
	if err := one.checkLimit(); err != nil {
		return t.finishDead(ctx, one, DeadTries, err), false
	}
	if err := a.Release(ctx, errOnlyCounted); err != nil {
		return one.resultOf(resultNotRun, err), false
	}
	return handlerResult{}, true
}

// countLease is the lease of the attempts that store a count. It is short, since they do nothing
// else. Moving a message to the dead-letter queue extends it.
const countLease = 5 * time.Second

// countWait is how long countTry waits for the record, which another consumer's transaction may
// hold.
const countWait = time.Second

// claimForCount claims the record for a count. If ok is false, the handler reports the result and
// does nothing more.
func (t *transactionTry) claimForCount(ctx context.Context, key retrysafe.Key) (_ *retrysafe.Attempt, _ handlerResult, ok bool) {
	opts := append(append([]retrysafe.CallOption(nil), t.opts...), retrysafe.WithPolicy(retrysafe.Policy{
		Lease: countLease, OnDoubt: retrysafe.Reexecute, Wait: -1,
	}))
	short, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	a, rec, err := t.engine.Begin(short, key, append(opts, retrysafe.Detached())...)
	counted := &messageTry{m: t.m, n: t.history.counted}
	switch {
	case err != nil && ctx.Err() == nil && short.Err() != nil: // no claim is applied after this
		err = fmt.Errorf("%w: its record was held for %v: %w", retrysafe.ErrInProgress, countWait, err)
		return nil, counted.resultOf(resultNotRun, err), false
	case rec != nil:
		t.warnOtherSource(t.m, recordSource(rec))
		return nil, counted.resultOf(resultDuplicate, nil), false
	case err != nil:
		return nil, t.refusalResult(ctx, counted, err), false
	}
	return a, handlerResult{}, true
}

// countFailure counts a try that failed with err and was rolled back, unless it was counted before.
// After the last try it makes the message a dead letter.
func (t *transactionTry) countFailure(ctx context.Context, key retrysafe.Key, err error) handlerResult {
	outcome := t.policy.OutcomeOf(err)
	if outcome == retrysafe.Doubtful || outcome == retrysafe.Done {
		outcome = retrysafe.NotDone // it was rolled back
	}
	one := &messageTry{m: t.m, n: t.history.counted}
	if errors.Is(context.Cause(ctx), errStopped) && outcome == retrysafe.NotDone {
		return one.resultOf(resultNotRun, err) // a stopped try does not count as a failure
	}
	limit := t.m.passedHandling().limit
	if one.n > 0 && outcome == retrysafe.NotDone && (limit == 0 || one.n < limit) {
		t.history.counted = 0 // the next try counts again
		return one.resultOf(resultFailed, err)
	}
	a, r, ok := t.claimForCount(ctx, key)
	if !ok {
		return r
	}
	if one.attempt = a; one.n == 0 {
		one.n = a.Tries()
	}
	return t.finishFailed(ctx, one, outcome, err)
}
