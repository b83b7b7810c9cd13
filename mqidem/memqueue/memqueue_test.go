package memqueue_test

import (
	"context"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/memqueue"
	"github.com/retrysafe/retrysafe/mqidem/mqtest"
	"github.com/retrysafe/retrysafe/outbox"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	mqtest.Run(t, mqtest.Config{Queue: func(testing.TB) mqtest.Queue {
		b := memqueue.New()
		return mqtest.Queue{Topic: "q", Publisher: b, DeadLetters: b.DeadLetters("q"), Open: func(testing.TB) mqtest.Source { return b.Open("q") }}
	}})
}

// A bound topic reaches each of its queues.
func TestBind(t *testing.T) {
	t.Parallel()
	b := memqueue.New()
	b.Bind("orders", "stock", "points")
	errs := b.Publish(t.Context(), []outbox.Outgoing{{Message: outbox.Message{ID: "1", Topic: "orders"}}})
	assert.NoError(t, errs[0], "publish")
	for _, q := range []string{"stock", "points"} {
		d, err := b.Open(q).Receive(t.Context())
		assert.NoError(t, err, "receive")
		assert.Equal(t, d.Message().Source, q, "where it came from")
	}
	waiting, _ := b.Stats("orders")
	assert.Equal(t, waiting, 0, "messages in a queue of the topic's name")
}

// A closed broker accepts nothing, and calls that wait return.
func TestClose(t *testing.T) {
	t.Parallel()
	b := memqueue.New()
	s := b.Open("q")
	ended := make(chan error, 1)
	go func() {
		_, err := s.Receive(context.WithoutCancel(t.Context()))
		ended <- err
	}()
	assert.NoError(t, b.Close(), "close")
	assert.ErrorIs(t, <-ended, mqidem.ErrSourceClosed, "a Receive that waited")
	assert.NoError(t, b.Close(), "a second close")
	assert.True(t, b.Publish(t.Context(), make([]outbox.Outgoing, 1))[0] != nil, "publish behind close fails")
	assert.ErrorIs(t, b.DeadLetters("q").Send(t.Context(), &mqidem.Message{}), mqidem.ErrSourceClosed, "send behind close")
	assert.NoError(t, s.Close(), "close of a source behind it")
}
