package tx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
)

// TestOutboxRefusals: a message that the broker refuses blocks only its key, is retried, and
// becomes a dead letter in the end. A dead letter blocks its key until it is redriven, in its
// place, or discarded.
func TestOutboxRefusals(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, _ *shops.Shop) {
		t.Helper()
		box := newBox(t, a, nil)
		for _, ordered := range []bool{false, true} {
			got := new(broker)
			got.setRefused(func(m outbox.Outgoing) error {
				switch {
				case m.ID == "poison-1":
					return errors.New("no such stream")
				case m.ID == "large-1":
					return outbox.Permanent(errors.New("too large"))
				case m.ID == "flaky-1" && m.Attempt < 3:
					return errors.New("not now")
				}
				return nil
			})
			var publisher outbox.Publisher = got
			if ordered {
				publisher = oneByOne(got)
			}
			for n := range 3 {
				for _, key := range []string{"poison", "large", "flaky", "fine"} {
					addMessages(t, a, box, outbox.Message{ID: fmt.Sprintf("%s-%d", key, n), Topic: "orders", Key: key})
				}
			}
			o := steadyRelay()
			o.MaxAttempts = 4
			_, stop := runRelay(t, box, publisher, o)
			stats := func() outbox.Stats {
				s, err := box.Stats(t.Context())
				assert.NoError(t, err, "Stats")
				return s
			}
			awaitPublished(t, func() bool { s := stats(); return s.Dead == 2 && s.Pending == 2 }, "two are dead, and two held up behind them: %+v", stats())
			assert.True(t, stats().Oldest > 0, "the age of the oldest")
			for key, want := range map[string]string{"poison": "poison-0", "large": "large-0", "flaky": "flaky-0 flaky-1 flaky-2", "fine": "fine-0 fine-1 fine-2"} {
				assert.Equal(t, strings.Join(got.idsOf(key), " "), want, "what was published of %s", key)
			}
			dead, err := box.Dead(t.Context(), 0, 10)
			assert.NoError(t, err, "Dead")
			assert.Equal(t, len(dead), 2, "dead messages")
			assert.Equal(t, fmt.Sprintf("%s %d %s %s %d %s", dead[0].ID, dead[0].Attempts, dead[0].Error, dead[1].ID, dead[1].Attempts, dead[1].Error),
				"poison-1 4 no such stream large-1 1 permanent: too large", "what is told of them")
			last, err := box.Dead(t.Context(), dead[0].Place, 10)
			assert.True(t, err == nil && len(last) == 1 && last[0].ID == "large-1", "Dead behind a place: %v, %v", last, err)

			got.setRefused(nil)
			n, err := box.Redrive(t.Context(), "poison-1", "fine-0", "unknown")
			assert.True(t, n == 1 && err == nil, "Redrive: %d, %v", n, err)
			awaitPublished(t, func() bool { return len(got.idsOf("poison")) == 3 }, "the redriven one")
			assert.Equal(t, strings.Join(got.idsOf("poison"), " "), "poison-0 poison-1 poison-2", "its order")
			n, err = box.Discard(t.Context(), "large-1")
			assert.True(t, n == 1 && err == nil, "Discard: %d, %v", n, err)
			awaitPublished(t, func() bool { return stats() == outbox.Stats{} }, "nothing is left")
			assert.Equal(t, strings.Join(got.idsOf("large"), " "), "large-0 large-2", "behind the discarded one")
			assert.NoError(t, stop(), "Run")
		}
	})
}

// TestOutboxSkipDead: if the option is set, a key continues after a dead letter.
func TestOutboxSkipDead(t *testing.T) {
	t.Parallel()
	shops.EachKind(t, func(t *testing.T, a, _ *shops.Shop) {
		t.Helper()
		box, got, o := newBox(t, a, nil), new(broker), steadyRelay()
		got.setRefused(func(m outbox.Outgoing) error {
			if m.ID == "0" {
				return outbox.Permanent(errors.New("no"))
			}
			return nil
		})
		for i := range 3 {
			addMessages(t, a, box, outbox.Message{ID: fmt.Sprint(i), Topic: "orders", Key: "ada"})
		}
		o.SkipDead = true
		runRelay(t, box, got, o)
		awaitPublished(t, func() bool { return len(got.idsOf("ada")) == 2 }, "those behind it")
	})
}

