package mqidem_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// TestFit: a message that is too large becomes a dead letter in the largest form that fits, which
// says what was left out.
func TestFit(t *testing.T) {
	t.Parallel()
	errSize := errors.New("too large")
	body := strings.Repeat("x", 1000)
	sum := sha256.Sum256([]byte(body))
	whole := mqidem.Reason{Why: mqidem.DeadPoison, Error: "no stock", Key: "record", Source: strings.Repeat("q", 60)}
	packed, err := whole.Pack()
	assert.NoError(t, err, "pack")
	full := len(body) + len("1") + len("v") + len(packed)
	for name, c := range map[string]struct {
		room   int
		header string
		want   string // Cut, bytes of the body, headers, error, key of the record, id
	}{
		"all of it":          {full, "v", " 1000 1 no stock record 1"},
		"without the error":  {full - 1, "v", " 1000 1  record 1"},
		"without the record": {full - 40, "v", "reason 1000 1   1"},
		"without headers":    {1300, strings.Repeat("v", 4000), "headers 1000 0   1"},
		"half of the body":   {1000, "v", "body 500 0   1"},
		"a part of the body": {250, "v", "body 62 0   1"},
		"nothing":            {200, strings.Repeat("v", 100), "body 0 0   "},
	} {
		m := &mqidem.Message{ID: "1", Source: "q", Key: "key", Body: []byte(body), Headers: map[string][]byte{"h": []byte(c.header)}}
		if name == "nothing" {
			m.ID = strings.Repeat("i", 50)
		}
		got := ""
		err := mqidem.Fit(m, whole, func(err error) bool { return errors.Is(err, errSize) },
			func(m *mqidem.Message, packed []byte) error {
				size := len(packed) + len(m.Body) + len(m.ID)
				for _, v := range m.Headers {
					size += len(v)
				}
				if size > c.room {
					return errSize
				}
				why, err := mqidem.ParseReason(packed)
				assert.NoError(t, err, "%s: the reason", name)
				got = fmt.Sprint(why.Cut, " ", len(m.Body), " ", len(m.Headers), " ", why.Error, " ", why.Key, " ", m.ID)
				if why.Cut != "" && why.Cut != mqidem.CutReason {
					assert.Equal(t, fmt.Sprint(why.Size, why.SHA256), fmt.Sprint(1000, hex.EncodeToString(sum[:])), "%s: the whole body", name)
				}
				return nil
			})
		assert.NoError(t, err, "%s", name)
		assert.Equal(t, got, c.want, "%s", name)
		assert.True(t, string(m.Body) == body && len(m.Headers) == 1, "%s: the message itself stays whole", name)
	}
	tries := 0
	err = mqidem.Fit(&mqidem.Message{Body: []byte(body)}, mqidem.Reason{Why: "x"}, func(error) bool { return false }, func(*mqidem.Message, []byte) error { tries++; return errSize })
	assert.True(t, errors.Is(err, errSize) && tries == 1, "another error ends it: %v", err)
	err = mqidem.Fit(&mqidem.Message{Body: []byte(body)}, mqidem.Reason{Why: "x"}, func(error) bool { return true }, func(*mqidem.Message, []byte) error { return errSize })
	assert.ErrorIs(t, err, errSize, "nothing fits")
}

// TestCutIsNotPutBack: a dead letter that was cut needs an operator.
func TestCutIsNotPutBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := &mqidem.DeadLetter{Message: &mqidem.Message{ID: "1", Source: "q"}, Reason: mqidem.Reason{Why: mqidem.DeadPoison, Cut: mqidem.CutBody}}
		assert.ErrorIs(t, mqidem.Redrive(t.Context(), w.engine, nil, m, &mqidem.RedriveOptions{NotDone: true, By: "ann"}), mqidem.ErrCut, "redrive")
	})
}

// TestFailingDeadLetterLeavesHands: messages that can neither be done nor dead-lettered do not stop
// others, and do not run again.
func TestFailingDeadLetterLeavesHands(t *testing.T) {
	t.Parallel()
	never := func(context.Context, *mqidem.Message, mqidem.Reason) error {
		return errors.New("there is no dead-letter queue")
	}
	work := func(m *mqidem.Message, _ int) error {
		if m.ID != "good" {
			return mqidem.Poison(errWork)
		}
		return nil
	}
	for name, start := range map[string]func(w *world) func() error{
		"one by one": func(w *world) func() error {
			return w.consume(mqidem.Once(w.engine, "stock", w.handler(work)), mqidem.Options{DeadLetter: never})
		},
		"batches": func(w *world) func() error {
			one := mqidem.Once(w.engine, "stock", w.handler(work))
			return w.consumeBatches(func(ctx context.Context, ms []*mqidem.Message) []error {
				errs := make([]error, len(ms))
				for i, m := range ms {
					errs[i] = one(ctx, m)
				}
				return errs
			}, mqidem.Options{DeadLetter: never, Batch: 10})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				for i := range 40 {
					w.publish(message(fmt.Sprint(i), fmt.Sprint("bad ", i)))
				}
				w.publish(message("good", "good"))
				stop := start(w)
				w.passTime(30 * time.Minute)
				assert.NoError(t, stop(), "consume")
				runs := map[string]int{}
				for _, body := range w.ran {
					runs[body]++
				}
				assert.Equal(t, runs["good"], 1, "runs of the good one")
				for i := range 40 {
					assert.Equal(t, runs[fmt.Sprint("bad ", i)], 1, "runs of bad one %d", i)
				}
			})
		})
	}
}

// narrow is a source with a limit of unsettled deliveries.
type narrow struct {
	mqidem.Source
	room chan struct{}
}

func (s narrow) Receive(ctx context.Context) (mqidem.Delivery, error) {
	select {
	case s.room <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d, err := s.Source.Receive(ctx)
	if err != nil {
		<-s.room
		return nil, err
	}
	return narrowed{d, s.room}, nil
}

func (s narrow) Full() bool { return len(s.room) == cap(s.room) }

type narrowed struct {
	mqidem.Delivery
	room chan struct{}
}

func (d narrowed) Ack(ctx context.Context) error {
	defer func() { <-d.room }()
	return d.Delivery.Ack(ctx)
}

// TestBatchOfANarrowSource: a batch does not wait for messages that its source cannot deliver
// before others are settled.
func TestBatchOfANarrowSource(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const messages = 640
		for i := range messages {
			w.publish(message(fmt.Sprint(i), "x"))
		}
		began, took, done := time.Now(), time.Duration(0), 0
		stop := w.start(func(ctx context.Context, s mqidem.Source) error {
			return mqidem.ConsumeBatch(ctx, narrow{s, make(chan struct{}, 64)}, func(_ context.Context, ms []*mqidem.Message) []error {
				if done += len(ms); done == messages {
					took = time.Since(began)
				}
				return nil
			}, w.options(mqidem.Options{}))
		})
		w.passTime(10 * time.Second)
		assert.NoError(t, stop(), "consume")
		assert.Equal(t, done, messages, "messages")
		assert.True(t, took < 50*time.Millisecond, "ten batches have waited for %v", took)
	})
}
