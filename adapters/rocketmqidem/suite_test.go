package rocketmqidem_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/rocketmqidem"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/mqtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	for name, ordered := range map[string]bool{"ordered": true, "unordered": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := sharedBroker(t)
			mqtest.Run(t, mqtest.Config{Ordered: ordered, Fill: fillHeaders, Patience: 5 * time.Minute, Queue: func(tb testing.TB) mqtest.Queue {
				tb.Helper()
				q := newQueue(tb, r, func(o *rocketmqidem.Options, _ *rocketmqidem.TopicOptions) { o.Ordered = ordered })
				return mqtest.Queue{
					Topic: q.o.Topic, Publisher: q.pub, DeadLetters: q.deadLetters, Open: func(tb testing.TB) mqtest.Source { tb.Helper(); return q.openSource(tb) },
					LosePlace: q.losePlace,
				}
			}})
		})
	}
}

// fillHeaders leaves no room for a reason: the properties of a message have 32767 bytes.
func fillHeaders(m *mqidem.Message) {
	m.Headers = map[string][]byte{"large": []byte(strings.Repeat("x", 32_767-200))}
}
