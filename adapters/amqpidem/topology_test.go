package amqpidem_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// TestOptions: invalid options are refused before anything is sent.
func TestOptions(t *testing.T) {
	t.Parallel()
	const url = "amqp://127.0.0.1:1"
	for want, c := range map[string]struct {
		queue string
		o     amqpidem.Options
	}{
		"is empty":                            {"", amqpidem.Options{}},
		"at most 241":                         {strings.Repeat("q", 242), amqpidem.Options{}},
		"Options.Prefetch is 65536":           {"q", amqpidem.Options{Prefetch: 65536}},
		"Options.Prefetch is -1":              {"q", amqpidem.Options{Prefetch: -1}},
		"Options.Delays is 1µs":               {"q", amqpidem.Options{Delays: []time.Duration{time.Microsecond}}},
		"Options.TTL is 1.5ms":                {"q", amqpidem.Options{TTL: 1500 * time.Microsecond}},
		"Options.DeliveryLimit is -1":         {"q", amqpidem.Options{DeliveryLimit: -1}},
		"Options.PublishTimeout is -1ns":      {"q", amqpidem.Options{PublishTimeout: -1}},
		"Options.Bindings without":            {"q", amqpidem.Options{Bindings: []string{"#"}}},
		"Options.Exchange has 256":            {"q", amqpidem.Options{Exchange: strings.Repeat("x", 256)}},
		"no connection to RabbitMQ; nothing ": {"q", amqpidem.Options{}},
	} {
		err := amqpidem.Declare(t.Context(), url, c.queue, &c.o)
		assert.True(t, err != nil, "an error with %q", want)
		assert.Contains(t, err.Error(), want, "the error")
	}
	for _, url := range []string{"http://guest:geheim@127.0.0.1", "amqp://guest:gehe%im@127.0.0.1", "amqp://guest:gehe im@127.0.0.1", "amqp://guest:geheim@127.0.0.1:1"} {
		for name, err := range map[string]error{
			"Declare":         amqpidem.Declare(t.Context(), url, "q", nil),
			"Open":            second(amqpidem.Open(t.Context(), url, "q", nil)),
			"OpenDeadLetters": second(amqpidem.OpenDeadLetters(t.Context(), url, "q", nil)),
			"NewPublisher":    second(amqpidem.NewPublisher(t.Context(), url, nil)),
		} {
			assert.True(t, err != nil && !strings.Contains(err.Error(), "gehe"), "%s says what is wrong and not the password: %v", name, err)
		}
	}
}

func second[V any](_ V, err error) error { return err }

// TestDelays: a wait is rounded up to the next level, and cut to the largest. Each level has its
// own queue.
func TestDelays(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	s := open(t, url, queue, &amqpidem.Options{Delays: []time.Duration{time.Hour, time.Minute, time.Hour + time.Nanosecond}, Dialing: quietDialing()})
	out := publisher(t, url, nil)
	for after, level := range map[time.Duration]string{
		time.Nanosecond: ".delay.60000", time.Minute: ".delay.60000", time.Minute + 1: ".delay.3600000", time.Hour + 1: ".delay.3600001",
		24 * time.Hour: ".delay.3600001", 0: "", -1: "",
	} {
		before := queueDepth(t, url, queue+level)
		publish(t, out, queue, "m")
		d := receive(t, s)
		assert.NoError(t, d.Retry(t.Context(), after), "Retry")
		if level != "" {
			assert.Equal(t, queueDepth(t, url, queue+level), before+1, "messages of level %q behind a wait of %v", level, after)
			continue
		}
		d = receive(t, s)
		assert.Equal(t, d.Message().Deliveries, 2, "deliveries of what came at once")
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// TestOtherArguments: if a queue exists with other arguments, the error names it and says what to
// do. Nothing is changed.
func TestOtherArguments(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	o := &amqpidem.Options{Delays: short, Dialing: quietDialing()}
	assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, o), "Declare")
	assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, o), "Declare again")
	other := *o
	other.Quorum = true
	_, err := amqpidem.Open(t.Context(), url, queue, &other)
	assert.True(t, err != nil, "Open with other arguments fails")
	assert.Contains(t, err.Error(), `the queue "`+queue+`" exists with other arguments`, "the error")
	other.Passive = true
	open(t, url, queue, &other)
}

