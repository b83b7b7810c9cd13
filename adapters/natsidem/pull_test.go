package natsidem_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// A message without a body and with a header named like the server's status of requests is a
// message.
func TestStatusHeader(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), nil)
	s := q.open(t)
	for _, status := range []string{"100", "404", "408", "409", "shipped"} {
		_, err := q.js.PublishMsg(t.Context(), &nats.Msg{Subject: q.subject, Header: nats.Header{mqidem.HeaderID: {status}, "Status": {status}}})
		assert.NoError(t, err, "publish")
		d := receive(t, s, status)
		assert.Equal(t, d.Message().Header("Status"), status, "the header")
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// countRequests counts the requests of a consumer for messages. If there is a status, it answers
// each in place of the server.
func (q *queue) countRequests(t *testing.T, status *atomic.Value) *atomic.Int64 {
	t.Helper()
	var n atomic.Int64
	nc := connect(t, q.js.Conn().ConnectedAddr()).Conn()
	_, err := nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT."+q.o.Stream+"."+q.o.Consumer, func(m *nats.Msg) {
		n.Add(1)
		if word, _ := status.Load().(string); word != "" {
			_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{"Status": {word}, "Description": {"a test says so"}}})
		}
	})
	assert.NoError(t, err, "subscribe")
	assert.NoError(t, nc.Flush(), "flush")
	return &n
}

// A source respects limits of the consumer that are lowered while it is open.
func TestLimitsLowered(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), func(o *natsidem.Options, _ *jetstream.StreamConfig) { o.Prefetch = 16 })
	s := q.open(t)
	q.publish(t, "first")
	assert.NoError(t, receive(t, s, "first").Ack(t.Context()), "Ack")
	info, err := q.consumer(t).Info(t.Context())
	assert.NoError(t, err, "look at the consumer")
	info.Config.MaxRequestBatch, info.Config.MaxRequestExpires = 2, 10*time.Second
	_, err = q.js.UpdateConsumer(t.Context(), q.o.Stream, info.Config)
	assert.NoError(t, err, "update")
	n := q.countRequests(t, new(atomic.Value))
	const all = 50
	for i := range all {
		q.publish(t, fmt.Sprint(i))
	}
	for i := range all {
		assert.NoError(t, receive(t, s, fmt.Sprint(i)).Ack(t.Context()), "Ack")
	}
	assert.True(t, n.Load() <= 2*all, "for %d messages it was asked %d times", all, n.Load())
}

// A source that is refused logs it, asks less and less often, and receives messages when the server
// no longer refuses.
func TestRefused(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	q := newQueue(t, sharedServer(t).addr(), func(o *natsidem.Options, _ *jetstream.StreamConfig) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	var status atomic.Value
	status.Store("409")
	n := q.countRequests(t, &status)
	began := time.Now()
	s := q.open(t)
	waiting, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Receive(waiting)
		ended <- err
	}()
	eventually(t, "while it is refused it asks now and then", func() bool { return n.Load() >= 7 })
	// At least five pauses, of at least 100 ms each.
	assert.True(t, time.Since(began) >= 500*time.Millisecond, "it was asked %d times in %v", n.Load(), time.Since(began))
	end()
	assert.ErrorIs(t, <-ended, context.Canceled, "Receive of nothing")
	status.Store("")
	q.publish(t, "1", "2")
	assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
	assert.NoError(t, receive(t, s, "2").Ack(t.Context()), "Ack")
	assert.NoError(t, s.Close(), "Close")
	assert.Contains(t, log.String(), "refuses to be asked", "the log")
}
