package natsidem_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// A message without a body that has a header of the name in which the server speaks of requests is a message.
func TestStatusHeader(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), nil)
	s := q.open(t)
	for _, status := range []string{"100", "404", "408", "409", "shipped"} {
		_, err := q.js.PublishMsg(t.Context(), &nats.Msg{Subject: q.subject, Header: nats.Header{mqidem.HeaderID: {status}, "Status": {status}}})
		assert.NoError(t, err, "publish")
		d := receive(t, s, status)
		assert.Equal(t, string(d.Message().Header("Status")), status, "the header")
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}
