package amqpidem_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/mqtest"
)

// short are delays for tests, in addition to that of mqtest.
var short = []time.Duration{time.Millisecond, 300 * time.Millisecond, time.Minute}

func quietDialing() amqpidem.Dialing { return amqpidem.Dialing{Logger: quiet} }

// TestSuite runs the contract suite on the real broker.
func TestSuite(t *testing.T) {
	t.Parallel()
	for name, quorum := range map[string]bool{"classic": false, "quorum": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := rabbit(t).vhost(t)
			mqtest.Run(t, mqtest.Config{Fill: fillHeaders, Queue: func(tb testing.TB) mqtest.Queue {
				tb.Helper()
				o := &amqpidem.Options{Quorum: quorum, Delays: short, Dialing: quietDialing()}
				queue := uniqueQueue()
				assert.NoError(tb, amqpidem.Declare(tb.Context(), url, queue, o), "Declare")
				return mqtest.Queue{
					Topic: queue, Publisher: publisher(tb, url, nil), DeadLetters: deadLetters(tb, url, queue),
					Open: func(tb testing.TB) mqtest.Source {
						tb.Helper()
						return open(tb, url, queue, o)
					},
					Trim: func(tb testing.TB) { tb.Helper(); purge(tb, url, queue) }, TrimIsSilent: true,
				}
			}})
		})
	}
}

// fillHeaders leaves no room for a reason: headers must fit into a frame.
func fillHeaders(m *mqidem.Message) { m.Headers["large"] = bytes.Repeat([]byte("h"), 126_500) }
