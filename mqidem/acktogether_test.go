package mqidem_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// together is a source whose acks return when all of them were called.
type together struct {
	mqidem.Source
	all *sync.WaitGroup
}

func (s *together) Receive(ctx context.Context) (mqidem.Delivery, error) {
	d, err := s.Source.Receive(ctx)
	if err != nil {
		return nil, err
	}
	return &togetherDelivery{d, s.all}, nil
}

type togetherDelivery struct {
	mqidem.Delivery
	all *sync.WaitGroup
}

func (d *togetherDelivery) Ack(ctx context.Context) error {
	d.all.Done()
	d.all.Wait()
	return d.Delivery.Ack(ctx)
}

// TestBatchAcksTogether: the acks of a batch are made at once, so that a source can send them as
// one.
func TestBatchAcksTogether(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 100
		for i := range n {
			w.publish(message(fmt.Sprint(i), "body"))
		}
		var all sync.WaitGroup
		all.Add(n)
		done := func(context.Context, []*mqidem.Message) []error { return nil }
		stop := w.start(func(ctx context.Context, s mqidem.Source) error {
			return mqidem.ConsumeBatch(ctx, &together{s, &all}, done, w.options(mqidem.Options{Batch: n, Concurrency: 1}))
		})
		w.passTime(10 * time.Second)
		w.mu.Lock()
		acked := len(w.outcomes)
		w.mu.Unlock()
		assert.Equal(t, acked, n, "messages that are acked")
		assert.NoError(t, stop(), "ConsumeBatch")
		w.expectEmpty()
	})
}
