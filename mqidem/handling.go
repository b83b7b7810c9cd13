package mqidem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/retrysafe/retrysafe"
)

// handling is what Consume passes to the handlers of this package with a message. A zero handling
// with a history is for a handler that Consume does not call: it has no limit of tries and no
// dead-letter queue.
type handling struct {
	// limit is the maximum number of tries; zero means no limit.
	limit int
	// brokerHolds is how long a copy can stay in the queue; zero means unknown.
	brokerHolds time.Duration
	// deadLetter moves the message to the dead-letter queue; nil means that there is none.
	deadLetter func(context.Context, Reason) error
	// abandoned ends when Consume stops waiting for the handler; nil means never.
	abandoned context.Context
	// pool runs the handler; nil means a new goroutine for it.
	pool *handlerPool
	// logger gets what an operator should know; nil means slog.Default().
	logger *slog.Logger
	// history is what earlier calls with the same delivery have left.
	history *history
	// result is what the handlers of this package have reported.
	result handlerResult
}

// history is the state of a delivery that Consume holds and hands to the handler more than once.
type history struct {
	// deadReason is why the message must become a dead letter, which has failed so far. The work no
	// longer runs.
	deadReason *Reason
	// deadError is the error whose text is in dead.
	deadError error
	// unanswered counts the claims that got no answer. The store may have counted each of them as a
	// try, although nothing ran.
	unanswered int
	// counted is the try that OnceTx has stored for this delivery.
	counted int
	// refusedCommits is how often the database has refused to commit a transaction of OnceTx.
	refusedCommits int
	// failures is how often a handler without a record has failed.
	failures int
}

// passedHandling returns what Consume passed with the message.
func (m *Message) passedHandling() *handling {
	if m.passed == nil {
		return &handling{history: new(history)}
	}
	return m.passed
}

// handlerResult is what a handler of this package reports about a message.
type handlerResult struct {
	kind resultKind
	// try is the number of this try according to the record; zero means that none was counted.
	try int
	err error
}

// resultKind says what happened, the least important first.
type resultKind uint8

const (
	_ resultKind = iota // no handler of this package was called
	// resultDone means that the work was done.
	resultDone
	// resultDuplicate means that the work was done, or the message became a dead letter, before.
	resultDuplicate
	// resultNotRun means that the work was not run or not finished; err says why, and no try
	// counts.
	resultNotRun
	// resultFailed means that the work itself failed, so the try counts.
	resultFailed
	// resultDead means that the message is a dead letter and settled.
	resultDead
)

// report passes a result to Consume and returns its error. If the user's handler calls several
// handlers of this package, the most important result counts.
func (m *Message) report(r handlerResult) error {
	if h := m.passedHandling(); r.kind >= h.result.kind {
		h.result = r
	}
	return r.err
}

// retentionError means that records of finished messages would expire while copies of the messages
// are still in the queue.
type retentionError struct{ retention, holds time.Duration }

func (e *retentionError) Error() string {
	if e.holds == retrysafe.Forever {
		return fmt.Sprintf("mqidem: records are kept for %v, and the broker keeps messages that are done for ever: if it loses the place of its consumers, all would be done again. "+
			"Nothing was run; let the broker remove messages that are done or old, raise Policy.Retention to Forever, or set Options.HoldsFor if something else removes them", e.retention)
	}
	return fmt.Sprintf("mqidem: records are kept for %v, and the broker may deliver a copy of a message %v later: it would be done again. "+
		"Nothing was run; raise Policy.Retention to that time, or let the broker keep messages for less", e.retention, e.holds)
}

// deadLetterError means that a message could not be moved to the dead-letter queue.
type deadLetterError struct{ cause error }

func (e *deadLetterError) Error() string {
	return "mqidem: the message could not be moved to the dead-letter queue; it stays with the broker: " + e.cause.Error()
}
func (e *deadLetterError) Unwrap() error { return e.cause }

// disposition returns what to do with the message: it is held and becomes a dead letter later,
// unless its connection is gone.
func (e *deadLetterError) disposition(err error) disposition {
	if errors.Is(e.cause, ErrStale) || errors.Is(e.cause, ErrSettled) {
		return disposition{action: actionLeave, outcome: OutcomeLeft, err: err}
	}
	return disposition{action: actionHold, err: err}
}