// TestOutboxBadPublishers: a publisher that panics, ends its goroutine, returns nonsense, hangs
// until its context ends, or reports that the broker is unreachable. Nothing is lost, the order is
// kept, and an outage of any length makes no dead letters.
func TestOutboxBadPublishers(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func(context.Context, []outbox.Outgoing) []error{
		"panics":   func(context.Context, []outbox.Outgoing) []error { panic("no paper") },
		"nonsense": func(context.Context, []outbox.Outgoing) []error { return nil },
		"hangs": func(ctx context.Context, batch []outbox.Outgoing) []error {
			<-ctx.Done()
			return errorOfEach(batch, ctx.Err())
		},
		"away": func(_ context.Context, batch []outbox.Outgoing) []error {
			return errorOfEach(batch, outbox.Unavailable(errors.New("down")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shops.NewFile(t)
			box := newBox(t, s, nil)
			got := new(broker)
			var calls atomic.Int64
			publisher := publisherFunc(func(ctx context.Context, batch []outbox.Outgoing) []error {
				if calls.Add(1) <= 6 {
					return bad(ctx, batch)
				}
				return got.Publish(ctx, batch)
			})
			o := steadyRelay()
			o.PublishTimeout = 20 * time.Millisecond
			if name == "nonsense" || name == "away" {
				o.MaxAttempts = 1
			}
			for i := range 3 {
				addMessages(t, s, box, outbox.Message{ID: fmt.Sprint(i), Topic: "orders", Key: "ada"})
			}
			runRelay(t, box, publisher, o)
			awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "all are published")
			assert.Equal(t, strings.Join(got.idsOf("ada"), " "), "0 1 2", "their order")
		})
	}
}

type publisherFunc func(context.Context, []outbox.Outgoing) []error

func (f publisherFunc) Publish(ctx context.Context, batch []outbox.Outgoing) []error {
	return f(ctx, batch)
}

func errorOfEach(batch []outbox.Outgoing, err error) []error {
	errs := make([]error, len(batch))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// TestOutboxPoisonPanics: if a message makes the publisher panic, the others of its batch are still
// published.
func TestOutboxPoisonPanics(t *testing.T) {
	t.Parallel()
	s := shops.NewFile(t)
	box, got, o := newBox(t, s, nil), new(broker), steadyRelay()
	got.setRefused(func(m outbox.Outgoing) error {
		if m.ID == "poison" {
			panic(m.ID)
		}
		assert.Equal(t, m.Attempt, 1, "attempts of the others")
		return nil
	})
	addMessages(t, s, box, outbox.Message{ID: "poison", Topic: "orders"})
	for range 100 {
		addMessages(t, s, box, outbox.Message{Topic: "orders"})
	}
	o.MaxAttempts = 3
	runRelay(t, box, got, o)
	awaitPublished(t, func() bool { st, err := box.Stats(t.Context()); return err == nil && st.Pending == 0 && st.Dead == 1 }, "one is dead, and all others are published")
	once, _ := removeRepeats(got.idsOf(""))
	assert.Equal(t, len(once), 100, "messages")
}

// traffic adds messages to keys, one at a time for each key, until it is stopped.
type traffic struct {
	mu   sync.Mutex
	want map[string][]string
}

// addTraffic adds n messages with several goroutines, each with its own keys.
func (f *traffic) addTraffic(t *testing.T, s *shops.Shop, box *outbox.Outbox, prefix string, workers, n int) {
	t.Helper()
	f.mu.Lock()
	if f.want == nil {
		f.want = map[string][]string{}
	}
	f.mu.Unlock()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range n {
				key, id := fmt.Sprintf("%s%d/%d", prefix, w, i%5), fmt.Sprintf("%s%d-%d", prefix, w, i)
				err := trySend(t.Context(), s.DB, box, outbox.Message{ID: id, Topic: "orders", Key: key})
				for ; err != nil && s.Store.Dialect() == outbox.SQLite && t.Context().Err() == nil; err = trySend(t.Context(), s.DB, box, outbox.Message{ID: id, Topic: "orders", Key: key}) {
					continue // it has one writer
				}
				if err != nil {
					t.Errorf("add: %v", err)
					return
				}
				f.mu.Lock()
				f.want[key] = append(f.want[key], id)
				f.mu.Unlock()
			}
		})
	}
	all.Wait()
}

// checkOrder reports what is lost or out of order, and counts duplicates.
func (f *traffic) checkOrder(ids func(key string) []string) (repeats int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, want := range f.want {
		got := ids(key)
		once, again := removeRepeats(got)
		repeats += again
		if strings.Join(once, " ") != strings.Join(want, " ") {
			return repeats, fmt.Errorf("key %s: got %q, want %q", key, got, want)
		}
	}
	return repeats, nil
}
