package natsidem_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// shortAckWait is an AckWait that a test can wait for.
func shortAckWait(o *natsidem.Options, _ *jetstream.StreamConfig) { o.AckWait = 10 * time.Second }

// A message that is held for several times AckWait goes to no other consumer, also one that is only
// ready.
func TestSlowConsumerIsNotRobbed(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), func(o *natsidem.Options, c *jetstream.StreamConfig) { shortAckWait(o, c); o.Prefetch = 1 })
	q.publish(t, "1", "2")
	slow := q.open(t)
	d := receive(t, slow, "1")
	q.o.Prefetch = -1
	other := q.open(t)
	expectNothing(t, other, 12*time.Second)
	assert.NoError(t, d.Ack(t.Context()), "Ack")
	second := receive(t, slow, "2")
	assert.Equal(t, second.Message().Deliveries, 1, "deliveries of the one that lay ready")
	assert.NoError(t, second.Ack(t.Context()), "Ack")
	expectNothing(t, other, 50*time.Millisecond)
}

// After AckWait another consumer receives what a dead consumer had, marked as delivered before.
func TestStoppedConsumer(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), shortAckWait)
	q.publish(t, "1")
	js := connect(t, sharedServer(t).addr())
	dies := q.openOn(t, js)
	late := receive(t, dies, "1")
	js.Conn().Close() // it sends nothing more
	_, err := dies.Receive(t.Context())
	assert.ErrorIs(t, err, mqidem.ErrSourceClosed, "Receive on a closed connection")
	assert.ErrorIs(t, late.Ack(t.Context()), mqidem.ErrStale, "Ack on a closed connection")
	d := receive(t, q.open(t), "1")
	assert.Equal(t, d.Message().Deliveries, 2, "deliveries")
	assert.NoError(t, d.Ack(t.Context()), "Ack")
}

// A lost connection is not an error: Receive continues, and each way to settle a delivery works.
func TestConnectionCut(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), func(o *natsidem.Options, _ *jetstream.StreamConfig) { o.AckWait = time.Minute })
	p := startProxy(t, sharedServer(t).addr())
	s := q.openOn(t, connect(t, p.Addr))
	q.publish(t, "acked", "again", "dead")
	acked, again, dead := receive(t, s, "acked"), receive(t, s, "again"), receive(t, s, "dead")
	next := make(chan mqidem.Delivery, 1)
	go func() {
		d, _ := s.Receive(t.Context())
		next <- d
	}()
	p.Cut()
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, acked.Ack(soon), context.DeadlineExceeded, "Ack without a connection")
	p.Mend()
	q.publish(t, "behind")
	d := <-next
	assert.True(t, d != nil && d.Message().ID == "behind", "a Receive that waited gets what came behind the cut")
	assert.NoError(t, d.Ack(t.Context()), "Ack")
	assert.NoError(t, acked.Ack(t.Context()), "Ack, again")
	assert.NoError(t, again.Retry(t.Context(), 100*time.Millisecond), "Retry")
	assert.NoError(t, dead.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
	assert.NoError(t, receive(t, s, "again").Ack(t.Context()), "Ack of the later try")
	assert.Equal(t, len(deadOf(t, q)), 1, "dead letters")
	info, err := q.consumer(t).Info(t.Context())
	assert.NoError(t, err, "look at the consumer")
	assert.Equal(t, info.NumAckPending, 0, "messages that are not settled")
}

