package redisstreamidem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

func isStale(err error) bool { return errors.Is(err, mqidem.ErrStale) }

func batch(stream string, ids ...string) (b []outbox.Outgoing) {
	for _, id := range ids {
		b = append(b, outbox.Outgoing{Message: outbox.Message{ID: id, Topic: stream, Payload: []byte(id)}})
	}
	return b
}

// Many messages are sent in few calls, in order.
func TestPublishMany(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, func(o *redisstreamidem.Options) { o.Prefetch = 256 })
	var ids []string
	for i := range 1000 {
		ids = append(ids, fmt.Sprint(i))
	}
	q.publish(t, ids...)
	s := q.open(t)
	for _, id := range ids {
		assert.NoError(t, receive(t, s, id).Ack(t.Context()), "Ack")
	}
}

// A failed message holds up the later messages of its key, in any stream, and no others.
func TestPublishOrder(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	bad := q.o.Stream + "-text"
	q.c.command(t, "SET", bad, "x")
	b := batch(bad, "1", "2")
	b = append(b, batch(q.o.Stream, "3", "4", "5")...)
	b[0].Key, b[2].Key, b[3].Key = "k", "k", "other"
	many := map[string]string{}
	for i := range 2100 {
		many[fmt.Sprint("h", i)] = ""
	}
	b = append(b, batch(q.o.Stream, "6")...)
	b[5].Headers = many
	errs := q.pub.Publish(t.Context(), b)
	for _, i := range []int{0, 1} {
		assert.Contains(t, errs[i].Error(), "redisstreamidem: not confirmed: the key is there and is no stream", "message %d", i+1)
		for _, word := range []string{"permanent", "not available"} {
			assert.True(t, !strings.Contains(errs[i].Error(), word), "somebody may remove what is there, so it is not %s: %v", word, errs[i])
		}
	}
	assert.ErrorIs(t, errs[2], outbox.ErrHeldUp, "the next of its key")
	assert.NoError(t, errs[3], "another key")
	assert.NoError(t, errs[4], "no key")
	assert.Contains(t, errs[5].Error(), "permanent: redisstreamidem: the message has 2100 headers", "too many headers")
	assert.True(t, q.pub.KeepsOrder(), "KeepsOrder")
	s := q.open(t)
	for _, id := range []string{"4", "5"} {
		assert.NoError(t, receive(t, s, id).Ack(t.Context()), "Ack")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, q.pub.Publish(ended, batch(q.o.Stream, "7"))[0], context.Canceled, "Publish whose context has ended")
}

// A stream is cut to about its maximum length.
func TestMaxLen(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	pub, err := redisstreamidem.NewPublisher(q.c, &redisstreamidem.PublisherOptions{MaxLen: 100})
	assert.NoError(t, err, "publisher")
	for range 10 {
		for _, err := range pub.Publish(t.Context(), batch(q.o.Stream, strings.Split(strings.Repeat("x ", 100), " ")...)) {
			assert.NoError(t, err, "publish")
		}
	}
	n, _ := q.c.command(t, "XLEN", q.o.Stream).(int64)
	assert.True(t, n >= 100 && n < 400, "about 100 entries stay: %d", n)
}

// A server without memory accepts nothing: the outbox waits, and messages that cannot become dead
// letters stay where they are.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	q := newQueue(t, ownRedis(t).addr, withIdle(10*time.Second))
	s := q.open(t)
	q.publish(t, "1")
	d := receive(t, s, "1")
	q.c.command(t, "CONFIG", "SET", "maxmemory", "1")
	assert.Contains(t, q.pub.Publish(t.Context(), batch(q.o.Stream, "2"))[0].Error(), "the broker is not available: redisstreamidem: not confirmed: redis: OOM", "Publish")
	err := d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison})
	assert.Contains(t, err.Error(), "not settled; the message may be redelivered: redis: OOM", "Dead")
	q.c.command(t, "CONFIG", "SET", "maxmemory", "0")
	expectNothing(t, q.open(t), 12*time.Second)
	assert.Equal(t, q.pendingCount(t), 1, "pending")
	assert.NoError(t, d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead, again")
	assert.Equal(t, len(q.listDead(t)), 1, "dead letters")
}

// If a user has no permission, the error says what to allow and shows no secret.
func TestPermissions(t *testing.T) {
	t.Parallel()
	srv := ownRedis(t, "--requirepass", "a-secret")
	admin := func(o *rueidis.ClientOption) { o.Password = "a-secret" }
	a := dial(t, srv.addr, admin)
	a.command(t, "ACL", "SETUSER", "keys", "on", ">b-secret", "~*mine*", "+@all")
	a.command(t, "ACL", "SETUSER", "commands", "on", ">b-secret", "~*", "+@all", "-xadd", "-xgroup")
	for user, stream := range map[string]string{"keys": "theirs", "commands": "mine"} {
		c := dial(t, srv.addr, func(o *rueidis.ClientOption) { o.Username, o.Password = user, "b-secret" })
		_, err := redisstreamidem.Open(t.Context(), c, &redisstreamidem.Options{Stream: stream, Group: "g", Logger: quiet})
		assert.True(t, err != nil, "Open as %s is refused", user)
		assert.Contains(t, err.Error(), "the user may not do this; allow EVAL", "Open as %s", user)
		pub, err := redisstreamidem.NewPublisher(c, nil)
		assert.NoError(t, err, "publisher")
		errs := pub.Publish(t.Context(), batch(stream, "1"))
		assert.Contains(t, errs[0].Error(), "redisstreamidem: not confirmed: the user may not do this", "Publish as %s", user)
		assert.True(t, !strings.HasPrefix(errs[0].Error(), "the broker") && !strings.Contains(errs[0].Error(), "secret"), "it is of the stream, without a secret: %v", errs[0])
	}
	// The password changes while a source works. The source waits until the user is allowed again.
	c := dial(t, srv.addr, func(o *rueidis.ClientOption) { o.Username, o.Password = "keys", "b-secret" })
	q := &queue{c: a, o: redisstreamidem.Options{Stream: "mine", Group: "g", Logger: quiet}}
	var err error
	q.pub, err = redisstreamidem.NewPublisher(a, nil)
	assert.NoError(t, err, "publisher")
	s := q.openOn(t, c)
	next := make(chan string, 1)
	go func() {
		if d, err := s.Receive(t.Context()); err == nil {
			next <- d.Message().ID
		}
	}()
	a.command(t, "ACL", "SETUSER", "keys", "resetkeys")
	q.publish(t, "1")
	expectNothing(t, s, 50*time.Millisecond)
	a.command(t, "ACL", "SETUSER", "keys", "~*mine*")
	assert.Equal(t, <-next, "1", "the message")
}
