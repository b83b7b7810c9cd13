package natsidem_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// If an ack gets no answer, the message becomes one dead letter, however often Dead is called, and
// no other consumer gets it meanwhile.
func TestDeadWithoutAck(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), func(o *natsidem.Options, _ *jetstream.StreamConfig) {
		o.AckWait, o.Timeout = 10*time.Second, 2*time.Minute
	})
	q.publish(t, "1")
	p := startProxy(t, sharedServer(t).addr())
	s := q.openOn(t, connect(t, p.Addr))
	d := receive(t, s, "1")
	p.loseAcks(true)
	for n := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		settled := make(chan error, 1)
		go func() { settled <- d.Dead(ctx, mqidem.Reason{Why: mqidem.DeadTries}) }()
		eventually(t, "the ack is lost", func() bool {
			lost, _ := p.lostAndBeats()
			return lost > n
		})
		cancel()
		assert.ErrorIs(t, <-settled, context.Canceled, "Dead without an answer")
		assert.Equal(t, len(deadOf(t, q)), 1, "dead letters")
	}
	p.beatsGoOn(t)
	expectNothing(t, q.open(t), 50*time.Millisecond)
	expectNothing(t, s, 50*time.Millisecond) // it may have asked before
	p.loseAcks(false)
	assert.NoError(t, d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadTries}), "Dead")
	assert.Equal(t, len(deadOf(t, q)), 1, "dead letters")
	assert.ErrorIs(t, d.Ack(t.Context()), mqidem.ErrSettled, "Ack behind it")
	info, err := q.consumer(t).Info(t.Context())
	assert.NoError(t, err, "look at the consumer")
	assert.Equal(t, info.NumAckPending, 0, "messages that are not settled")
}
