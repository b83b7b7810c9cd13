package amqpidem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// place is a queue that is reached through a proxy.
type place struct {
	url, cut string // direct, and through the proxy
	queue    string
	*proxy
}

func behindProxy(t *testing.T) *place {
	t.Helper()
	s := rabbit(t)
	p := &place{url: s.vhost(t), queue: uniqueQueue(), proxy: startProxy(t, s.addr)}
	p.cut = urlThrough(p.url, p.Addr)
	assert.NoError(t, amqpidem.Declare(t.Context(), p.url, p.queue, p.options()), "Declare")
	return p
}

func (p *place) options() *amqpidem.Options {
	return &amqpidem.Options{Delays: short, Dialing: quietDialing()}
}

func (p *place) open(t *testing.T) *amqpidem.Source {
	t.Helper()
	return open(t, p.cut, p.queue, p.options())
}

// breakAll cuts all connections, calls meanwhile, and then accepts new ones.
func (p *place) breakAll(meanwhile func()) {
	p.proxy.Cut()
	meanwhile()
	p.Mend()
}

// unavailable reports whether an error is marked as outbox.Unavailable.
func unavailable(err error) bool {
	return isMarked(err, outbox.Unavailable)
}

func isPermanent(err error) bool {
	return isMarked(err, outbox.Permanent)
}

func isMarked(err error, mark func(error) error) bool {
	cause := errors.Unwrap(err)
	return cause != nil && err.Error() == mark(cause).Error()
}

// TestPublishCut: the outcome of a message whose connection broke is unknown. The relay gets an
// error that says that the broker is unavailable, and the next call reconnects.
func TestPublishCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		at     method
		fate   fate
		copies int // after a second publication
	}{
		{"the message is lost", publishes, lose, 1},
		{"the confirm is lost", confirms, lose, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, oneByOne := range []bool{false, true} {
				p := behindProxy(t)
				out := publisher(t, p.cut, &amqpidem.PublisherOptions{OneByOne: oneByOne})
				p.onMethod(c.at, c.fate)
				err := out.Publish(t.Context(), outgoing(p.queue, "m"))[0]
				assert.True(t, unavailable(err), "a relay may publish again: %v", err)
				publish(t, out, p.queue, "m")
				assert.Equal(t, queueDepth(t, p.url, p.queue), c.copies, "messages in the queue")
			}
		})
	}
}

