package natsidem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// A message that is redriven within the duplicate window is not dropped, however often. A duplicate
// from the producer still is.
func TestSendWithinDuplicateWindow(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), nil)
	s, deadLetters := q.open(t), q.deadLetters(t)
	q.publish(t, "1")
	assert.NoError(t, receive(t, s, "1").Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
	for range 3 {
		assert.NoError(t, deadLetters.Send(t.Context(), deadOf(t, q)[0].Message), "Send")
		d := receive(t, s, "1")
		assert.Equal(t, d.Message().ID, "1", "the id")
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
	q.publish(t, "1", "2")
	receive(t, s, "2")
}

// Keys of any bytes and headers are unchanged, also after a dead letter. Commands to the server are
// not sent again.
func TestContentKept(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), nil)
	s := q.open(t)
	for i, key := range []string{"plain", "a b", "ü", "\x00\xff\r\n", `"quoted"`, `"`, " trimmed ", "a%20b"} {
		id := fmt.Sprint(i)
		m := outbox.Message{ID: id, Topic: q.subject, Key: key, ContentType: "text/plain", Headers: map[string]string{
			"X-One": "1", "lower": "ä", "Nats-Rollup": "all", "Nats-Expected-Stream": "another",
		}}
		assert.NoError(t, q.pub.Publish(t.Context(), []outbox.Outgoing{{Message: m}})[0], "publish")
		want := map[string][]byte{"X-One": []byte("1"), "lower": []byte("ä")}
		d := receive(t, s, id)
		assert.Equal(t, d.Message().Key, key, "key")
		assert.Equal(t, d.Message().Headers, want, "headers")
		assert.NoError(t, d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
		p := deadOf(t, q)[i]
		assert.Equal(t, p.Message.Headers, want, "headers of the dead letter")
		assert.NoError(t, q.deadLetters(t).Send(t.Context(), p.Message), "Send")
		d = receive(t, s, id)
		assert.Equal(t, d.Message().Key, key, "key")
		assert.Equal(t, d.Message().ContentType, "text/plain", "content type")
		assert.Equal(t, d.Message().Headers, want, "headers")
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// A message of another program has the id that its producer set for the server, or none.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), nil)
	_, err := q.js.PublishMsg(t.Context(), &nats.Msg{Subject: q.subject, Header: nats.Header{"Nats-Msg-Id": {"theirs"}, "Two": {"a", "b"}}})
	assert.NoError(t, err, "publish")
	_, err = q.js.Publish(t.Context(), q.o.Stream+".other", []byte("body"))
	assert.NoError(t, err, "publish")
	s := q.open(t)
	first := receive(t, s, "theirs").Message()
	assert.Equal(t, first.Header("Two"), "b", "the last header counts")
	second := receive(t, s, "").Message()
	assert.Equal(t, second.Source, q.o.Stream+".other", "source")
	assert.True(t, !second.Published.IsZero(), "it says when the server got it")
}

// A message that fills the limit becomes a dead letter without the text of its error, which would
// not fit.
func TestDeadLetterFull(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, func(o *server.Options) { o.MaxPayload = 4 << 10 })
	q := newQueue(t, srv.addr(), nil)
	body := bytes.Repeat([]byte("x"), 3400)
	_, err := q.js.Publish(t.Context(), q.subject, body, jetstream.WithMsgID("1"))
	assert.NoError(t, err, "publish")
	d := receive(t, q.open(t), "1")
	assert.NoError(t, d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadTries, Error: strings.Repeat("e", 1000), Tries: 3}), "Dead")
	p := deadOf(t, q)[0]
	assert.Equal(t, p.Message.Body, body, "body")
	assert.Equal(t, p.Reason, mqidem.Reason{Why: mqidem.DeadTries, Tries: 3}, "reason")
}

// An unreadable dead letter is shown. A walk does not see messages that were added after its start,
// and two walks do not disturb each other.
func TestWalks(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedServer(t).addr(), nil)
	s, deadLetters := q.open(t), q.deadLetters(t)
	_, err := q.js.PublishMsg(t.Context(), &nats.Msg{Subject: "retrysafe.dead." + q.o.Stream + ".somewhere", Header: nats.Header{mqidem.HeaderDead: {"{"}}})
	assert.NoError(t, err, "publish")
	q.publish(t, "1", "2", "3")
	for _, id := range []string{"1", "2"} {
		assert.NoError(t, receive(t, s, id).Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadTries}), "Dead")
	}
	var seen []string
	assert.NoError(t, deadLetters.Walk(t.Context(), func(ctx context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		seen = append(seen, p.Reason.Why+" "+p.Message.ID)
		if len(seen) == 1 {
			assert.Equal(t, p.Message.Source, "somewhere", "source of the unreadable one")
			assert.NoError(t, receive(t, s, "3").Dead(ctx, mqidem.Reason{Why: mqidem.DeadTries}), "Dead")
			return mqidem.Remove, deadLetters.Walk(ctx, func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) { return mqidem.Remove, nil })
		}
		return mqidem.Keep, nil
	}), "Walk")
	assert.Equal(t, seen, []string{"unreadable "}, "what the outer walk has seen")
	assert.Equal(t, len(deadOf(t, q)), 0, "dead letters")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, deadLetters.Walk(ended, nil), context.Canceled, "a walk whose context has ended")
	assert.True(t, errors.Is(deadLetters.Send(ended, &mqidem.Message{Source: q.subject}), context.Canceled), "Send whose context has ended")
}

// A walk returns an error if its request gets no answer, however long its caller would wait: when
// the connection and with it the answer is lost, or after the timeout.
func TestWalkUnanswered(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"the connection is cut": time.Hour, "the server hangs": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, sharedServer(t).addr(), nil)
			s := q.open(t)
			q.publish(t, "1", "2")
			for _, id := range []string{"1", "2"} {
				assert.NoError(t, receive(t, s, id).Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadTries}), "Dead")
			}
			p := startProxy(t, sharedServer(t).addr())
			o := q.o
			o.Timeout = timeout
			deadLetters, err := natsidem.OpenDeadLetters(t.Context(), connect(t, p.Addr), &o)
			assert.NoError(t, err, "OpenDeadLetters")
			for n := range 2 { // at the first request, and at that for the second message
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
				defer cancel()
				silence := func() {
					p.Stall()
					if name != "the connection is cut" {
						return
					}
					before := p.questionCount()
					go func() {
						defer p.Flow()
						eventually(t, "it is asked", func() bool { return p.questionCount() > before })
						p.Break()
					}()
				}
				if n == 0 {
					silence()
				}
				err = deadLetters.Walk(ctx, func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) {
					silence()
					return mqidem.Keep, nil
				})
				assert.True(t, err != nil && ctx.Err() == nil, "the walk ended by %v", err)
				p.Flow()
				eventually(t, "the connection is back", func() bool {
					return deadLetters.Walk(ctx, func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) { return mqidem.Keep, nil }) == nil
				})
			}
			assert.Equal(t, len(deadOf(t, q)), 2, "dead letters")
		})
	}
}
