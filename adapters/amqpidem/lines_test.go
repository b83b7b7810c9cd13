package amqpidem_test

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
	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// heard is a log.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

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

// TestDeadLetterQueueDeleted: while there is no dead-letter queue, many messages that belong there
// are one line a minute for each cause.
func TestDeadLetterQueueDeleted(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	s := open(t, url, queue, &amqpidem.Options{Dialing: quietDialing()})
	_, err := rawChannel(t, url).QueueDelete(queue+".dead", false, false, false)
	assert.NoError(t, err, "delete the queue")
	const n = 41
	var bodies []string
	for i := range n {
		bodies = append(bodies, fmt.Sprint("poison ", i))
	}
	publish(t, publisher(t, url, nil), queue, bodies...)
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: make([]byte, 32), Logger: quiet})
	t.Cleanup(func() { _ = engine.Shutdown(context.Background()) })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	later, began := 0, time.Now()
	var log heard
	work := mqidem.Once(engine, "work", func(context.Context, *mqidem.Message) error { return mqidem.Poison(errors.New("no")) })
	err = mqidem.Consume(ctx, s, work, &mqidem.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), OnOutcome: func(_ context.Context, o mqidem.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if o.What == mqidem.OutcomeLater {
			// it was held several times, and is put back for a minute
			if later++; later == n {
				stop()
			}
		}
	}})
	assert.NoError(t, err, "Consume")
	minutes := 1 + int(time.Since(began)/time.Minute)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	assert.True(t, len(lines) <= 3*minutes, "%d lines in %d minutes:\n%s", len(lines), minutes, log.String())
	assert.Contains(t, log.String(), "a message is held", "the log")
}
