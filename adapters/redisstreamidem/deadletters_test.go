package redisstreamidem_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// Any bytes are unchanged, also after a dead letter. A header may have the name of a field.
func TestContentKept(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	s := q.open(t)
	for i, key := range []string{"", "plain", "\x00\xff\r\n", "ü"} {
		id := fmt.Sprint(i)
		m := outbox.Message{ID: id, Topic: q.o.Stream, Key: key, ContentType: "text/plain", Payload: []byte("content"), Headers: map[string]string{
			"x": "1", "body": "a header", "content-type": "another",
		}}
		assert.NoError(t, q.pub.Publish(t.Context(), []outbox.Outgoing{{Message: m}})[0], "publish")
		same := func(m *mqidem.Message) {
			t.Helper()
			assert.Equal(t, m.Key, key, "key")
			assert.Equal(t, m.ContentType, "text/plain", "content type")
			assert.Equal(t, string(m.Body), "content", "body")
			assert.Equal(t, m.Headers, map[string][]byte{"x": []byte("1"), "body": []byte("a header")}, "headers")
		}
		d := receive(t, s, id)
		same(d.Message())
		assert.True(t, !d.Message().Published.IsZero(), "it says when the server got it")
		assert.NoError(t, d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
		p := q.listDead(t)[i]
		same(p.Message)
		assert.NoError(t, q.deadLetters(t).Send(t.Context(), p.Message), "Send")
		d = receive(t, s, id)
		same(d.Message())
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// Entries of other programs are read with the fields that they have.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	q.c.command(t, "XADD", q.o.Stream, "1-5", "order", "7", "order", "8")
	m := receive(t, q.open(t), "").Message()
	assert.Equal(t, m.Headers, map[string][]byte{"order": []byte("8")}, "headers: the last counts")
	assert.True(t, len(m.Body) == 0 && m.Published.IsZero(), "it has no body, and its id is no time")
}

// A walk of several pages does not see messages that were added after its start. Two walks do not
// disturb each other, and unreadable dead letters are shown.
func TestWalks(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	s, deadLetters := q.open(t), q.deadLetters(t)
	assert.NoError(t, deadLetters.Walk(t.Context(), nil), "a walk of what is not there")
	q.c.command(t, "XADD", "{"+q.o.Stream+"}:dead", "*", "retrysafe-dead", "{", "body", "x")
	const n = 50
	for i := range n {
		q.publish(t, fmt.Sprint(i))
		assert.NoError(t, receive(t, s, fmt.Sprint(i)).Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadTries}), "Dead")
	}
	q.publish(t, "late")
	late := receive(t, s, "late")
	seen := 0
	assert.NoError(t, deadLetters.Walk(t.Context(), func(ctx context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
		if seen++; seen == 1 {
			assert.Equal(t, p.Reason.Why, mqidem.DeadUnreadable, "why")
			assert.Equal(t, p.Message.Source, q.o.Stream, "source")
			assert.NoError(t, late.Dead(ctx, mqidem.Reason{Why: mqidem.DeadTries}), "Dead")
			return mqidem.Remove, nil
		}
		assert.Equal(t, p.Message.ID, fmt.Sprint(seen-2), "the order")
		return mqidem.Verdict(seen % 2), nil
	}), "Walk")
	assert.Equal(t, seen, n+1, "messages that the walk has seen")
	assert.Equal(t, len(q.listDead(t)), n/2+1, "messages that are left")
	assert.NoError(t, deadLetters.Walk(t.Context(), func(ctx context.Context, _ *mqidem.DeadLetter) (mqidem.Verdict, error) {
		return mqidem.Remove, deadLetters.Walk(ctx, func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) { return mqidem.Remove, nil })
	}), "a walk in a walk")
	assert.Equal(t, len(q.listDead(t)), 0, "messages that are left")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, deadLetters.Walk(ended, nil), context.Canceled, "a walk whose context has ended")
	assert.ErrorIs(t, deadLetters.Send(ended, &mqidem.Message{Source: q.o.Stream}), context.Canceled, "Send whose context has ended")
	q.c.command(t, "SET", q.o.Stream+"-text", "x")
	err := deadLetters.Send(t.Context(), &mqidem.Message{Source: q.o.Stream + "-text", Body: bytes.Repeat([]byte("x"), 10)})
	assert.Contains(t, err.Error(), "it stays in the dead-letter queue: the key is there and is no stream", "Send to what is no stream")
}

// TestNamesOfGroups: the groups of a stream are listed; a stream that does not exist has none.
func TestNamesOfGroups(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	names, err := q.deadLetters(t).Groups(t.Context())
	assert.True(t, err == nil && len(names) == 0, "no stream: %v, %v", names, err)
	q.open(t)
	q.c.command(t, "XGROUP", "CREATE", q.o.Stream, "another", "0")
	names, err = q.deadLetters(t).Groups(t.Context())
	assert.NoError(t, err, "groups")
	slices.Sort(names)
	want := []string{"another", q.o.Group}
	slices.Sort(want)
	assert.Equal(t, names, want, "groups")
}
