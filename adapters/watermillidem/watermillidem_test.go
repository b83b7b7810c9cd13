package watermillidem_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/watermillidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func newEngine(t *testing.T) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Secret: []byte("a secret of tests"), Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// The requirements of Watermill's tests of its Deduplicator: of several messages with one body only
// one passes, with each of its hashers.
func TestMiddlewareWithHashers(t *testing.T) {
	t.Parallel()
	for name, hasher := range map[string]middleware.MessageHasher{
		"Adler": middleware.NewMessageHasherAdler32(1024), "SHA-256": middleware.NewMessageHasherSHA256(1024),
		"metadata": middleware.NewMessageHasherFromMetadataField("hash"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &watermillidem.Deduplicator{Engine: newEngine(t), Name: "count", KeyFactory: hasher}
			count := 0
			h := d.Middleware(func(*message.Message) ([]*message.Message, error) {
				count++
				return nil, nil
			})
			for i := range 8 {
				m := message.NewMessage(watermill.NewUUID(), []byte(fmt.Sprint("body ", i%2)))
				m.Metadata.Set("hash", fmt.Sprint(i%2))
				_, err := h(m)
				assert.NoError(t, err, "handle")
			}
			assert.Equal(t, count, 2, "runs")
		})
	}
}

// The same for the decorator: a published message is dropped and acked, a failed one is not marked.
func TestPublisherDecorator(t *testing.T) {
	t.Parallel()
	d := &watermillidem.Deduplicator{Engine: newEngine(t)}
	pubSub := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 100, Persistent: true}, nil)
	defer pubSub.Close()
	flaky := &flaky{Publisher: pubSub}
	flaky.fail.Store(true)
	p, err := d.PublisherDecorator()(flaky)
	assert.NoError(t, err, "decorate")
	m := message.NewMessage("1", []byte("one"))
	assert.ErrorIs(t, p.Publish("a", m), errBroker, "publish while the broker is away")
	flaky.fail.Store(false)
	for range 3 {
		assert.NoError(t, p.Publish("a", message.NewMessage("1", []byte("one")), message.NewMessage("2", []byte("two"))), "publish")
	}
	assert.NoError(t, p.Publish("b", message.NewMessage("1", []byte("one"))), "publish to another topic")
	again := message.NewMessage("1", []byte("one"))
	assert.NoError(t, p.Publish("a", again), "publish again")
	select {
	case <-again.Acked():
	default:
		t.Fatal("a message that was dropped is not acked")
	}
	for topic, want := range map[string]int{"a": 2, "b": 1} {
		assert.Equal(t, flaky.count(topic), want, "messages published to %s", topic)
	}
	_, err = d.PublisherDecorator()(nil)
	assert.True(t, err != nil, "no publisher is refused")
}

var errBroker = errors.New("the broker is away")

type flaky struct {
	message.Publisher
	fail atomic.Bool
	mu   sync.Mutex
	n    map[string]int
}

func (f *flaky) Publish(topic string, ms ...*message.Message) error {
	if f.fail.Load() {
		return errBroker
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == nil {
		f.n = map[string]int{}
	}
	f.n[topic] += len(ms)
	return f.Publisher.Publish(topic, ms...)
}

func (f *flaky) count(topic string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n[topic]
}

// route runs a router with one handler between two topics, until the test has ended. published
// receives the messages that come out.
func route(t *testing.T, h message.HandlerFunc, m ...message.HandlerMiddleware) (pubSub *gochannel.GoChannel, published <-chan *message.Message) {
	t.Helper()
	pubSub = gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 100, Persistent: true}, watermill.NopLogger{})
	r, err := message.NewRouter(message.RouterConfig{CloseTimeout: time.Minute}, watermill.NopLogger{})
	assert.NoError(t, err, "router")
	r.AddMiddleware(m...)
	r.AddHandler("stock", "in", pubSub, "out", pubSub, h)
	out, err := pubSub.Subscribe(t.Context(), "out")
	assert.NoError(t, err, "subscribe")
	ended := make(chan error, 1)
	go func() { ended <- r.Run(context.Background()) }()
	<-r.Running()
	t.Cleanup(func() {
		_ = r.Close()
		if err := <-ended; err != nil {
			t.Errorf("router: %v", err)
		}
		_ = pubSub.Close()
	})
	return pubSub, out
}

func receive(t *testing.T, c <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m := <-c:
		m.Ack()
		return m
	case <-time.After(2 * time.Minute):
		t.Fatal("no message came")
		return nil
	}
}

