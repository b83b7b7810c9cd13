package mqtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/memqueue"
	"github.com/retrysafe/retrysafe/mqidem/mqtest"
	"github.com/retrysafe/retrysafe/outbox"
)

// faults make a queue broken. A field that is set replaces the method of a correct queue.
type faults struct {
	receive func(context.Context, mqidem.Source) (mqidem.Delivery, error)
	close   func(mqtest.Source) error
	ack     func(context.Context, mqidem.Delivery) error
	retry   func(context.Context, mqidem.Delivery, time.Duration) error
	dead    func(context.Context, mqidem.Delivery, mqidem.Reason) error
	walk    func(context.Context, mqidem.DeadLetters, func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error
	send    func(context.Context, mqidem.DeadLetters, *mqidem.Message) error
	history bool // a lost place delivers again what was settled
	drops   bool // a trimmed message is gone without a report
}

type brokenSource struct {
	mqtest.Source
	*faults
}

func (s brokenSource) Receive(ctx context.Context) (mqidem.Delivery, error) {
	receive := func(ctx context.Context, s mqidem.Source) (mqidem.Delivery, error) { return s.Receive(ctx) }
	if s.receive != nil {
		receive = s.receive
	}
	d, err := receive(ctx, s.Source)
	if err != nil {
		return nil, err
	}
	return brokenDelivery{d, s.faults}, nil
}

func (s brokenSource) Close() error {
	if s.close != nil {
		return s.close(s.Source)
	}
	return s.Source.Close()
}

type brokenDelivery struct {
	mqidem.Delivery
	*faults
}

func (d brokenDelivery) Ack(ctx context.Context) error {
	if d.ack != nil {
		return d.ack(ctx, d.Delivery)
	}
	return d.Delivery.Ack(ctx)
}

func (d brokenDelivery) Retry(ctx context.Context, after time.Duration) error {
	if d.retry != nil {
		return d.retry(ctx, d.Delivery, after)
	}
	return d.Delivery.Retry(ctx, after)
}

func (d brokenDelivery) Dead(ctx context.Context, why mqidem.Reason) error {
	if d.dead != nil {
		return d.dead(ctx, d.Delivery, why)
	}
	return d.Delivery.Dead(ctx, why)
}

type brokenDeadLetters struct {
	mqidem.DeadLetters
	*faults
}

func (p brokenDeadLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	if p.walk != nil {
		return p.walk(ctx, p.DeadLetters, see)
	}
	return p.DeadLetters.Walk(ctx, see)
}

func (p brokenDeadLetters) Send(ctx context.Context, m *mqidem.Message) error {
	if p.send != nil {
		return p.send(ctx, p.DeadLetters, m)
	}
	return p.DeadLetters.Send(ctx, m)
}

// otherMessage is a delivery whose message differs slightly from the published one.
type otherMessage struct {
	mqidem.Delivery
	message *mqidem.Message
}

func (d otherMessage) Message() *mqidem.Message { return d.message }

func changed(change func(*mqidem.Message)) func(context.Context, mqidem.Source) (mqidem.Delivery, error) {
	return func(ctx context.Context, s mqidem.Source) (mqidem.Delivery, error) {
		d, err := s.Receive(ctx)
		if err != nil {
			return nil, err
		}
		m := d.Message().Clone()
		change(m)
		return otherMessage{d, m}, nil
	}
}

func TestBrokenQueues(t *testing.T) {
	t.Parallel()
	all := func(v mqidem.Verdict) func(context.Context, mqidem.DeadLetters, func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
		return func(ctx context.Context, p mqidem.DeadLetters, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
			return p.Walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
				_, err := see(ctx, m)
				return v, err
			})
		}
	}
	for _, one := range []struct {
		name, clause string
		faults       faults
	}{
		{"a body is cut", "Q1", faults{receive: changed(func(m *mqidem.Message) { m.Body = m.Body[:len(m.Body)/2] })}},
		{"a header is dropped", "Q1", faults{receive: changed(func(m *mqidem.Message) { delete(m.Headers, "empty") })}},
		{"the key is dropped", "Q1", faults{receive: changed(func(m *mqidem.Message) { m.Key = "" })}},
		{"nothing is counted", "Q4", faults{receive: changed(func(m *mqidem.Message) { m.Deliveries = 1 })}},
		{"an ack is forgotten", "Q2", faults{ack: func(context.Context, mqidem.Delivery) error { return nil }}},
		{"an ack is of the next message too", "Q2", faults{receive: func(ctx context.Context, s mqidem.Source) (mqidem.Delivery, error) {
			d, err := s.Receive(ctx)
			if err == nil && string(d.Message().Body) == "held" {
				_ = d.Ack(ctx)
			}
			return d, err
		}}},
		{"acked when it is delivered", "Q3", faults{receive: func(ctx context.Context, s mqidem.Source) (mqidem.Delivery, error) {
			d, err := s.Receive(ctx)
			if err == nil {
				err = d.Ack(ctx)
			}
			return d, err
		}}},
		{"a later try comes at once", "Q4", faults{retry: func(ctx context.Context, d mqidem.Delivery, _ time.Duration) error { return d.Retry(ctx, 0) }}},
		{"a later try is waited for", "Q4", faults{retry: func(ctx context.Context, d mqidem.Delivery, after time.Duration) error {
			select {
			case <-time.After(after):
				return d.Retry(ctx, 0)
			case <-ctx.Done():
				return ctx.Err()
			}
		}}},
		{"a later try never comes", "Q4", faults{retry: func(ctx context.Context, d mqidem.Delivery, _ time.Duration) error { return d.Ack(ctx) }}},
		{"dead ones are dropped", "Q5", faults{dead: func(ctx context.Context, d mqidem.Delivery, _ mqidem.Reason) error { return d.Ack(ctx) }}},
		{"dead ones stay in the queue", "Q5", faults{dead: func(ctx context.Context, d mqidem.Delivery, _ mqidem.Reason) error {
			return d.Retry(ctx, 0)
		}}},
		{"the reason is another", "Q5", faults{dead: func(ctx context.Context, d mqidem.Delivery, why mqidem.Reason) error {
			why.Tries++
			return d.Dead(ctx, why)
		}}},
		{"a walk removes all", "Q6", faults{walk: all(mqidem.Remove)}},
		{"a walk removes nothing", "Q6", faults{walk: all(mqidem.Keep)}},
		{"an error of see is dropped", "Q6", faults{walk: func(ctx context.Context, p mqidem.DeadLetters, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
			_ = p.Walk(ctx, see)
			return nil
		}}},
		{"a message is lost with its call", "Q7", faults{receive: func(ctx context.Context, s mqidem.Source) (mqidem.Delivery, error) {
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Millisecond)
			defer cancel()
			d, err := s.Receive(late)
			if ctx.Err() != nil {
				if err == nil {
					_ = d.Ack(late)
				}
				return nil, ctx.Err()
			}
			return d, err
		}}},
		{"close does nothing", "Q8", faults{close: func(mqtest.Source) error { return nil }}},
		{"one message for two", "Q9", faults{receive: twice()}},
		{"settled twice", "Q10", faults{ack: func(ctx context.Context, d mqidem.Delivery) error {
			if err := d.Ack(ctx); !errors.Is(err, mqidem.ErrSettled) {
				return err
			}
			return nil
		}}},
		{"repeats are dropped", "Q11", faults{send: once()}},
		{"large ones are cut", "Q12", faults{send: func(ctx context.Context, p mqidem.DeadLetters, m *mqidem.Message) error {
			m.ID = m.ID[:min(len(m.ID), 255)]
			return p.Send(ctx, m)
		}}},
		{"an id is made up", "Q13", faults{send: func(ctx context.Context, p mqidem.DeadLetters, m *mqidem.Message) error {
			if m.ID == "" {
				m.ID = "made up"
			}
			return p.Send(ctx, m)
		}}},
		{"the largest cannot become a dead letter", "Q14", faults{dead: func(ctx context.Context, d mqidem.Delivery, why mqidem.Reason) error {
			if len(why.Error) > 500 {
				return errors.New("too large")
			}
			return d.Dead(ctx, why)
		}}},
		{"the largest is cut in silence", "Q14", faults{walk: func(ctx context.Context, p mqidem.DeadLetters, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
			return p.Walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
				m.Message.Body = m.Message.Body[:1]
				return see(ctx, m)
			})
		}}},
		{"history comes again", "Q15", faults{history: true}},
		{"a dropped message leaves no trace", "Q16", faults{drops: true}},
	} {
		t.Run(one.clause+"/"+one.name, func(t *testing.T) {
			t.Parallel()
			c := mqtest.Config{Queue: func(testing.TB) mqtest.Queue { return queue(memqueue.New(), &one.faults) }, Patience: time.Second, Delay: 100 * time.Millisecond}
			err := mqtest.Check(t, c, one.clause)
			assert.True(t, err != nil, "%s finds the fault", one.clause)
			t.Log(err)
		})
	}
}

