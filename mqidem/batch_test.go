package mqidem_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// batches records the batches that a handler got, and how often it handled each message without an
// error.
type batches struct {
	w     *world
	given [][]string
	done  map[string]int
}

// handler returns a handler that calls bad for the error of the message with that id.
func (b *batches) handler(id string, bad func() error) mqidem.BatchHandler {
	b.done = map[string]int{}
	return func(_ context.Context, ms []*mqidem.Message) []error {
		var ids []string
		for _, m := range ms {
			ids = append(ids, m.ID)
		}
		b.w.mu.Lock()
		defer b.w.mu.Unlock()
		b.given = append(b.given, ids)
		errs := make([]error, len(ms))
		for i, m := range ms {
			if m.ID == id {
				errs[i] = bad()
			}
		}
		for i, m := range ms {
			if errs[i] == nil {
				b.done[m.ID]++
			}
		}
		return errs
	}
}

func fiveMessages() (all []outbox.Message) {
	for i := range 5 {
		all = append(all, message(fmt.Sprint(i), fmt.Sprint("body ", i)))
	}
	return all
}

// A bad message at any position of a batch: the others are done once, and only the bad one becomes
// a dead letter.
func TestBadMessageInBatch(t *testing.T) {
	t.Parallel()
	bads := map[string]func() error{
		"error":  func() error { return errWork },
		"poison": func() error { return mqidem.Poison(errWork) },
		"panic":  func() error { panic("bad") },
		"exit":   func() error { runtime.Goexit(); return nil },
	}
	for name, bad := range bads {
		for at := range 5 {
			t.Run(fmt.Sprint(name, at), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					w.publish(fiveMessages()...)
					b := &batches{w: w}
					stop := w.consumeBatches(mqidem.OnceBatch(w.engine, "points", b.handler(fmt.Sprint(at), bad)), mqidem.Options{MaxAttempts: 3})
					w.passTime(time.Hour)
					assert.NoError(t, stop(), "consume")
					assert.Equal(t, b.given[0], []string{"0", "1", "2", "3", "4"}, "the first batch")
					for i := range 5 {
						if want := 1; i != at {
							assert.Equal(t, b.done[fmt.Sprint(i)], want, "how often message %d was done", i)
						}
					}
					p := w.deadLetters()
					assert.Equal(t, len(p), 1, "dead letters")
					assert.Equal(t, p[0].Message.ID, fmt.Sprint(at), "who is a dead letter")
					w.expectEmpty()
				})
			})
		}
	}
}

// Duplicates within a batch and after it do not reach the handler, and neither do messages that
// cannot be handled.
func TestRepeatsInBatch(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(fiveMessages()...)
		w.publish(fiveMessages()[2], message("", "no id"), fiveMessages()[4])
		b := &batches{w: w}
		stop := w.consumeBatches(mqidem.OnceBatch(w.engine, "points", b.handler("", nil)), mqidem.Options{})
		w.passTime(time.Second)
		w.publish(fiveMessages()...)
		w.passTime(time.Second)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, b.given, [][]string{{"0", "1", "2", "3", "4"}}, "batches")
		assert.Equal(t, len(w.deadLetters()), 1, "dead letters")
		w.expectEmpty()
	})
}

// A message that kills its consumer takes the others of its batch with it once. After that it runs
// alone.
func TestKillerInBatch(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(fiveMessages()...)
		over := make(chan struct{})
		defer close(over)
		done := map[string]int{}
		for range 6 {
			e, s := w.newEngine(w.store), w.broker.Open("q")
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				h := mqidem.OnceBatch(e, "points", func(_ context.Context, ms []*mqidem.Message) []error {
					if slices.ContainsFunc(ms, func(m *mqidem.Message) bool { return m.ID == "3" }) {
						<-over
						return nil
					}
					w.mu.Lock()
					defer w.mu.Unlock()
					for _, m := range ms {
						done[m.ID]++
					}
					return nil
				})
				_ = mqidem.ConsumeBatch(ctx, s, h, w.options(mqidem.Options{MaxAttempts: 3}))
			}()
			w.passTime(time.Second)
			w.killEngine(e)
			assert.NoError(t, s.Close(), "close")
			cancel()
			w.passTime(time.Minute)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Equal(t, done, map[string]int{"0": 1, "1": 1, "2": 1, "4": 1}, "how often each was done")
		p := w.deadLetters()
		assert.Equal(t, len(p), 1, "dead letters")
		assert.Equal(t, p[0].Message.ID, "3", "who is a dead letter")
		w.expectEmpty()
	})
}