// While the server does not answer, nothing is lost, and calls end with their contexts.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), func(o *natsidem.Options, _ *jetstream.StreamConfig) {
		o.AckWait, o.Timeout = 10*time.Minute, time.Hour
	})
	p := startProxy(t, sharedServer(t).addr())
	js := connect(t, p.Addr)
	s := q.openOn(t, js)
	pub, err := natsidem.NewPublisher(js, &natsidem.PublisherOptions{Timeout: time.Hour})
	assert.NoError(t, err, "publisher")
	defer pub.Close()
	q.publish(t, "1")
	d := receive(t, s, "1")
	p.Stall()
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	errs := pub.Publish(soon, []outbox.Outgoing{{Message: outbox.Message{ID: "2", Topic: q.subject}}})
	assert.ErrorIs(t, errs[0], context.DeadlineExceeded, "Publish")
	assert.Contains(t, errs[0].Error(), "the broker is not available", "Publish")
	soon, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, d.Retry(soon, 0), context.DeadlineExceeded, "Retry")
	assert.True(t, time.Since(began) < 5*time.Minute, "calls end with their context, and took %v", time.Since(began))
	p.Flow()
	ids := map[string]bool{}
	for range 2 { // the Retry has arrived after all
		d, err := s.Receive(t.Context())
		assert.NoError(t, err, "Receive")
		ids[d.Message().ID] = true
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
	assert.Equal(t, ids, map[string]bool{"1": true, "2": true}, "messages")
}

// After a restart of the server on its files, sources continue, old deliveries can be settled, and
// later tries keep their time.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, nil)
	q := newQueue(t, srv.addr(), func(o *natsidem.Options, c *jetstream.StreamConfig) {
		o.AckWait, c.Storage = 10*time.Minute, jetstream.FileStorage
	})
	s := q.open(t)
	q.publish(t, "held", "later")
	held, later := receive(t, s, "held"), receive(t, s, "later")
	const after = 2 * time.Second
	asked := time.Now()
	assert.NoError(t, later.Retry(t.Context(), after), "Retry")
	next := make(chan string, 2)
	go func() {
		for range 2 {
			if d, err := s.Receive(t.Context()); err == nil {
				next <- d.Message().ID
				_ = d.Ack(t.Context())
			}
		}
	}()
	srv.stop()
	assert.ErrorIs(t, callWithin(t, 50*time.Millisecond, held.Ack), context.DeadlineExceeded, "Ack while the server is away")
	hasty, err := natsidem.NewPublisher(q.js, &natsidem.PublisherOptions{Timeout: 300 * time.Millisecond})
	assert.NoError(t, err, "publisher")
	defer hasty.Close()
	errs := hasty.Publish(t.Context(), []outbox.Outgoing{{Message: outbox.Message{ID: "x", Topic: q.subject}}})
	assert.Contains(t, errs[0].Error(), "the broker is not available", "Publish while the server is away")
	srv.start(t)
	assert.NoError(t, callWithin(t, 2*time.Minute, held.Ack), "Ack behind the restart")
	assert.NoError(t, q.js.Conn().FlushTimeout(2*time.Minute), "the publisher's connection comes back")
	q.publish(t, "behind")
	came := map[string]bool{}
	for range 2 { // a Receive waited for the first of them
		id := <-next
		if came[id] = true; id == "later" { // the server stores the time in whole seconds
			assert.True(t, time.Since(asked) > after-1100*time.Millisecond, "the later try waits over the restart, and came after %v", time.Since(asked))
		}
	}
	assert.Equal(t, came, map[string]bool{"behind": true, "later": true}, "what came behind the restart")
}

