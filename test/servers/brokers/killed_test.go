package brokers_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
)

// TestKilled kills a process that works on a message. The broker gives the message to another
// process, which does it once, and nothing of it is left in the queue. It is one round of the soak
// test.
func TestKilled(t *testing.T) {
	t.Parallel()
	stores := startStores(t)
	for name := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mode := "redis"
			if name == "RabbitMQ" || name == "NATS" {
				mode = "tx"
			}
			s := newSoak(t, stores, name, mode)
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			first, err := s.open(ctx, s.broker.url) // it declares what must exist
			assert.NoError(t, err, "open")
			assert.NoError(t, first.Close(), "close")
			p, err := s.publisher(ctx, s.broker.url)
			assert.NoError(t, err, "publisher")
			var batch []outbox.Outgoing
			for id, body := range map[string]string{"killed": "hangs once", "bad": "bad"} {
				for range 2 { // the producer sends it again
					batch = append(batch, outbox.Outgoing{Message: outbox.Message{ID: id, Topic: queue, Payload: []byte(body)}, Added: time.Now(), Attempt: 1})
				}
			}
			for _, err := range p.Publish(ctx, batch) {
				assert.NoError(t, err, "publish")
			}
			dies, err := startChild(s.windows, s.args...)
			assert.NoError(t, err, "start a consumer")
			s.untilSome(ctx, t, "a consumer is at it", "SELECT id, count(*) FROM outcomes WHERE id = 'killed' AND what = 'begun' GROUP BY id")
			dies.signalAndWait(syscall.SIGKILL)
			lives, err := startChild(s.windows, s.args...)
			assert.NoError(t, err, "start a consumer")
			defer lives.signalAndWait(syscall.SIGKILL)
			s.awaitEffects(ctx, t, "messages done or dead", []string{"killed", "bad"}, true)
			s.untilSome(ctx, t, "the other one says so", "SELECT id, count(*) FROM outcomes WHERE id = 'killed' AND what = 'done' GROUP BY id")
			lives.signalAndWait(syscall.SIGTERM) // it settles what it has
			assert.Equal(t, s.queryCounts(t, "SELECT id, count(*) FROM effects GROUP BY id"), map[string]int{"killed": 1}, "effects")
			for _, p := range s.listDead(t) {
				assert.Equal(t, p.Message.ID, "bad", "what is a dead letter")
			}
		})
	}
}

// untilSome waits until a query of the database returns something.
func (s *soak) untilSome(ctx context.Context, t *testing.T, what, query string) {
	t.Helper()
	for len(s.queryCounts(t, query)) == 0 {
		assert.NoError(t, pauseFor(ctx, 50*time.Millisecond), "%s", what)
	}
}
