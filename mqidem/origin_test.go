package mqidem_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// heard is a log.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) logger() *slog.Logger { return slog.New(slog.NewTextHandler(h, nil)) }

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

func (h *heard) count(words string) int { return strings.Count(h.String(), words) }

// message2 returns a message of a queue, as a handler outside of Consume gets it.
func message2(source, id string) *mqidem.Message {
	return &mqidem.Message{ID: id, Source: source, Body: []byte(id), Deliveries: 1}
}

const otherSource = "has the id of one that came from another source"

// A duplicate that comes from another source than the message whose record it finds is not run, and
// a warning names both sources: once a minute, for done messages, dead letters and batches.
func TestDuplicateOfAnotherSource(t *testing.T) {
	// Not parallel: outside of Consume the log is that of the process.
	serialBubble(t, func(t *testing.T, w *world) {
		var log heard
		before := slog.Default()
		slog.SetDefault(log.logger())
		defer slog.SetDefault(before)
		handlers := map[string]mqidem.Handler{
			"once": mqidem.Once(w.engine, "stock", w.handler(nil)),
			"dead": mqidem.Once(w.engine, "mail", w.handler(func(*mqidem.Message, int) error { return mqidem.Poison(errWork) })),
		}
		batch := mqidem.OnceBatch(w.engine, "points", func(ctx context.Context, ms []*mqidem.Message) []error {
			for _, m := range ms {
				w.recordBegin(m)
			}
			return nil
		})
		handlers["batch"] = func(ctx context.Context, m *mqidem.Message) error {
			other := message2(m.Source, "other "+m.ID+m.Source)
			return batch(ctx, []*mqidem.Message{m, other})[0]
		}
		for name, h := range handlers {
			log.text.Reset()
			_ = h(t.Context(), message2("orders", "17"))
			assert.Equal(t, log.count(otherSource), 0, "%s: the first: %s", name, &log)
			assert.NoError(t, h(t.Context(), message2("orders", "17")), "%s: a copy", name)
			assert.Equal(t, log.count(otherSource), 0, "%s: a copy of one source: %s", name, &log)
			for range 3 {
				assert.NoError(t, h(t.Context(), message2("payments", "17")), "%s: one of another source", name)
			}
			assert.Equal(t, log.count(otherSource), 1, "%s: lines: %s", name, &log)
			assert.Contains(t, log.String(), "source=payments source_of_the_first=orders", "%s", name)
			w.passTime(time.Minute)
			assert.NoError(t, h(t.Context(), message2("payments", "17")), "%s: a minute later", name)
			assert.Contains(t, log.String(), "lines_left_out=2", "%s", name)
		}
		ran := 0
		for _, body := range w.ran {
			if body == "17" {
				ran++
			}
		}
		assert.Equal(t, ran, 3, "runs: one for each consumer")
	})
}

// A record of version 0.1.0 does not say where its message came from: its duplicates are
// duplicates, without a warning.
func TestDuplicateOfOldRecord(t *testing.T) {
	// Not parallel: as above.
	serialBubble(t, func(t *testing.T, w *world) {
		var log heard
		before := slog.Default()
		slog.SetDefault(log.logger())
		defer slog.SetDefault(before)
		a, _, err := w.engine.Layer("mq").Begin(t.Context(), retrysafe.Key{Operation: "stock", ID: retrysafe.KeyPart("17")})
		assert.NoError(t, err, "Begin")
		assert.NoError(t, a.Complete(t.Context(), retrysafe.Answer{Codec: "raw", Body: []byte{}, Kept: true}), "Complete")
		assert.NoError(t, mqidem.Once(w.engine, "stock", w.handler(nil))(t.Context(), message2("orders", "17")), "a duplicate")
		w.expectRuns()
		assert.Equal(t, log.count(otherSource), 0, "the log: %s", &log)
	})
}

// lostDelivery reports a lost message.
type lostDelivery struct{ mqidem.Delivery }

var errTrimmed = errors.New("the queue was full")

func (lostDelivery) Lost() error                                { return errTrimmed }
func (lostDelivery) Message() *mqidem.Message                   { return &mqidem.Message{Source: "q"} }
func (lostDelivery) Ack(context.Context) error                  { return nil }
func (lostDelivery) Retry(context.Context, time.Duration) error { return nil }
func (lostDelivery) Dead(context.Context, mqidem.Reason) error  { return nil }

