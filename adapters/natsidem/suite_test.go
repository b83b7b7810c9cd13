package natsidem_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/mqtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]int{"on demand": -1, "ahead": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mqtest.Run(t, mqtest.Config{Fill: fillBody, Queue: func(tb testing.TB) mqtest.Queue {
				tb.Helper()
				q := newQueue(tb, sharedServer(tb).addr(), func(o *natsidem.Options, _ *jetstream.StreamConfig) { o.Prefetch = ahead })
				return mqtest.Queue{
					Topic: q.subject, Publisher: q.pub, DeadLetters: q.deadLetters(tb), Open: func(tb testing.TB) mqtest.Source { tb.Helper(); return q.open(tb) },
					LosePlace: q.losePlace, Trim: q.purge, TrimIsSilent: true,
				}
			}})
		})
	}
}

// fillBody leaves no room for a reason: the server accepts one mebibyte, headers included.
func fillBody(m *mqidem.Message) { m.Body = make([]byte, 1<<20-150) }
