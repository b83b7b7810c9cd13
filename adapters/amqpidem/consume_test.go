package amqpidem_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestConsume: the whole cycle, while connections break at every third ack. Work is done once,
// failed messages are redelivered, poison messages become dead letters, and redriven ones are done.
func TestConsume(t *testing.T) {
	t.Parallel()
	p := behindProxy(t)
	s := p.open(t)
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: make([]byte, 32), Logger: quiet})
	t.Cleanup(func() { _ = engine.Shutdown(context.Background()) })
	var mu sync.Mutex
	did, broken := map[string]int{}, true
	work := mqidem.Once(engine, "work", func(_ context.Context, m *mqidem.Message) error {
		mu.Lock()
		defer mu.Unlock()
		did[m.ID]++
		switch {
		case m.ID == "poison" && broken:
			return mqidem.Poison(errors.New("no"))
		case m.ID == "second" && did[m.ID] < 2:
			return retrysafe.NothingDone(errors.New("not now"))
		}
		return nil
	})
	p.setHook(func(m method, n int) fate {
		if m == acks && n%3 == 0 {
			return lose
		}
		return pass
	})
	const n = 20
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	consumed := make(chan error, 1)
	go func() {
		consumed <- mqidem.Consume(ctx, s, work, &mqidem.Options{
			Backoff: mqidem.Fixed(time.Millisecond), Logger: quiet,
		})
	}()
	out := publisher(t, p.url, nil)
	for range 2 { // the producer sends all again
		for i := range n {
			publish(t, out, p.queue, "message "+string(rune('a'+i)))
		}
		publish(t, out, p.queue, "second", "poison")
	}
	wait := func(what string, ok func() bool) {
		t.Helper()
		eventually(t, what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return ok()
		})
	}
	wait("all are done", func() bool { return len(did) == n+2 && did["second"] == 2 })
	dead := deadLetters(t, p.url, p.queue)
	eventually(t, "one is a dead letter", func() bool { return queueDepth(t, p.url, p.queue+".dead") > 0 })
	mu.Lock()
	broken = false
	failed := did["poison"] // more than once if the ack of the dead letter was lost
	mu.Unlock()
	// If the connection of a dead letter is gone before the ack, the message is tried again, and
	// may use up its tries that way.
	r, err := mqidem.NewRedriver(engine, dead, &mqidem.RedriverOptions{Why: []string{mqidem.DeadPoison, mqidem.DeadTries}, After: -1, Logger: quiet})
	assert.NoError(t, err, "NewRedriver")
	eventually(t, "it is put back, and nothing is a dead letter", func() bool {
		_, err := r.Once(t.Context())
		assert.NoError(t, err, "Redriver.Once")
		return queueDepth(t, p.url, p.queue+".dead") == 0
	})
	wait("it is done", func() bool { return did["poison"] > failed })
	p.setHook(nil)
	eventually(t, "the queue is empty", func() bool { return queueDepth(t, p.url, p.queue) == 0 })
	stop()
	assert.NoError(t, <-consumed, "Consume")
	for id, times := range did {
		switch id {
		case "second":
			assert.Equal(t, times, 2, "how often %s was worked on", id)
		case "poison":
		default:
			assert.Equal(t, times, 1, "how often %s was worked on", id)
		}
	}
}
