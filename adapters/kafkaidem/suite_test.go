package kafkaidem_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/adapters/kafkaidem"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/mqtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	for name, unordered := range map[string]bool{"ordered": false, "unordered": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachKafka(t, func(t *testing.T, k brokers) {
				t.Helper()
				mqtest.Run(t, mqtest.Config{Ordered: !unordered, Fill: fillBody, Queue: func(tb testing.TB) mqtest.Queue {
					tb.Helper()
					q := newQueue(tb, k, func(o *kafkaidem.Options, _ *kafkaidem.TopicOptions) { o.Unordered = unordered })
					return mqtest.Queue{
						Topic: q.o.Topic, Publisher: q.pub, DeadLetters: q.deadLetters, Open: func(tb testing.TB) mqtest.Source { tb.Helper(); return q.open(tb) },
						LosePlace: q.losePlace, Trim: q.trimAll, TrimIsSilent: true,
					}
				}})
			})
		})
	}
}

// fillBody leaves no room for a reason: the client's batches have slightly more than a million
// bytes.
func fillBody(m *mqidem.Message) { m.Body = make([]byte, 1_000_012-200) }
