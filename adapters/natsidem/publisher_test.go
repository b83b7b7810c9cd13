package natsidem_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

func outgoingMessage(subject, id string, size int) outbox.Outgoing {
	return outbox.Outgoing{Message: outbox.Message{ID: id, Topic: subject, Payload: make([]byte, size)}}
}

// A duplicate of an id is a success, and is not stored again.
func TestPublishRepeat(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), nil)
	q.publish(t, "1", "1")
	stream, err := q.js.Stream(t.Context(), q.o.Stream)
	assert.NoError(t, err, "stream")
	assert.Equal(t, stream.CachedInfo().State.Msgs, 1, "messages")
}

// A message that can never be published gets a permanent error, others do not, and each message of
// a batch has its own error.
func TestPublishErrors(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, func(o *server.Options) { o.MaxPayload = 8 << 10 })
	q := newQueue(t, srv.addr(), func(_ *natsidem.Options, c *jetstream.StreamConfig) { c.MaxMsgSize = 4 << 10 })
	odd := outgoingMessage(q.subject, "8", 10)
	odd.Headers = map[string]string{"a(b": "1"}
	errs := q.pub.Publish(t.Context(), []outbox.Outgoing{
		outgoingMessage(q.subject, "1", 10), outgoingMessage(q.subject, "2", 9<<10), outgoingMessage(q.subject, "3", 5<<10), outgoingMessage("nobody.listens", "4", 1), outgoingMessage("no subject", "6", 1),
		outgoingMessage(q.subject, "7", 10), odd,
	})
	assert.NoError(t, errs[0], "one that fits")
	assert.Contains(t, errs[1].Error(), "permanent: natsidem: not confirmed: the message is larger", "one that is over max_payload")
	assert.Contains(t, errs[2].Error(), "permanent: natsidem: not confirmed: the message is larger", "one that is over the stream's limit")
	assert.Contains(t, errs[3].Error(), "natsidem: not confirmed: no stream takes the subject", "one that no stream takes")
	assert.Contains(t, errs[4].Error(), "permanent: natsidem: not confirmed: the subject", "one with a space in its subject")
	assert.NoError(t, errs[5], "one behind them")
	assert.Contains(t, errs[6].Error(), "permanent: natsidem: not confirmed: the subject or the name of a header", "one with a header that cannot be sent")
	for _, word := range []string{"permanent", "not available"} {
		assert.True(t, !strings.Contains(errs[3].Error(), word), "a stream may be made for the subject, so it is not %s: %v", word, errs[3])
	}
}

// A user without the permission for a subject gets an error that says so, and other subjects work.
func TestPermissionDenied(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "a secret"},
			{Username: "shop", Password: "a secret", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"*.placed", "$JS.API.>", "$JS.ACK.>"}, Deny: []string{"*.denied"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		}
	})
	q := newQueue(t, "admin:a%20secret@"+srv.addr(), shortAckWait)
	p := startProxy(t, srv.addr())
	js := connect(t, "shop:a%20secret@"+p.Addr)
	pub, err := natsidem.NewPublisher(js, &natsidem.PublisherOptions{Timeout: 10 * time.Second})
	assert.NoError(t, err, "publisher")
	defer pub.Close()
	denied := q.o.Stream + ".denied"
	errs := pub.Publish(t.Context(), []outbox.Outgoing{outgoingMessage(denied, "1", 1), outgoingMessage(q.subject, "2", 1)})
	assert.ErrorIs(t, errs[0], nats.ErrPermissionViolation, "a subject that is not allowed")
	assert.Contains(t, errs[0].Error(), "natsidem: not confirmed: the server refuses the subject to this user; allow it", "a subject that is not allowed")
	assert.True(t, !strings.Contains(errs[0].Error(), "secret"), "no secret in %v", errs[0])
	assert.NoError(t, errs[1], "a subject that is allowed")

	// It may consume messages but not write dead letters, so it holds them.
	o := q.o
	o.Timeout = 10 * time.Second
	others := q.openOn(t, connect(t, "admin:a%20secret@"+srv.addr()))
	s, err := natsidem.Open(t.Context(), js, &o)
	assert.NoError(t, err, "Open")
	defer s.Close()
	d := receive(t, s, "2")
	err = d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison})
	assert.Contains(t, err.Error(), "could not be stored; the message stays where it is: the server refuses the subject", "Dead")
	p.beatsGoOn(t)
	expectNothing(t, others, 50*time.Millisecond)
	info, err := q.consumer(t).Info(t.Context())
	assert.NoError(t, err, "look at the consumer")
	assert.Equal(t, info.NumRedelivered, 0, "messages that came again, to whomever")
	assert.NoError(t, d.Ack(t.Context()), "Ack")
	expectNothing(t, others, 50*time.Millisecond)
}

// A closed publisher forgets what it waits for, and does not close the connection.
func TestPublisherClose(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), nil)
	q.publish(t, "1")
	_ = q.pub.Close()
	assert.True(t, q.js.Conn().IsConnected(), "the connection stays")
	assert.Equal(t, q.js.Conn().NumSubscriptions(), 1, "subscriptions (the one for replies)")
}
