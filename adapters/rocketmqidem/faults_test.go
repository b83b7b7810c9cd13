package rocketmqidem_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/rocketmqidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// effects counts what handlers do.
type effects struct {
	mu sync.Mutex
	of map[string]int
}

func (e *effects) add(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[string]int{}
	}
	e.of[id]++
}

// times returns how often a message was done.
func (e *effects) times(id string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of[id]
}

// checkOnce checks that each message was done once.
func (e *effects) checkOnce(tb testing.TB) {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, n := range e.of {
		assert.Equal(tb, n, 1, "effects of %s", id)
	}
}

func (e *effects) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.of)
}

func newEngine(tb testing.TB) *retrysafe.Engine {
	tb.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Secret: []byte("a secret of tests"), Logger: quiet})
	tb.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

var forever = retrysafe.WithPolicy(retrysafe.Policy{Retention: retrysafe.Forever})

// consume runs a consumer until the returned function is called.
func consume(tb testing.TB, s mqidem.Source, h mqidem.Handler, o mqidem.Options) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	var ended sync.WaitGroup
	o.Logger = quiet
	ended.Go(func() {
		if err := mqidem.Consume(ctx, s, h, &o); err != nil {
			tb.Errorf("Consume: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		ended.Wait()
	})
	tb.Cleanup(stop)
	return stop
}

// The broker is killed while a consumer holds messages, and again right after everything was acked,
// when it has not stored the offsets. Nothing is lost, and nothing is done twice.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	r := servertest.StartRocketMQ(t)
	q := newQueue(t, r, nil)
	s := q.openSource(t)
	q.publish(t, "held", "next")
	held := receive(t, s, "held")
	assert.NoError(t, receive(t, s, "next").Ack(t.Context()), "Ack")
	r.Kill()
	err := held.Retry(shortly(t), time.Second)
	assert.True(t, err != nil && !errors.Is(err, mqidem.ErrSettled), "Retry without a broker: %v", err)
	err = held.Dead(shortly(t), mqidem.Reason{Why: mqidem.DeadTries})
	assert.True(t, err != nil, "Dead without a broker")
	for _, err := range q.pub.Publish(shortly(t), outgoing(q.o.Topic, "lost?")) {
		assert.Contains(t, err.Error(), "the broker is not available", "Publish without a broker")
	}
	r.Restart(t)
	assert.NoError(t, held.Ack(t.Context()), "Ack of what was held")
	eventually(t, "messages are published again", func() bool { return q.pub.Publish(t.Context(), outgoing(q.o.Topic, "after"))[0] == nil })
	e, done := newEngine(t), new(effects)
	h := mqidem.Once(e, "stock", func(_ context.Context, m *mqidem.Message) error { done.add(m.ID); return nil }, forever)
	stop := consume(t, s, h, mqidem.Options{})
	eventually(t, "the message comes after the broker does", func() bool { return done.times("after") > 0 })
	const n = 50
	for i := range n {
		q.publish(t, fmt.Sprint(i))
	}
	eventually(t, "all are done", func() bool { return done.count() >= n+1 })
	stop()
	assert.NoError(t, s.Close(), "Close")
	r.Kill()
	r.Restart(t)
	stop = consume(t, q.openSource(t), h, mqidem.Options{})
	eventually(t, "messages are published again", func() bool { return q.pub.Publish(t.Context(), outgoing(q.o.Topic, "last"))[0] == nil })
	eventually(t, "the last one is done", func() bool { return done.times("last") > 0 })
	stop()
	done.checkOnce(t)
}

// shortly returns a context for a call that cannot succeed.
func shortly(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Second)
	tb.Cleanup(cancel)
	return ctx
}

// Consumers come and go while messages are in work. Each message is done once.
func TestConsumersComeAndGo(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedBroker(t), func(_ *rocketmqidem.Options, to *rocketmqidem.TopicOptions) { to.Queues = 4 })
	const n = 400
	e, done := newEngine(t), new(effects)
	h := mqidem.Once(e, "stock", func(ctx context.Context, m *mqidem.Message) error {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		done.add(m.ID)
		return nil
	}, retrysafe.WithPolicy(retrysafe.Policy{Retention: retrysafe.Forever, OnDoubt: retrysafe.Reexecute}))
	publish := make(chan struct{})
	go func() {
		defer close(publish)
		for i := range n {
			for q.pub.Publish(t.Context(), outgoing(q.o.Topic, fmt.Sprint(i)))[0] != nil && t.Context().Err() == nil {
				continue
			}
		}
	}()
	first := q.openSource(t)
	consume(t, first, h, mqidem.Options{Concurrency: 4})
	for range 3 {
		s, err := rocketmqidem.Open(t.Context(), q.servers, &q.o)
		assert.NoError(t, err, "Open")
		stop := consume(t, s, h, mqidem.Options{Concurrency: 4})
		before := done.count()
		eventually(t, "some more are done", func() bool { return done.count() >= min(before+40, n) })
		stop()
		assert.NoError(t, s.Close(), "Close")
	}
	<-publish
	eventually(t, "all are done", func() bool { return done.count() == n })
	done.checkOnce(t)
}

