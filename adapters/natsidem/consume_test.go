package natsidem_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// All messages are published twice, consumers are cut off again and again, and some handlers fail.
// Each effect happens once, and poison messages become dead letters.
func TestConsumeThroughFaults(t *testing.T) {
	t.Parallel()
	const n = 300
	q := newQueue(t, sharedServer(t).addr(), func(o *natsidem.Options, _ *jetstream.StreamConfig) {
		o.AckWait, o.Prefetch, o.Timeout = 10*time.Second, 0, time.Hour
	})
	p := startProxy(t, sharedServer(t).addr())
	var batch []outbox.Outgoing
	for i := range n {
		id := fmt.Sprintf("%03d", i)
		batch = append(batch, outbox.Outgoing{Message: outbox.Message{ID: id, Topic: q.subject, Payload: []byte(id)}})
	}
	for i, err := range q.pub.Publish(t.Context(), batch) {
		assert.NoError(t, err, "publish")
		// the server does not recognise it as a duplicate
		m := &nats.Msg{Subject: q.subject, Header: nats.Header{mqidem.HeaderID: {batch[i].ID}}}
		_, err := q.js.PublishMsg(t.Context(), m)
		assert.NoError(t, err, "publish")
	}

	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Secret: []byte("a secret of tests"), Logger: quiet})
	defer func() { _ = e.Shutdown(context.Background()) }()
	var mu sync.Mutex
	unanswered := 0
	tries, effects, ended := map[string]int{}, map[string]int{}, map[string]bool{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	handler := mqidem.Once(e, "stock", func(_ context.Context, m *mqidem.Message) error {
		mu.Lock()
		defer mu.Unlock()
		switch tries[m.ID]++; {
		case m.ID[2] == '7':
			return mqidem.Poison(errors.New("no such thing"))
		case m.ID[2] == '3' && tries[m.ID] == 1:
			return errors.New("no stock")
		}
		if effects[m.ID]++; len(effects)%40 == 0 {
			p.Break()
		}
		return nil
	})
	observe := func(_ context.Context, o mqidem.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(o.Err, context.DeadlineExceeded) {
			unanswered++
		}
		if o.What == mqidem.OutcomeDone || o.What == mqidem.OutcomeDead || o.What == mqidem.OutcomeDuplicate {
			if ended[o.Message.ID] = true; len(ended) == n {
				stop()
			}
		}
	}
	var consumers sync.WaitGroup
	began := time.Now()
	// both are open before the first connection is cut
	sources := []mqidem.Source{q.openOn(t, connect(t, p.Addr)), q.openOn(t, connect(t, p.Addr))}
	for _, s := range sources {
		consumers.Go(func() {
			if err := mqidem.Consume(ctx, s, handler, &mqidem.Options{HoldsFor: time.Hour, Backoff: func(int) time.Duration { return 50 * time.Millisecond }, OnOutcome: observe, Logger: quiet}); err != nil {
				t.Errorf("Consume: %v", err)
				stop()
			}
		})
	}
	consumers.Wait()
	t.Logf("%d messages in %v", 2*n, time.Since(began))
	assert.Equal(t, unanswered, 0, "acks without an answer: what was asked on a connection that was lost is asked again")
	dead := map[string]bool{}
	for _, p := range deadOf(t, q) {
		assert.Equal(t, p.Reason.Why, mqidem.DeadPoison, "why %s is a dead letter", p.Message.ID)
		dead[p.Message.ID] = true
	}
	for i := range n {
		id := fmt.Sprintf("%03d", i)
		if id[2] == '7' {
			assert.True(t, dead[id] && effects[id] == 0, "%s is a dead letter", id)
			continue
		}
		assert.Equal(t, effects[id], 1, "effects of %s", id)
	}
	assert.Equal(t, len(dead), n/10, "messages that are dead letters")
}
