package mqidem_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/memqueue"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var errWork = errors.New("no stock")

// world is a broker with one queue, a store, and a log of events. It lives in a bubble of synctest,
// so waiting takes no time.
type world struct {
	t      *testing.T
	broker *memqueue.Broker
	store  storeapi.Store
	engine *retrysafe.Engine

	mu       sync.Mutex
	ran      []string // bodies, in the order in which handlers began
	outcomes []mqidem.Outcome
}

// bubble runs f with a new world.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	serialBubble(t, f)
}

// serialBubble is bubble without other tests at the same time.
func serialBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, broker: memqueue.New(), store: memstore.New(nil)}
		w.engine = w.newEngine(w.store)
		f(t, w)
	})
}

// newEngine returns an engine of another process.
func (w *world) newEngine(s storeapi.Store) *retrysafe.Engine {
	e := retrysafe.New(s, &retrysafe.Options{Sweep: -1, Secret: []byte("a secret of tests"), Logger: slog.New(slog.DiscardHandler)})
	w.t.Cleanup(func() { w.killEngine(e) })
	return e
}

// killEngine ends an engine as the death of its process does: the leases of its attempts expire.
func (w *world) killEngine(e *retrysafe.Engine) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.Shutdown(ctx)
}

func (w *world) publish(messages ...outbox.Message) {
	w.t.Helper()
	for _, m := range messages {
		if m.Topic == "" {
			m.Topic = "q"
		}
		assert.NoError(w.t, w.broker.Publish(w.t.Context(), []outbox.Outgoing{{Message: m}})[0], "publish")
	}
}

func message(id, body string) outbox.Message { return outbox.Message{ID: id, Payload: []byte(body)} }

// recordBegin records that a handler has begun with this message, and returns how often one has.
func (w *world) recordBegin(m *mqidem.Message) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, string(m.Body))
	n := 0
	for _, b := range w.ran {
		if b == string(m.Body) {
			n++
		}
	}
	return n
}

// handler returns a handler that fails as fail says. fail gets the message and the number of this
// call with it.
func (w *world) handler(fail func(m *mqidem.Message, try int) error) mqidem.Handler {
	return func(_ context.Context, m *mqidem.Message) error {
		n := w.recordBegin(m)
		if fail == nil {
			return nil
		}
		return fail(m, n)
	}
}

func (w *world) options(o mqidem.Options) *mqidem.Options {
	o.Logger = slog.New(slog.DiscardHandler)
	if o.Backoff == nil {
		o.Backoff = mqidem.Fixed(3 * time.Second)
	}
	o.OnOutcome = func(_ context.Context, out mqidem.Outcome) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.outcomes = append(w.outcomes, out)
	}
	return &o
}

// consume runs a consumer of the queue. The returned function stops it and waits for its end.
func (w *world) consume(h mqidem.Handler, o mqidem.Options) (stop func() error) {
	return w.start(func(ctx context.Context, s mqidem.Source) error { return mqidem.Consume(ctx, s, h, w.options(o)) })
}

func (w *world) consumeBatches(h mqidem.BatchHandler, o mqidem.Options) (stop func() error) {
	return w.start(func(ctx context.Context, s mqidem.Source) error { return mqidem.ConsumeBatch(ctx, s, h, w.options(o)) })
}

func (w *world) start(run func(context.Context, mqidem.Source) error) (stop func() error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	s, ended := w.broker.Open("q"), make(chan error, 1)
	go func() { ended <- run(ctx, s) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-ended, s.Close())
	})
	w.t.Cleanup(func() { _ = stop() }) // also after a failed assertion
	return stop
}

// passTime lets d pass, with everything that happens in it.
func (w *world) passTime(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expectOutcomes checks that these outcomes were reported, in any order.
func (w *world) expectOutcomes(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := []string{}
	for _, o := range w.outcomes {
		got = append(got, o.What)
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.Equal(w.t, got, append([]string{}, want...), "outcomes")
}

// expectRuns checks that handlers have begun with these bodies, in any order.
func (w *world) expectRuns(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := append([]string{}, w.ran...)
	slices.Sort(got)
	slices.Sort(want)
	assert.Equal(w.t, got, append([]string{}, want...), "what handlers began with")
}

// dead returns the dead letters.
func (w *world) deadLetters() (all []*mqidem.DeadLetter) {
	w.t.Helper()
	err := w.broker.DeadLetters("q").Walk(w.t.Context(), func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		all = append(all, p)
		return mqidem.Keep, nil
	})
	assert.NoError(w.t, err, "walk")
	return all
}

// expectEmpty checks that nothing is left in the queue.
func (w *world) expectEmpty() {
	w.t.Helper()
	waiting, _ := w.broker.Stats("q")
	assert.Equal(w.t, waiting, 0, "messages left in the queue")
}

func (w *world) record(consumer, id string) retrysafe.Record {
	w.t.Helper()
	rec, err := w.engine.Layer("mq").Lookup(w.t.Context(), retrysafe.Key{Operation: consumer, ID: id})
	assert.NoError(w.t, err, "lookup")
	return rec
}