// A stream in memory is a new one after a restart, and numbers messages from one again. An old ack
// must not settle a message of the new one.
func TestStreamMadeAnew(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, nil)
	q := newQueue(t, srv.addr(), func(o *natsidem.Options, _ *jetstream.StreamConfig) { o.AckWait = time.Minute })
	old := q.open(t)
	q.publish(t, "old")
	d := receive(t, old, "old")
	srv.stop()
	srv.start(t)
	js := connect(t, srv.addr())
	assert.NoError(t, natsidem.Create(t.Context(), js, jetstream.StreamConfig{Subjects: []string{q.o.Stream + ".>"}, Storage: jetstream.MemoryStorage}, &q.o), "Create")
	_, err := js.Publish(t.Context(), q.subject, nil, jetstream.WithMsgID("new"))
	assert.NoError(t, err, "publish")
	fresh := q.openOn(t, js)
	mine := receive(t, fresh, "new")
	assert.ErrorIs(t, callWithin(t, 2*time.Minute, d.Ack), mqidem.ErrStale, "Ack of a delivery of the stream before")
	_, err = old.Receive(t.Context())
	assert.Contains(t, err.Error(), "made again", "Receive of a source of the stream before")
	info, err := q.consumerOn(t, js).Info(t.Context())
	assert.NoError(t, err, "look at the consumer")
	assert.Equal(t, info.NumAckPending, 1, "messages that are not settled")
	assert.NoError(t, mine.Ack(t.Context()), "Ack of the new one")
}

// If a consumer is deleted, its sources end: no message can arrive any more.
func TestConsumerDeleted(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), nil)
	s := q.open(t)
	q.publish(t, "1")
	d := receive(t, s, "1")
	ended := make(chan error, 1)
	go func() {
		_, err := s.Receive(t.Context())
		ended <- err
	}()
	for { // the Receive has sent its request
		info, err := q.consumer(t).Info(t.Context())
		assert.NoError(t, err, "look at the consumer")
		if info.NumWaiting > 0 {
			break
		}
	}
	assert.NoError(t, q.js.DeleteConsumer(t.Context(), q.o.Stream, q.o.Consumer), "delete")
	assert.Contains(t, (<-ended).Error(), "was deleted", "Receive")
	assert.ErrorIs(t, d.Ack(t.Context()), mqidem.ErrStale, "Ack")
}

// Close returns messages on their way to a source as well as those that it holds.
func TestCloseGivesBack(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), func(o *natsidem.Options, _ *jetstream.StreamConfig) { o.AckWait, o.Prefetch = time.Hour, 256 })
	const n = 300
	batch := make([]outbox.Outgoing, n)
	for i := range batch {
		batch[i] = outgoingMessage(q.subject, outbox.NewID(), 4<<10)
	}
	for _, err := range q.pub.Publish(t.Context(), batch) {
		assert.NoError(t, err, "publish")
	}
	for range 10 { // closed while messages arrive
		s := q.open(t)
		_, err := s.Receive(t.Context())
		assert.NoError(t, err, "Receive")
		assert.NoError(t, s.Close(), "Close")
	}
	s := q.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for i := range n {
		d, err := s.Receive(ctx)
		assert.NoError(t, err, "Receive of message %d of %d", i+1, n)
		assert.NoError(t, d.Ack(ctx), "Ack")
	}
}

// A source has few open requests at the server, however fast messages pass: MaxWaiting limits the
// requests of all sources together.
func TestFewRequests(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), func(o *natsidem.Options, _ *jetstream.StreamConfig) { o.Prefetch = 64 })
	s := q.open(t)
	for i := range 200 {
		id := fmt.Sprint(i)
		q.publish(t, id)
		assert.NoError(t, receive(t, s, id).Ack(t.Context()), "Ack")
		info, err := q.consumer(t).Info(t.Context())
		assert.NoError(t, err, "look at the consumer")
		assert.True(t, info.NumWaiting <= 8, "behind %d messages %d requests wait", i+1, info.NumWaiting)
	}
}

