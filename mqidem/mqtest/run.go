package mqtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// Config describes the broker under test. Only Queue is required.
type Config struct {
	// Queue makes a queue that no one else uses. It passes cleanup to t.Cleanup.
	Queue func(t testing.TB) Queue
	// Ordered says that while a message waits for a later try, those after it wait too.
	Ordered bool
	// Fill makes m the largest message that its producers can send. Q14 dead-letters it. nil means
	// that there is no such limit.
	Fill func(m *mqidem.Message)
	// Large is the size in bytes of a body that must work; default 256 KiB.
	Large int
	// Delay is the delay of a later try in the tests; default 300 ms.
	Delay time.Duration
	// Patience is how long anything that should happen at once may take on a busy machine; default
	// 2 min.
	Patience time.Duration
}

// Source is a consumer that can be closed. The broker then redelivers its unsettled messages.
type Source interface {
	mqidem.Source
	Close() error
}

// Queue is one queue of a broker.
type Queue struct {
	// Topic is what to publish to, so that messages reach the queue.
	Topic     string
	Publisher outbox.Publisher
	// Open returns another consumer of the queue at each call, as another process would have.
	Open        func(t testing.TB) Source
	DeadLetters mqidem.DeadLetters
	// LosePlace makes the broker forget what the consumers of this queue have settled, as an
	// operator or a failover can: their group, their durable consumer, their offsets. No consumer
	// is open meanwhile. nil means that the broker removes what is settled, and has no such place.
	LosePlace func(t testing.TB)
	// Trim removes all messages of the queue, as a maximum length or age does. No consumer is open
	// meanwhile. nil means that nothing can remove them.
	Trim func(t testing.TB)
	// TrimIsSilent says that the broker does not tell that it has removed messages that a consumer
	// had. The documentation of the adapter must say so.
	TrimIsSilent bool
}

// Run runs the suite.
func Run(t *testing.T, c Config) {
	t.Helper()
	for _, one := range clauses {
		t.Run(one.id+"/"+one.name, func(t *testing.T) {
			t.Parallel()
			if err := checkClause(t, c, one); err != nil {
				t.Errorf("%s: %v", one.id, err)
			}
		})
	}
}

type clause struct {
	id, name string
	run      func(*env) error
}

var clauses = []clause{
	{"Q1", "content", arrivesAsPublished},
	{"Q2", "acked is gone", ackedIsGone},
	{"Q3", "given back", unsettledIsRedelivered},
	{"Q4", "later try", retryComesLater},
	{"Q5", "dead letter", deadLetterKeepsReason},
	{"Q6", "walk", walkShowsAll},
	{"Q7", "contexts", endedContextStopsReceive},
	{"Q8", "closed", closeEndsReceive},
	{"Q9", "shared", eachReachesOneConsumer},
	{"Q10", "settled once", settledOnce},
	{"Q11", "put back", sendKeepsID},
	{"Q12", "large", largeBodiesWork},
	{"Q13", "without an id", withoutID},
	{"Q14", "the largest", largestIsDeadLettered},
	{"Q15", "lost place", lostPlace},
	{"Q16", "trimmed", trimmedIsReportedLost},
}

func checkClause(t testing.TB, c Config, one clause) error {
	if c.Large == 0 {
		c.Large = 256 << 10
	}
	if c.Delay == 0 {
		c.Delay = 300 * time.Millisecond
	}
	if c.Patience == 0 {
		c.Patience = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), c.Patience)
	defer cancel()
	return one.run(&env{Config: c, Queue: c.Queue(t), t: t, ctx: ctx})
}

// env is what a clause works with.
type env struct {
	Config
	Queue
	t   testing.TB
	ctx context.Context
}

// openSource returns another consumer.
func (e *env) openSource() Source {
	s := e.Queue.Open(e.t)
	e.t.Cleanup(func() { _ = s.Close() })
	return s
}

// publish sends messages with these bodies and new ids, and returns the ids.
func (e *env) publish(bodies ...string) ([]string, error) {
	ids := make([]string, len(bodies))
	batch := make([]outbox.Outgoing, len(bodies))
	for i, body := range bodies {
		ids[i] = rand.Text()
		batch[i] = outbox.Outgoing{Message: outbox.Message{ID: ids[i], Topic: e.Topic, Payload: []byte(body)}, Added: time.Now(), Attempt: 1}
	}
	return ids, e.publishBatch(batch)
}

func (e *env) publishBatch(batch []outbox.Outgoing) error {
	errs := e.Publisher.Publish(e.ctx, batch)
	if len(errs) != len(batch) {
		return fmt.Errorf("Publish of %d messages returned %d errors", len(batch), len(errs))
	}
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("Publish: %w", err)
		}
	}
	return nil
}

// receiveNext receives one message.
func (e *env) receiveNext(s mqidem.Source) (mqidem.Delivery, error) {
	d, err := s.Receive(e.ctx)
	if err != nil {
		return nil, fmt.Errorf("Receive of a message that should be there: %w", err)
	}
	return d, nil
}

// receiveID receives a message and checks its id.
func (e *env) receiveID(s mqidem.Source, id string) (mqidem.Delivery, error) {
	d, err := e.receiveNext(s)
	if err == nil && d.Message().ID != id {
		err = fmt.Errorf("received another message (%.60q) than the one that should be there", d.Message().Body)
	}
	return d, err
}

// ackAll receives and acks messages until all of these ids were received. Any other id is an error.
func (e *env) ackAll(s mqidem.Source, ids ...string) error {
	want := map[string]bool{}
	for _, id := range ids {
		want[id] = true
	}
	for len(want) > 0 {
		d, err := e.receiveNext(s)
		if err != nil {
			return fmt.Errorf("%d messages are missing: %w", len(want), err)
		}
		if id := d.Message().ID; !want[id] {
			return fmt.Errorf("received a message (%.60q) that should be gone, or was received before", d.Message().Body)
		} else {
			delete(want, id)
		}
		if err := d.Ack(e.ctx); err != nil {
			return fmt.Errorf("Ack: %w", err)
		}
	}
	return nil
}

// expectOnly checks that only these ids are in the queue. It publishes one more message, which must
// come after them or among them.
func (e *env) expectOnly(s mqidem.Source, ids ...string) error {
	last, err := e.publish("the last one")
	if err != nil {
		return err
	}
	return e.ackAll(s, append(ids, last...)...)
}

// listDeadLetters walks the dead-letter queue and keeps everything.
func (e *env) listDeadLetters() (found []*mqidem.DeadLetter, err error) {
	err = e.DeadLetters.Walk(e.ctx, func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		found = append(found, p)
		return mqidem.Keep, nil
	})
	if err != nil {
		return nil, fmt.Errorf("Walk: %w", err)
	}
	return found, nil
}