// A handler that fails at first: Watermill's Deduplicator loses the message, ours does not.
func TestFailedMessageIsNotLost(t *testing.T) {
	t.Parallel()
	type deduplicator interface {
		Middleware(message.HandlerFunc) message.HandlerFunc
	}
	for name, one := range map[string]struct {
		d    deduplicator
		want int
	}{
		"Watermill's": {&middleware.Deduplicator{KeyFactory: middleware.NewMessageHasherSHA256(1024), Timeout: time.Hour}, 0},
		"ours":        {&watermillidem.Deduplicator{Engine: newEngine(t)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries, done atomic.Int64
			through := make(chan struct{}, 10)
			last := func(h message.HandlerFunc) message.HandlerFunc {
				// outermost: shows when a message is acked
				return func(m *message.Message) ([]*message.Message, error) {
					made, err := h(m)
					if err == nil {
						through <- struct{}{}
					}
					return made, err
				}
			}
			pubSub, _ := route(t, func(*message.Message) ([]*message.Message, error) {
				if tries.Add(1) == 1 {
					return nil, errBroker
				}
				done.Add(1)
				return nil, nil
			}, last, one.d.Middleware)
			assert.NoError(t, pubSub.Publish("in", message.NewMessage("1", []byte("one"))), "publish")
			<-through
			assert.Equal(t, int(done.Load()), one.want, "how often the message was done before it was acked")
		})
	}
}

// Many messages, each published up to three times, through a handler that fails one time in twenty:
// Watermill's Deduplicator loses the failed ones, ours does each once.
func TestLoad(t *testing.T) {
	t.Parallel()
	const messages = 400
	load := func(t *testing.T, m message.HandlerMiddleware) (lost, twice int) {
		t.Helper()
		var mu sync.Mutex
		done, tries, copies := map[string]int{}, map[string]int{}, 0
		acked := make(chan struct{}, 3*messages)
		last := func(h message.HandlerFunc) message.HandlerFunc {
			return func(m *message.Message) ([]*message.Message, error) {
				made, err := h(m)
				if err == nil {
					acked <- struct{}{}
				}
				return made, err
			}
		}
		pubSub, _ := route(t, func(m *message.Message) ([]*message.Message, error) {
			mu.Lock()
			defer mu.Unlock()
			var n int
			if _, err := fmt.Sscan(m.UUID, &n); err != nil {
				return nil, err
			}
			if tries[m.UUID]++; n%20 == 7 && tries[m.UUID] == 1 {
				return nil, errBroker
			}
			done[m.UUID]++
			return nil, nil
		}, last, m)
		for i := range messages {
			for range 1 + i%3 {
				copies++
				assert.NoError(t, pubSub.Publish("in", message.NewMessage(fmt.Sprint(i), fmt.Append(nil, "body ", i))), "publish")
			}
		}
		for range copies {
			<-acked
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range messages {
			switch n := done[fmt.Sprint(i)]; {
			case n == 0:
				lost++
			case n > 1:
				twice++
			}
		}
		return lost, twice
	}
	theirs := &middleware.Deduplicator{KeyFactory: middleware.NewMessageHasherSHA256(1024), Timeout: time.Hour}
	lost, _ := load(t, theirs.Middleware)
	assert.Equal(t, lost, messages/20, "messages that Watermill's Deduplicator has lost")
	lost, twice := load(t, (&watermillidem.Deduplicator{Engine: newEngine(t)}).Middleware)
	assert.Equal(t, [2]int{lost, twice}, [2]int{0, 0}, "messages lost, and done twice")
}

// A duplicate publishes what the first run produced, with the same UUIDs and metadata, and does not
// run.
func TestRepeatsProduceTheSame(t *testing.T) {
	t.Parallel()
	runs := 0
	d := &watermillidem.Deduplicator{Engine: newEngine(t)}
	pubSub, out := route(t, func(m *message.Message) ([]*message.Message, error) {
		runs++
		if _, ok := retrysafe.AttemptFrom(m.Context()); !ok {
			return nil, errors.New("the handler's context has no attempt")
		}
		made := message.NewMessage(watermill.NewUUID(), []byte{0, 255, byte(runs)})
		made.Metadata.Set("trace", "t")
		return []*message.Message{made}, nil
	}, d.Middleware)
	assert.NoError(t, pubSub.Publish("in", message.NewMessage("1", []byte("one"))), "publish")
	first := receive(t, out)
	assert.NoError(t, pubSub.Publish("in", message.NewMessage("1", []byte("one"))), "publish again")
	second := receive(t, out)
	assert.Equal(t, second.UUID, first.UUID, "UUID")
	assert.Equal(t, string(second.Payload), string(first.Payload), "payload")
	assert.Equal(t, second.Metadata.Get("trace"), "t", "metadata")
	assert.Equal(t, runs, 1, "runs")
}

// Two handlers of one message both run; the router gives them their names.
func TestTwoHandlers(t *testing.T) {
	t.Parallel()
	d := &watermillidem.Deduplicator{Engine: newEngine(t)}
	pubSub := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 100}, watermill.NopLogger{})
	defer pubSub.Close()
	r, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	assert.NoError(t, err, "router")
	ran := make(chan string, 10)
	for _, name := range []string{"stock", "points"} {
		r.AddConsumerHandler(name, "in", pubSub, func(*message.Message) error {
			ran <- name
			return nil
		}).AddMiddleware(d.Middleware)
	}
	go func() { _ = r.Run(context.Background()) }()
	<-r.Running()
	for range 3 {
		assert.NoError(t, pubSub.Publish("in", message.NewMessage("1", []byte("one"))), "publish")
	}
	got := map[string]int{<-ran: 1}
	got[<-ran]++
	assert.NoError(t, r.Close(), "close")
	assert.Equal(t, got, map[string]int{"stock": 1, "points": 1}, "who ran")
	assert.Equal(t, len(ran), 0, "further runs")
}