// TestPublishUnconfirmed: a broker that does not answer or does not read blocks no caller for
// longer than the timeout or past the end of its context. A publication of the same message waits
// for the one before it, and fails if that one's outcome stays unknown.
func TestPublishUnconfirmed(t *testing.T) {
	t.Parallel()
	p := behindProxy(t)
	const timeout = 10 * time.Second
	out := publisher(t, p.cut, &amqpidem.PublisherOptions{Timeout: timeout})
	p.onMethod(confirms, swallow)
	batch := outgoing(p.queue, "m")
	began := time.Now()
	err := out.Publish(t.Context(), batch)[0]
	assert.True(t, unavailable(err) && time.Since(began) >= timeout, "no confirm: %v", err)
	assert.Contains(t, err.Error(), "outcome is unknown", "the error")
	err = out.Publish(t.Context(), batch)[0]
	assert.True(t, unavailable(err), "the same message again: %v", err)
	assert.Contains(t, err.Error(), "was not published again", "the error")
	publish(t, out, p.queue, "other")
	assert.Equal(t, queueDepth(t, p.url, p.queue), 2, "messages in the queue")

	p.Stall()
	big := outgoing(p.queue, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	for i := range big {
		big[i].Payload = make([]byte, maxMessage) // the buffers of the connection do not hold it
	}
	errs := out.Publish(t.Context(), big)
	for i, err := range errs {
		assert.True(t, unavailable(err), "message %d, which nobody reads: %v", i, err)
	}
	p.Flow()
	publish(t, out, p.queue, "at last")

	patient := publisher(t, p.cut, &amqpidem.PublisherOptions{Timeout: time.Hour})
	p.setHook(func(m method, _ int) fate { // others may be confirmed after the stall
		if m == confirms {
			return swallow
		}
		return pass
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- patient.Publish(ctx, outgoing(p.queue, "left"))[0] }()
	eventually(t, "the confirm is swallowed", func() bool { return p.methodCount(confirms) > 0 })
	cancel()
	err = <-ended
	assert.True(t, unavailable(err) && errors.Is(err, context.Canceled), "the context has ended: %v", err)
}

// TestStaleAck: a delivery of a lost connection is never settled on another one, whose tags start
// again.
func TestStaleAck(t *testing.T) {
	t.Parallel()
	p := behindProxy(t)
	s := p.open(t)
	publish(t, publisher(t, p.url, nil), p.queue, "old", "new")
	old := receive(t, s)
	p.breakAll(func() {
		ch := rawChannel(t, p.url)
		eventually(t, "the messages are back", func() bool { return queueDepth(t, p.url, p.queue) == 2 })
		d, ok, err := ch.Get(p.queue, true)
		assert.True(t, ok && err == nil && string(d.Body) == "old", "take the old one away")
	})
	fresh := receive(t, s)
	assert.Equal(t, fresh.Message().ID, "new", "it is the first one by its connection, as the old one was")
	assert.ErrorIs(t, old.Ack(t.Context()), mqidem.ErrStale, "Ack")
	assert.ErrorIs(t, old.Retry(t.Context(), time.Millisecond), mqidem.ErrStale, "Retry")
	assert.ErrorIs(t, old.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), mqidem.ErrStale, "Dead")
	assert.NoError(t, s.Close(), "Close")
	assert.Equal(t, drainQueue(t, p.url, p.queue, open(t, p.url, p.queue, p.options())), map[string]int{"new": 1}, "what is left")
	assert.Equal(t, len(listDead(t, deadLetters(t, p.url, p.queue))), 0, "dead letters")
}

// TestSettleCut: wherever the connection breaks, the message still exists, as the error says.
func TestSettleCut(t *testing.T) {
	t.Parallel()
	retry := func(ctx context.Context, d mqidem.Delivery) error { return d.Retry(ctx, time.Millisecond) }
	dead := func(ctx context.Context, d mqidem.Delivery) error {
		return d.Dead(ctx, mqidem.Reason{Why: mqidem.DeadPoison, Source: d.Message().Source})
	}
	ack := func(ctx context.Context, d mqidem.Delivery) error { return d.Ack(ctx) }
	for _, c := range []struct {
		name         string
		settle       func(context.Context, mqidem.Delivery) error
		at           method
		fails        bool // then it is done a second time
		copies, dead int
	}{
		{"the ack is lost", ack, acks, false, 1, 0},
		{"a later try is lost", retry, publishes, true, 1, 0},
		{"the confirm of a later try is lost", retry, confirms, true, 2, 0},
		{"the ack behind a later try is lost", retry, acks, false, 2, 0},
		{"a dead one is lost", dead, publishes, true, 0, 1},
		{"the confirm of a dead one is lost", dead, confirms, true, 0, 2},
		{"the ack behind a dead one is lost", dead, acks, false, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := behindProxy(t)
			s := p.open(t)
			publish(t, publisher(t, p.url, nil), p.queue, "m")
			d := receive(t, s)
			p.onMethod(c.at, lose)
			err := c.settle(t.Context(), d)
			assert.Equal(t, err != nil, c.fails, "the first time: %v", err)
			if c.fails {
				assert.NoError(t, c.settle(t.Context(), d), "the second time")
				assert.ErrorIs(t, c.settle(t.Context(), d), mqidem.ErrSettled, "the third time")
			}
			if c.at == acks { // it cuts the consumer's connection, which may still deliver copies
				eventually(t, "the source consumes again", func() bool { return p.methodCount(consumes) > 0 })
			}
			for range c.copies {
				d := receive(t, s)
				assert.True(t, d.Message().ID == "m" && d.Message().Deliveries >= 2, "it came again, and says so: %d", d.Message().Deliveries)
				assert.NoError(t, d.Ack(t.Context()), "Ack")
			}
			assert.Equal(t, len(drainQueue(t, p.url, p.queue, s)), 0, "more copies")
			assert.Equal(t, len(listDead(t, deadLetters(t, p.url, p.queue))), c.dead, "dead letters")
		})
	}
}