func queue(b *memqueue.Broker, f *faults) mqtest.Queue {
	log := &keeping{Broker: b}
	q := mqtest.Queue{
		Topic: "q", Publisher: log, DeadLetters: brokenDeadLetters{b.DeadLetters("q"), f},
		Open: func(testing.TB) mqtest.Source { return brokenSource{b.Open("q"), f} },
	}
	if f.history {
		q.LosePlace = func(tb testing.TB) {
			tb.Helper()
			assert.NoError(tb, errors.Join(b.Publish(tb.Context(), log.sent)...), "publish again")
		}
	}
	if f.drops {
		q.Trim = func(tb testing.TB) {
			tb.Helper()
			s := b.Open("q")
			d, err := s.Receive(tb.Context())
			assert.NoError(tb, err, "Receive")
			assert.NoError(tb, errors.Join(d.Ack(tb.Context()), s.Close()), "Ack and Close")
		}
	}
	return q
}

// keeping keeps what was published, as a log does.
type keeping struct {
	*memqueue.Broker
	sent []outbox.Outgoing
}

func (k *keeping) Publish(ctx context.Context, batch []outbox.Outgoing) []error {
	k.sent = append(k.sent, batch...)
	return k.Broker.Publish(ctx, batch)
}

// twice delivers each message a second time.
func twice() func(context.Context, mqidem.Source) (mqidem.Delivery, error) {
	again := make(chan mqidem.Delivery, 1000)
	return func(ctx context.Context, s mqidem.Source) (mqidem.Delivery, error) {
		select {
		case d := <-again:
			return copied{d}, nil
		default:
		}
		d, err := s.Receive(ctx)
		if err == nil {
			again <- d
		}
		return d, err
	}
}

// copied acks nothing: its Ack belongs to another delivery.
type copied struct{ mqidem.Delivery }

func (copied) Ack(context.Context) error { return nil }

// once drops a message that was sent before.
func once() func(context.Context, mqidem.DeadLetters, *mqidem.Message) error {
	seen := map[string]bool{}
	return func(ctx context.Context, p mqidem.DeadLetters, m *mqidem.Message) error {
		if seen[m.ID] {
			return nil
		}
		seen[m.ID] = true
		return p.Send(ctx, m)
	}
}