// A duplicate waits for a first run in progress. A panic releases the key.
func TestConcurrentAndPanicking(t *testing.T) {
	t.Parallel()
	d := &watermillidem.Deduplicator{Engine: newEngine(t), Name: "stock"}
	began, goOn := make(chan struct{}), make(chan struct{})
	var runs atomic.Int64
	h := middleware.Recoverer(d.Middleware(func(m *message.Message) ([]*message.Message, error) {
		if runs.Add(1) == 1 {
			panic("once")
		}
		close(began)
		<-goOn
		return nil, nil
	}))
	_, err := h(message.NewMessage("1", nil))
	assert.True(t, err != nil, "a panic is an error")
	errs := make(chan error, 2)
	run := func() {
		_, err := h(message.NewMessage("1", nil))
		errs <- err
	}
	go run()
	<-began
	go run()
	close(goOn)
	assert.NoError(t, <-errs, "one")
	assert.NoError(t, <-errs, "the other")
	assert.Equal(t, int(runs.Load()), 2, "runs")
}

// TestLargeOutput: a handler whose messages are too large to be stored has its effect once. Its
// duplicates run nothing, and are no success.
func TestLargeOutput(t *testing.T) {
	t.Parallel()
	d, effects := &watermillidem.Deduplicator{Engine: newEngine(t), Name: "stock"}, 0
	h := d.Middleware(func(*message.Message) ([]*message.Message, error) {
		effects++
		return message.Messages{message.NewMessage("out", make([]byte, 2<<20))}, nil
	})
	made, err := h(message.NewMessage("1", nil))
	assert.NoError(t, err, "the first")
	assert.True(t, len(made) == 1 && made[0].UUID == "out" && len(made[0].Payload) == 2<<20, "what it has made is published: %d messages", len(made))
	for range 3 {
		made, err = h(message.NewMessage("1", nil))
		assert.ErrorIs(t, err, retrysafe.ErrAnswerNotKept, "a repeat")
		assert.Contains(t, err.Error(), "Policy.MaxAnswer", "what to do")
		assert.Equal(t, len(made), 0, "messages of a repeat")
	}
	assert.Equal(t, effects, 1, "effects")
}

// TestHandlerGoesOn when its message's context is cancelled, unless the work is attached.
func TestHandlerGoesOn(t *testing.T) {
	t.Parallel()
	for _, attached := range []bool{false, true} {
		d := &watermillidem.Deduplicator{Engine: newEngine(t), Name: "stock"}
		if attached {
			d.Options = []retrysafe.CallOption{retrysafe.Attached()}
		}
		ctx, cancel := context.WithCancel(t.Context())
		m := message.NewMessage("1", nil)
		m.SetContext(ctx)
		_, err := d.Middleware(func(m *message.Message) ([]*message.Message, error) {
			cancel()
			return nil, m.Context().Err()
		})(m)
		assert.Equal(t, errors.Is(err, context.Canceled), attached, "the work's context is ended: %v", err)
	}
}

// TestRefused: an answer that is too large, a missing name and a missing engine give an error that
// says so.
func TestRefused(t *testing.T) {
	t.Parallel()
	large := func(*message.Message) ([]*message.Message, error) {
		return []*message.Message{message.NewMessage("2", []byte(strings.Repeat("x", 1<<20)))}, nil
	}
	for want, d := range map[string]*watermillidem.Deduplicator{
		"the consumer has no name": {Engine: newEngine(t)},
		"Engine is required":       {Name: "stock"},
		"the id of a message":      {Engine: newEngine(t), Name: "stock", KeyFactory: middleware.NewMessageHasherFromMetadataField("none")},
		"the id is empty":          {Engine: newEngine(t), Name: "stock", KeyFactory: func(*message.Message) (string, error) { return "", nil }},
	} {
		_, err := d.Middleware(large)(message.NewMessage("1", nil))
		assert.True(t, err != nil, "refused: %s", want)
		assert.Contains(t, err.Error(), want, "error")
	}
	_, err := (&watermillidem.Deduplicator{Engine: newEngine(t), Name: "stock"}).Middleware(func(*message.Message) ([]*message.Message, error) {
		return nil, nil
	})(message.NewMessage(strings.Repeat("u", 10_000), nil))
	assert.NoError(t, err, "an id of 10 kB")
}