// TestReconnect: while the broker is down there is no tight loop, and Receive continues when it is
// back.
func TestReconnect(t *testing.T) {
	t.Parallel()
	p := behindProxy(t)
	s := p.open(t)
	began, before := time.Now(), p.Connections()
	p.breakAll(func() { eventually(t, "five attempts", func() bool { return p.Connections() >= before+5 }) })
	assert.True(t, time.Since(began) > 5*time.Millisecond, "five attempts take their time: %v", time.Since(began))
	publish(t, publisher(t, p.url, nil), p.queue, "m")
	assert.NoError(t, receive(t, s).Ack(t.Context()), "Ack")
}

// TestSilentBroker: heartbeats detect a silent connection, and the source replaces it.
func TestSilentBroker(t *testing.T) {
	t.Parallel()
	p := behindProxy(t)
	s := open(t, p.cut+"?heartbeat=1", p.queue, p.options())
	before := p.Connections()
	p.Stall()
	eventually(t, "another connection", func() bool { return p.Connections() > before })
	p.Flow()
	publish(t, publisher(t, p.url, nil), p.queue, "m")
	eventually(t, "Ack", func() bool { // a slow machine loses the connection in between
		err := receive(t, s).Ack(t.Context())
		assert.True(t, err == nil || errors.Is(err, mqidem.ErrStale), "Ack: %v", err)
		return err == nil
	})
}

// TestQueueDeleted: the broker cancels the consumer; the source declares the queue again.
func TestQueueDeleted(t *testing.T) {
	t.Parallel()
	p := behindProxy(t)
	s := p.open(t)
	out := publisher(t, p.url, nil)
	publish(t, out, p.queue, "gone")
	d := receive(t, s)
	p.setHook(nil)
	_, err := rawChannel(t, p.url).QueueDelete(p.queue, false, false, false)
	assert.NoError(t, err, "delete the queue")
	eventually(t, "the queue is declared again, and reached", func() bool { return out.Publish(t.Context(), outgoing(p.queue, "m"))[0] == nil })
	assert.Equal(t, receive(t, s).Message().ID, "m", "the message")
	assert.ErrorIs(t, d.Ack(t.Context()), mqidem.ErrStale, "an ack of what went with the queue")
}

// TestCloseSilent: Close ends all waits, also if the broker does not answer.
func TestCloseSilent(t *testing.T) {
	t.Parallel()
	p := behindProxy(t)
	s := p.open(t)
	publish(t, publisher(t, p.url, nil), p.queue, "m")
	d := receive(t, s)
	p.Stall()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Receive(context.Background())
		ended <- err
	}()
	began := time.Now()
	assert.NoError(t, s.Close(), "Close")
	assert.True(t, time.Since(began) < 5*time.Minute, "Close takes some seconds: %v", time.Since(began))
	assert.ErrorIs(t, <-ended, mqidem.ErrSourceClosed, "Receive")
	assert.ErrorIs(t, d.Ack(t.Context()), mqidem.ErrStale, "Ack")
}

// TestLeft: a delivery that its consumer has abandoned after a failed Retry is redelivered by
// itself. Otherwise such deliveries could in the end be all that the consumer may hold.
func TestLeft(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	s := open(t, url, queue, &amqpidem.Options{Prefetch: 1, Delays: short, PublishTimeout: 5 * time.Second, Dialing: quietDialing()})
	publish(t, publisher(t, url, nil), queue, "m")
	ch := rawChannel(t, url)
	_, err := ch.QueueDelete(queue+".delay.60000", false, false, false)
	assert.NoError(t, err, "delete a queue")
	left := receive(t, s)
	began := time.Now()
	assert.True(t, left.Retry(t.Context(), time.Minute) != nil, "Retry fails")
	d := receive(t, s)
	assert.True(t, time.Since(began) >= 15*time.Second, "it has time to be tried again: %v", time.Since(began))
	assert.True(t, d.Message().ID == "m" && d.Message().Deliveries == 2, "it came again: %d", d.Message().Deliveries)
	assert.ErrorIs(t, left.Ack(t.Context()), mqidem.ErrStale, "Ack of what was given back")

	assert.True(t, d.Retry(t.Context(), time.Minute) != nil, "Retry fails")
	assert.NoError(t, d.Retry(t.Context(), 300*time.Millisecond), "another one passes")
	d = receive(t, s)
	assert.NoError(t, d.Ack(t.Context()), "Ack")
	assert.Equal(t, len(drainQueue(t, url, queue, s)), 0, "more of it")
}