// TestMissing: the error names what is missing.
func TestMissing(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	_, err := amqpidem.Open(t.Context(), url, queue, &amqpidem.Options{Passive: true, Dialing: quietDialing()})
	assert.ErrorIs(t, err, amqpidem.ErrMissing, "Open of a missing queue")
	assert.Contains(t, err.Error(), `the queue "`+queue+`" does not exist`, "the error")
	_, err = amqpidem.OpenDeadLetters(t.Context(), url, queue, nil)
	assert.ErrorIs(t, err, amqpidem.ErrMissing, "OpenDeadLetters of a missing queue")
	assert.Contains(t, err.Error(), `the queue "`+queue+`.dead" does not exist`, "the error")
	_, err = amqpidem.NewPublisher(t.Context(), url, &amqpidem.PublisherOptions{Exchange: "nowhere"})
	assert.True(t, err != nil, "a publisher to a missing exchange fails")
	assert.Contains(t, err.Error(), `the exchange "nowhere" cannot be used`, "the error")
	for _, bad := range []string{strings.Replace(url, "guest:guest", "guest:geheim", 1), url + "x"} {
		_, err = amqpidem.NewPublisher(t.Context(), bad, nil)
		assert.True(t, err != nil && !strings.Contains(err.Error(), "geheim"), "a wrong password, or virtual host: %v", err)
		assert.Contains(t, err.Error(), "RabbitMQ refuses the connection", "the error")
		assert.True(t, !errors.Is(err, amqpidem.ErrDenied) && !errors.Is(err, amqpidem.ErrMissing), "it is not about a queue: %v", err)
	}
}

// TestPermissions: a consumer without the permission to declare works with Passive, and the error
// says what is forbidden.
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := rabbit(t)
	url, queue := s.vhost(t), uniqueQueue()
	o := &amqpidem.Options{Delays: short, Exchange: "events", Dialing: quietDialing()}
	assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, o), "Declare")
	consumer := s.user(t, url, "^$", `^amq\.default$`, "^"+queue)
	_, err := amqpidem.Open(t.Context(), consumer, queue, o)
	assert.ErrorIs(t, err, amqpidem.ErrDenied, "Open without the permission to configure")
	assert.Contains(t, err.Error(), `no permission for the queue "`+queue+`"`, "the error")
	passive := *o
	passive.Passive = true
	source := open(t, consumer, queue, &passive)

	producer := s.user(t, url, "^$", "^events$", "^$")
	_, err = amqpidem.Open(t.Context(), producer, queue, &passive)
	assert.ErrorIs(t, err, amqpidem.ErrDenied, "Open without the permission to read")
	assert.Contains(t, err.Error(), "no permission for the queue", "the error")
	publish(t, publisher(t, producer, &amqpidem.PublisherOptions{Exchange: "events"}), "order.made", "m")
	assert.NoError(t, receive(t, source).Retry(t.Context(), time.Millisecond), "Retry")
	assert.NoError(t, receive(t, source).Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")

	err = publisher(t, producer, nil).Publish(t.Context(), outgoing(queue, "m"))[0]
	assert.True(t, unavailable(err), "a publisher without the permission to write: %v", err)
	assert.Contains(t, err.Error(), "may not publish there", "the error")

	assert.NoError(t, source.Close(), "Close")
	reader := s.user(t, url, "^$", "^$", "^"+queue)
	publish(t, publisher(t, url, nil), queue, "m")
	d := receive(t, open(t, reader, queue, &passive))
	err = d.Retry(t.Context(), time.Millisecond)
	assert.True(t, err != nil, "Retry without the permission to write fails")
	assert.Contains(t, err.Error(), "may not publish there", "the error")
	assert.NoError(t, d.Ack(t.Context()), "the message is still in the consumer's hands: Ack")
}

// TestExchange: one message reaches the queues of several consumers, each by its bindings. A later
// try of one consumer reaches only that one.
func TestExchange(t *testing.T) {
	t.Parallel()
	url := rabbit(t).vhost(t)
	stock := open(t, url, "stock", &amqpidem.Options{Delays: short, Exchange: "orders", Bindings: []string{"order.*"}, Dialing: quietDialing()})
	points := open(t, url, "points", &amqpidem.Options{Delays: short, Exchange: "orders", Dialing: quietDialing()})
	out := publisher(t, url, &amqpidem.PublisherOptions{Exchange: "orders"})
	publish(t, out, "order.made", "both")
	publish(t, out, "user.made", "points only")
	d := receive(t, stock)
	assert.Equal(t, d.Message().Header(amqpidem.HeaderRoutingKey), "order.made", "the routing key")
	assert.Equal(t, d.Message().Source, "stock", "the source")
	assert.NoError(t, d.Retry(t.Context(), time.Millisecond), "Retry")
	d = receive(t, stock)
	assert.Equal(t, d.Message().Header(amqpidem.HeaderRoutingKey), "order.made", "the routing key of a later try")
	assert.NoError(t, d.Ack(t.Context()), "Ack")
	assert.Equal(t, len(drainQueue(t, url, "stock", stock)), 0, "more for one")
	assert.Equal(t, drainQueue(t, url, "points", points), map[string]int{"both": 1, "points only": 1}, "the other one")
}