// A message that always fails is a dead letter after its tries. A redrive brings it back, and it is
// done then.
func TestTriesEnd(t *testing.T) {
	t.Parallel()
	for name, ordered := range map[string]bool{"ordered": true, "unordered": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, sharedBroker(t), func(o *rocketmqidem.Options, _ *rocketmqidem.TopicOptions) { o.Ordered = ordered })
			e, done, broken := newEngine(t), new(effects), true
			var mu sync.Mutex
			tries := 0
			h := mqidem.Once(e, "stock", func(_ context.Context, m *mqidem.Message) error {
				mu.Lock()
				defer mu.Unlock()
				if m.ID == "bad" && broken {
					tries++
					return retrysafe.NothingDone(errors.New("out of stock"))
				}
				done.add(m.ID)
				return nil
			}, forever)
			consume(t, q.openSource(t), h, mqidem.Options{MaxAttempts: 3, Backoff: mqidem.Fixed(100 * time.Millisecond)})
			q.publish(t, "bad", "good")
			eventually(t, "it is a dead letter", func() bool { return len(q.listDead(t)) == 1 })
			eventually(t, "the other is done", func() bool { return done.count() == 1 })
			mu.Lock()
			assert.Equal(t, tries, 3, "tries")
			broken = false
			mu.Unlock()
			p := q.listDead(t)[0]
			assert.True(t, p.Reason.Why == mqidem.DeadTries && p.Reason.Tries == 3, "the reason: %+v", p.Reason)
			r, err := mqidem.NewRedriver(e, q.deadLetters, &mqidem.RedriverOptions{After: -1})
			assert.NoError(t, err, "redriver")
			did, err := r.Once(t.Context())
			assert.NoError(t, err, "redrive")
			assert.Equal(t, did.Sent, 1, "redriven")
			eventually(t, "it is done", func() bool { return done.count() == 2 })
			assert.Equal(t, len(q.listDead(t)), 0, "dead letters")
		})
	}
}

// With Ordered, the messages after one that waits for its later try wait too, of its queue only.
func TestOrderedQueueWaits(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedBroker(t), func(o *rocketmqidem.Options, to *rocketmqidem.TopicOptions) { o.Ordered, to.Queues = true, 2 })
	s := q.openSource(t)
	q.publish(t, "1", "2", "3")
	d := receive(t, s, "1")
	expectNothing(t, s, 300*time.Millisecond)
	assert.True(t, s.Full(), "the queue waits")
	assert.NoError(t, d.Retry(t.Context(), 3*time.Second), "Retry")
	other := ""
	for i := 0; other == ""; i++ { // a key of the other queue
		key := fmt.Sprint("other", i)
		assert.NoError(t, q.pub.Publish(t.Context(), []outbox.Outgoing{outgoingMessage(q.o.Topic, key, key)})[0], "publish")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if d, err := s.Receive(ctx); err == nil && d.Message().ID == key {
			other = key
			assert.NoError(t, d.Ack(t.Context()), "Ack")
		} else if err == nil {
			assert.Equal(t, d.Message().ID, "1", "it has come again before a key of the other queue was found")
			assert.NoError(t, d.Retry(t.Context(), 3*time.Second), "Retry")
		}
		cancel()
	}
	assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
	assert.NoError(t, receive(t, s, "2").Ack(t.Context()), "Ack")
	assert.NoError(t, receive(t, s, "3").Ack(t.Context()), "Ack")
}

// The broker's levels are shorter than the options say. A later try still does not come before its
// time, and the extra wait is no try.
func TestLaterTryTooEarly(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedBroker(t), func(o *rocketmqidem.Options, _ *rocketmqidem.TopicOptions) {
		o.DelayLevels = []time.Duration{4 * time.Second}
	})
	s := q.openSource(t)
	q.publish(t, "1")
	begun := time.Now()
	first := receive(t, s, "1")
	assert.NoError(t, first.Retry(t.Context(), 4*time.Second), "Retry")
	d := receive(t, s, "1")
	took := time.Since(begun)
	assert.True(t, took >= 4*time.Second, "it came after %v", took)
	assert.Equal(t, d.Message().Deliveries, 2, "deliveries")
	assert.Equal(t, d.Message().Published.UnixMilli(), first.Message().Published.UnixMilli(), "when it was published")
	assert.NoError(t, d.Ack(t.Context()), "Ack")
}

// A copy that is too large for the broker waits in this process.
func TestLaterTryTooLarge(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedBroker(t), nil)
	m := &mqidem.Message{ID: "1", Source: q.o.Topic, Body: []byte("x")}
	fillHeaders(m)
	m.Headers["large"] = m.Headers["large"][:len(m.Headers["large"])-50]
	assert.NoError(t, q.deadLetters.Send(t.Context(), m), "Send")
	s := q.openSource(t)
	assert.NoError(t, receive(t, s, "1").Retry(t.Context(), time.Second), "Retry")
	d := receive(t, s, "1")
	assert.Equal(t, d.Message().Deliveries, 2, "deliveries")
	assert.Equal(t, d.Message().Source, q.o.Topic, "source")
	assert.NoError(t, d.Ack(t.Context()), "Ack")
}