// losing is a source that reports n lost messages before its first one.
type losing struct {
	mqidem.Source
	mu sync.Mutex
	n  int
}

func (l *losing) Receive(ctx context.Context) (mqidem.Delivery, error) {
	l.mu.Lock()
	if l.n > 0 {
		l.n--
		l.mu.Unlock()
		return lostDelivery{}, nil
	}
	l.mu.Unlock()
	return l.Source.Receive(ctx)
}

// Lost messages reach no handler. Each is an outcome, and all are one line of the log.
func TestLostMessages(t *testing.T) {
	for name, consume := range map[string]func(context.Context, mqidem.Source, *world, *mqidem.Options) error{
		"Consume": func(ctx context.Context, s mqidem.Source, w *world, o *mqidem.Options) error {
			return mqidem.Consume(ctx, s, mqidem.Once(w.engine, "stock", w.handler(nil)), o)
		},
		"ConsumeBatch": func(ctx context.Context, s mqidem.Source, w *world, o *mqidem.Options) error {
			return mqidem.ConsumeBatch(ctx, s, mqidem.OnceBatch(w.engine, "stock", func(_ context.Context, ms []*mqidem.Message) []error {
				for _, m := range ms {
					w.recordBegin(m)
				}
				return nil
			}), o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var log heard
				w.publish(message("1", "one"))
				s := w.broker.Open("q")
				o := w.options(mqidem.Options{})
				o.Logger = log.logger()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.NoError(t, consume(ctx, &losing{Source: s, n: 40}, w, o), "consume")
				assert.NoError(t, s.Close(), "close")
				w.expectRuns("one")
				lost := 0
				for _, o := range w.outcomes {
					if o.What == mqidem.OutcomeLost {
						lost++
						assert.ErrorIs(t, o.Err, errTrimmed, "the reason")
					}
				}
				assert.Equal(t, lost, 40, "outcomes")
				assert.Equal(t, log.count("level=ERROR"), 1, "lines: %s", &log)
				assert.Contains(t, log.String(), "a message is lost", "the line")
			})
		})
	}
}

// A cause that many messages have, again and again, is one line a minute.
func TestOneLineForEachCause(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var log heard
		for i := range 41 {
			w.publish(message(fmt.Sprint(i), fmt.Sprint(i)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		s := w.broker.Open("q")
		o := w.options(mqidem.Options{
			Concurrency: 50,
			DeadLetter: func(context.Context, *mqidem.Message, mqidem.Reason) error {
				return errors.New("the queue was deleted")
			},
		})
		o.Logger = log.logger()
		h := mqidem.Once(w.engine, "stock", w.handler(func(*mqidem.Message, int) error { return mqidem.Poison(errWork) }))
		assert.NoError(t, mqidem.Consume(ctx, s, h, o), "consume")
		assert.NoError(t, s.Close(), "close")
		// in 150 s three minutes begin
		for _, words := range []string{"a message is held"} {
			n := log.count(words)
			assert.True(t, n >= 1 && n <= 3, "%d lines with %q: %s", n, words, &log)
		}
		assert.True(t, log.count("\n") <= 9, "lines: %s", &log)
	})
}

// HoldsFor of the options counts instead of what the source says.
func TestHoldsForOfOptions(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(message("1", "one"))
		consume := func(holds time.Duration, s mqidem.Source) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return mqidem.Consume(ctx, s, mqidem.Once(w.engine, "stock", w.handler(nil)), w.options(mqidem.Options{HoldsFor: holds}))
		}
		s := w.broker.Open("q")
		err := consume(0, holder{s, retrysafe.Forever, nil})
		assert.Contains(t, fmt.Sprint(err), "keeps messages that are done for ever", "a log without a limit")
		assert.NoError(t, s.Close(), "close")
		s = w.broker.Open("q")
		assert.Contains(t, fmt.Sprint(consume(25*time.Hour, s)), "25h0m0s later", "HoldsFor")
		assert.Contains(t, fmt.Sprint(consume(-1, s)), "HoldsFor is -1ns", "HoldsFor")
		assert.NoError(t, s.Close(), "close")
		w.expectRuns()
		s = w.broker.Open("q")
		assert.NoError(t, consume(23*time.Hour, holder{s, retrysafe.Forever, nil}), "consume")
		w.expectRuns("one")
		assert.NoError(t, s.Close(), "close")
	})
}