// TestHoldsFor: the broker drops messages after the TTL. A copy may have waited for the longest
// delay before.
func TestHoldsFor(t *testing.T) {
	t.Parallel()
	url := rabbit(t).vhost(t)
	for queue, c := range map[string]struct{ ttl, want time.Duration }{"none": {0, 0}, "some": {time.Hour, time.Hour + time.Minute}} {
		s := open(t, url, queue, &amqpidem.Options{TTL: c.ttl, Delays: short, Dialing: quietDialing()})
		got, err := s.HoldsFor(t.Context())
		assert.NoError(t, err, "HoldsFor")
		assert.Equal(t, got, c.want, "HoldsFor with TTL %v", c.ttl)
	}
}

// TestBrokerDeadLetters: the broker dead-letters messages that stay too long in the queue, and
// those that quorum queues have delivered too often, and says why. They can be redriven and tried
// later again and again: the broker does not treat that as a cycle.
func TestBrokerDeadLetters(t *testing.T) {
	t.Parallel()
	url := rabbit(t).vhost(t)
	for _, quorum := range []bool{false, true} {
		queue := uniqueQueue()
		o := &amqpidem.Options{Quorum: quorum, Delays: short, TTL: 10 * time.Second, Dialing: quietDialing()}
		assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, o), "Declare")
		publish(t, publisher(t, url, nil), queue, "late")
		eventually(t, "it is a dead letter", func() bool { return queueDepth(t, url, queue+".dead") == 1 })
		p := deadLetters(t, url, queue)
		found := listDead(t, p)
		assert.Equal(t, found[0].Reason.Why, mqidem.DeadUnreadable, "why")
		assert.Contains(t, found[0].Reason.Error, "TTL", "the reason")
		assert.True(t, time.Since(found[0].Reason.At) < 10*time.Minute, "when: %v", found[0].Reason.At)
		assert.Equal(t, found[0].Message.Source, queue, "the source")
		s := open(t, url, queue, o)
		assert.NoError(t, p.Send(t.Context(), found[0].Message), "Send")
		for n := 1; n <= 4; n++ {
			d := receive(t, s)
			assert.True(t, d.Message().ID == "late" && d.Message().Deliveries == n, "delivery %d: %d", n, d.Message().Deliveries)
			assert.NoError(t, d.Retry(t.Context(), time.Millisecond), "Retry")
		}
		assert.NoError(t, receive(t, s).Ack(t.Context()), "Ack")
	}
}

// TestDeliveryLimit: a quorum queue dead-letters a message whose consumers die.
func TestDeliveryLimit(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	o := &amqpidem.Options{Quorum: true, DeliveryLimit: 2, Delays: short, Dialing: quietDialing()}
	assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, o), "Declare")
	publish(t, publisher(t, url, nil), queue, "deadly")
	for n := 1; n <= 3; n++ {
		s := open(t, url, queue, o)
		assert.Equal(t, receive(t, s).Message().Deliveries, n, "deliveries")
		assert.NoError(t, s.Close(), "Close")
	}
	eventually(t, "it is a dead letter", func() bool { return queueDepth(t, url, queue+".dead") == 1 })
	found := listDead(t, deadLetters(t, url, queue))
	assert.Equal(t, found[0].Reason.Why, mqidem.DeadTries, "why")
	assert.Contains(t, found[0].Reason.Error, "x-delivery-limit", "the reason")
}

// TestArguments: the arguments of the queues.
func TestArguments(t *testing.T) {
	t.Parallel()
	url := rabbit(t).vhost(t)
	assert.NoError(t, amqpidem.Declare(t.Context(), url, "q", &amqpidem.Options{Quorum: true, TTL: time.Hour, Delays: []time.Duration{time.Second}}), "Declare")
	again := func(queue string, args amqp.Table) {
		_, err := rawChannel(t, url).QueueDeclare(queue, true, false, false, false, args)
		assert.NoError(t, err, "the same arguments for %s", queue)
	}
	again("q", amqp.Table{
		"x-queue-type": "quorum", "x-delivery-limit": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q.dead",
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-message-ttl": 3600000,
	})
	again("q.delay.1000", amqp.Table{
		"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-dead-letter-strategy": "at-least-once",
		"x-overflow": "reject-publish", "x-message-ttl": 1000,
	})
	again("q.dead", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 1<<31 - 1})
}