// Open refuses configurations that would lose messages.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), nil)
	for name, c := range map[string]jetstream.ConsumerConfig{
		"MaxDeliver 5":                    {AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 5},
		"its ack policy is not explicit":  {AckPolicy: jetstream.AckNonePolicy},
		"one ack would settle other mess": {AckPolicy: jetstream.AckAllPolicy},
		"it delivers headers only":        {AckPolicy: jetstream.AckExplicitPolicy, HeadersOnly: true},
		"it has a priority policy":        {AckPolicy: jetstream.AckExplicitPolicy, PriorityPolicy: jetstream.PriorityPolicyOverflow, PriorityGroups: []string{"a"}},
	} {
		c.Durable = strings.ReplaceAll(name, " ", "-")
		_, err := q.js.CreateConsumer(t.Context(), q.o.Stream, c)
		assert.NoError(t, err, "create")
		o := q.o
		o.Consumer = c.Durable
		_, err = natsidem.Open(t.Context(), q.js, &o)
		assert.Contains(t, err.Error(), name, "Open")
	}
	o := q.o
	o.Consumer = "nobody"
	_, err := natsidem.Open(t.Context(), q.js, &o)
	assert.Contains(t, err.Error(), "Create makes it", "Open without a consumer")
	o = q.o
	o.DeadStream = "nowhere"
	_, err = natsidem.Open(t.Context(), q.js, &o)
	assert.Contains(t, err.Error(), "dead letters nowhere; Create makes it", "Open without dead letters")
	o.DeadStream = o.Stream
	_, err = natsidem.Open(t.Context(), q.js, &o)
	assert.Contains(t, err.Error(), "does not fit", "Open with another stream for dead letters")
	for _, giveUp := range []nats.Option{nats.MaxReconnects(60), nats.NoReconnect()} {
		js := connect(t, sharedServer(t).addr(), giveUp)
		_, err = natsidem.Open(t.Context(), js, &q.o)
		assert.Contains(t, err.Error(), "nats.MaxReconnects(-1)", "Open on a connection that gives up")
		_, err = natsidem.NewPublisher(js, nil)
		assert.Contains(t, err.Error(), "nats.MaxReconnects(-1)", "NewPublisher on a connection that gives up")
	}
	for _, o := range []natsidem.Options{{Stream: "a"}, {Consumer: "a"}, {Stream: "a", Consumer: "b", AckWait: -1}, {Stream: "a", Consumer: "b", Prefetch: 1000}} {
		_, err = natsidem.Open(t.Context(), q.js, &o)
		assert.Contains(t, err.Error(), "natsidem: ", "Open with bad options")
	}
}

func TestHoldsFor(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		age       time.Duration
		retention jetstream.RetentionPolicy
		want      time.Duration
	}{
		{0, jetstream.LimitsPolicy, retrysafe.Forever},
		{72 * time.Hour, jetstream.LimitsPolicy, 72 * time.Hour},
		{0, jetstream.WorkQueuePolicy, 0},
		{72 * time.Hour, jetstream.WorkQueuePolicy, 72 * time.Hour},
		{0, jetstream.InterestPolicy, 0},
	} {
		q := newQueue(t, sharedServer(t).addr(), func(_ *natsidem.Options, c *jetstream.StreamConfig) { c.MaxAge, c.Retention = one.age, one.retention })
		got, err := q.open(t).HoldsFor(t.Context())
		assert.NoError(t, err, "HoldsFor")
		assert.Equal(t, got, one.want, "HoldsFor with MaxAge %v and retention %v", one.age, one.retention)
	}
}

// callWithin makes a call with its own context.
func callWithin(t *testing.T, d time.Duration, call func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return call(ctx)
}

func (q *queue) consumer(tb testing.TB) jetstream.Consumer {
	tb.Helper()
	return q.consumerOn(tb, q.js)
}

func (q *queue) consumerOn(tb testing.TB, js jetstream.JetStream) jetstream.Consumer {
	tb.Helper()
	c, err := js.Consumer(tb.Context(), q.o.Stream, q.o.Consumer)
	assert.NoError(tb, err, "the consumer")
	return c
}

// deadOf returns the dead letters.
func deadOf(tb testing.TB, q *queue) (found []*mqidem.DeadLetter) {
	tb.Helper()
	assert.NoError(tb, q.deadLetters(tb).Walk(tb.Context(), func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		found = append(found, p)
		return mqidem.Keep, nil
	}), "Walk")
	return found
}