// A batch that is not full starts when Linger has passed; a full one starts at once.
func TestLinger(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := &batches{w: w}
		stop := w.consumeBatches(mqidem.OnceBatch(w.engine, "points", b.handler("", nil)), mqidem.Options{Batch: 3, Linger: 10 * time.Second})
		w.publish(fiveMessages()...)
		w.passTime(time.Second)
		w.mu.Lock()
		assert.Equal(t, len(b.given), 1, "batches that are full")
		w.mu.Unlock()
		w.passTime(10 * time.Second)
		assert.Equal(t, b.given, [][]string{{"0", "1", "2"}, {"3", "4"}}, "batches")
		assert.NoError(t, stop(), "consume")
	})
}

// The error of a message affects only that message, also if the handler's slice has a wrong length.
func TestBatchErrors(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.publish(fiveMessages()...)
		calls := 0
		stop := w.consumeBatches(mqidem.OnceBatch(w.engine, "points", func(_ context.Context, ms []*mqidem.Message) []error {
			calls++
			return make([]error, len(ms)+1) // it is unknown which message each is for
		}), mqidem.Options{MaxAttempts: 1})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, calls, 6, "calls: one of all, one of each")
		p := w.deadLetters()
		assert.Equal(t, len(p), 5, "dead letters")
		assert.Contains(t, p[0].Reason.Error, "2 errors for 1 messages", "reason")
	})
}

// A hundred messages are claimed and completed by two calls of a store that supports batches.
func TestBatchRoundTrips(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := &counting{Store: w.store}
		for i := range 100 {
			w.publish(message(fmt.Sprint(i), "x"))
		}
		b := &batches{w: w}
		stop := w.consumeBatches(mqidem.OnceBatch(w.newEngine(s), "points", b.handler("", nil)), mqidem.Options{Batch: 100, Linger: time.Second})
		w.passTime(time.Minute)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, len(b.given), 1, "batches")
		assert.Equal(t, s.calls, map[string]int{"lookup": 1, "acquirebatch": 1, "completebatch": 1}, "calls of the store")
	})
}

// counting is a store that supports batches and counts calls.
type counting struct {
	storeapi.Store
	calls map[string]int
}

func (s *counting) count(op string) {
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[op]++
}

func (s *counting) Lookup(ctx context.Context, k storeapi.StoreKey) (retrysafe.Record, error) {
	s.count("lookup")
	return s.Store.Lookup(ctx, k)
}

func (s *counting) Acquire(ctx context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	s.count("acquire")
	return s.Store.Acquire(ctx, r)
}

func (s *counting) AcquireBatch(ctx context.Context, reqs []storeapi.AcquireRequest) (out []storeapi.BatchResult[storeapi.Acquired], err error) {
	s.count("acquirebatch")
	for _, r := range reqs {
		got, err := s.Store.Acquire(ctx, r)
		out = append(out, storeapi.BatchResult[storeapi.Acquired]{Value: got, Err: err})
	}
	return out, nil
}

func (s *counting) ExtendBatch(context.Context, []storeapi.ExtendRequest) ([]error, error) {
	panic("not called")
}

func (s *counting) CompleteBatch(ctx context.Context, reqs []storeapi.CompleteRequest) (out []storeapi.BatchResult[retrysafe.Record], err error) {
	s.count("completebatch")
	for _, r := range reqs {
		rec, err := s.Store.Complete(ctx, r)
		out = append(out, storeapi.BatchResult[retrysafe.Record]{Value: rec, Err: err})
	}
	return out, nil
}

func (s *counting) ReleaseBatch(context.Context, []storeapi.ReleaseRequest) ([]error, error) {
	panic("not called")
}

// batched is a source that fetches ahead.
type batched struct {
	mqidem.Source
	ahead chan int
}

func (b batched) Ahead(n int) { b.ahead <- n }

// A source learns the size of batches, so that the next batch is there when one is done.
func TestBatchSaysItsSize(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		s := batched{w.broker.Open("q"), make(chan int, 2)}
		ended := make(chan error, 1)
		go func() {
			h := mqidem.OnceBatch(w.engine, "stock", func(context.Context, []*mqidem.Message) []error { return nil })
			ended <- mqidem.ConsumeBatch(ctx, s, h, w.options(mqidem.Options{Batch: 70}))
		}()
		assert.Equal(t, <-s.ahead, 70, "messages ahead")
		cancel()
		assert.NoError(t, <-ended, "consume")
	})
}
