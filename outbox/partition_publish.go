package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// batchOutcome is the outcome of a batch.
type batchOutcome struct {
	markedOutcome
	brokerAway bool // the broker is unavailable
	oldest     time.Duration
}

// batchReport returns the outcome for OnBatch.
func (s *batchOutcome) batchReport(messages int, took time.Duration) Batch {
	b := Batch{Published: len(s.published), Oldest: s.oldest, Took: took}
	for _, f := range s.failed {
		if f.dead {
			b.Dead++
		} else {
			b.Failed++
		}
	}
	b.HeldUp = messages - b.Published - b.Failed - b.Dead
	return b
}

// publish hands over messages. A publisher that keeps their order gets all at once. Any other gets
// turns with each key once, so that a message is sent after the earlier ones of its key are
// confirmed.
func (l *lane) publish(messages []Outgoing) *batchOutcome {
	s, failed := new(batchOutcome), map[[hashSize]byte]bool{}
	for left := messages; len(left) > 0; {
		turn, later := left, []Outgoing(nil)
		if !l.ordered {
			turn, later = eachKeyOnce(left, failed)
		}
		if len(turn) == 0 {
			break
		}
		for i, err := range l.callPublisher(turn) {
			l.addOutcome(s, &turn[i], err, failed)
		}
		if left = later; s.brokerAway || !l.mayContinue() {
			break
		}
	}
	return s
}

// eachKeyOnce returns the first message of each key that has not failed.
func eachKeyOnce(messages []Outgoing, failed map[[hashSize]byte]bool) (turn, later []Outgoing) {
	seen := map[[hashSize]byte]bool{}
	for _, m := range messages {
		switch {
		case failed[m.hash]:
		case seen[m.hash]:
			later = append(later, m)
		default:
			seen[m.hash] = true
			turn = append(turn, m)
		}
	}
	return turn, later
}

// addOutcome records the outcome of one message. A message that it does not record stays pending.
func (l *lane) addOutcome(s *batchOutcome, m *Outgoing, err error, failed map[[hashSize]byte]bool) {
	before := failed[m.hash]
	if err == nil {
		s.published = append(s.published, m.seq)
		s.oldest = max(s.oldest, time.Since(m.Added))
		return
	}
	failed[m.hash] = true
	var shape *errorCountError
	switch {
	case isPermanent(err):
	case errors.As(err, &shape), isUnavailable(err):
		s.brokerAway = true
		l.logProblem("reach the broker", errors.New("Publish has returned an error of Unavailable, or not one error for each message"))
		return
	case before, errors.Is(err, ErrHeldUp), l.term.ctx.Err() != nil:
		return
	}
	dead := isPermanent(err) || m.Attempt >= l.o.MaxAttempts
	s.failed = append(s.failed, failure{seq: m.seq, attempts: m.Attempt, wait: l.retryWait(m.Attempt), dead: dead, text: clippedText(err)})
	if dead {
		l.logger.Error("outbox: a message is dead; see Outbox.Dead for its error, then Redrive or Discard it", "partition", m.Partition, "attempts", m.Attempt)
	}
}

// maxErrorText is how many bytes of an error are stored.
const maxErrorText = 1000

func clippedText(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "")
}

// errPanic is for a publisher that panicked or called Goexit.
var errPanic = errors.New("outbox: the publisher has panicked")

// callPublisher calls Publish once. If that panics, it hands over the messages one by one, so that
// one message does not stop the others.
func (l *lane) callPublisher(messages []Outgoing) []error {
	errs, err := l.callOnce(messages)
	switch {
	case errors.Is(err, errPanic) && len(messages) > 1:
		failed := map[[hashSize]byte]bool{}
		errs = make([]error, len(messages))
		for i, m := range messages {
			if failed[m.hash] || !l.holdsLease() {
				errs[i] = ErrHeldUp
				continue
			}
			alone, err := l.callOnce(messages[i : i+1])
			if errs[i] = err; err == nil {
				errs[i] = alone[0]
			}
			failed[m.hash] = errs[i] != nil
		}
	case err != nil:
		errs = make([]error, len(messages))
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

func (l *lane) holdsLease() bool { return l.term.ctx.Err() == nil }

// lateLogInterval is how often a Publish that does not return is logged.
const lateLogInterval = time.Minute

// callOnce waits for Publish to return, however long that takes. Otherwise the next relay that has
// the messages would publish at the same time.
func (l *lane) callOnce(messages []Outgoing) (errs []error, err error) {
	ctx, cancel := context.WithTimeout(l.term.ctx, l.o.PublishTimeout)
	defer cancel()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		err = errPanic // also after a Goexit
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("%w: %T", errPanic, v)
				l.logger.Error("outbox: the publisher has panicked", "type", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
			}
		}()
		errs = l.publisher.Publish(ctx, messages)
		err = nil
	}()
	for wait := l.o.PublishTimeout + 5*time.Second; ; wait = lateLogInterval {
		t := time.NewTimer(wait)
		select {
		case <-returned:
			t.Stop()
			if err == nil && len(errs) != len(messages) {
				l.logger.Error("outbox: Publish has to return one error for each message, nil if it was published; all are sent again", "messages", len(messages), "errors", len(errs))
				err = &errorCountError{len(errs), len(messages)}
			}
			return errs, err
		case <-t.C:
			l.logger.Error("outbox: Publish has not returned, though its context has ended: its partition stands still", "partition", l.part)
		}
	}
}

// errorCountError is for a publisher that breaks its contract.
type errorCountError struct{ errs, messages int }

func (e *errorCountError) Error() string {
	return fmt.Sprintf("outbox: the publisher has returned %d errors for %d messages; it must return one for each, nil where the broker has confirmed it", e.errs, e.messages)
}
