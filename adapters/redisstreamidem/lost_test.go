package redisstreamidem_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// isLost receives the report of a message that the stream has lost.
func isLost(tb testing.TB, s mqidem.Source) {
	tb.Helper()
	d := receive(tb, s, "")
	lost, ok := d.(mqidem.Lost)
	assert.True(tb, ok, "a report of a lost message, and not %q", d.Message().Body)
	assert.Contains(tb, lost.Lost().Error(), "MAXLEN", "why it is lost")
	assert.True(tb, !d.Message().Published.IsZero(), "it says when it was published")
}

// groups returns the place of each group of the stream.
func (q *queue) groups(tb testing.TB) map[string]string {
	tb.Helper()
	places := map[string]string{}
	all, _ := q.c.command(tb, "XINFO", "GROUPS", q.o.Stream).([]any)
	for _, one := range all {
		fields, _ := one.(map[string]any)
		places[fmt.Sprint(fields["name"])] = fmt.Sprint(fields["last-delivered-id"])
	}
	return places
}

const mark = "stock:retrysafe-settled"

// waitForMark waits until the mark is where everything is settled, with everything settled.
func (q *queue) waitForMark(tb testing.TB) (id string) {
	tb.Helper()
	eventually(tb, "the mark is after the last entry", func() bool {
		g := q.groups(tb)
		id = g[mark]
		return id == g["stock"] && id != "0-0"
	})
	return id
}

// The entries that a group has settled are not redelivered after the group was lost, whether its
// consumers run or not, and with or without the mark. Those that are not settled do.
func TestGroupLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		running bool
		lose    []string // groups
	}{
		"the group": {true, []string{"stock"}}, "the group, without consumers": {false, []string{"stock"}}, "the group and the mark": {true, []string{"stock", mark}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, sharedRedis(t).addr, nil)
			s := q.open(t)
			q.publish(t, "1", "2", "3")
			for _, id := range []string{"1", "2", "3"} {
				assert.NoError(t, receive(t, s, id).Ack(t.Context()), "Ack")
			}
			q.waitForMark(t)
			q.publish(t, "held", "settled after it")
			held := receive(t, s, "held")
			assert.NoError(t, receive(t, s, "settled after it").Ack(t.Context()), "Ack")
			if !c.running {
				assert.NoError(t, s.Close(), "Close")
			}
			for _, group := range c.lose {
				q.c.command(t, "XGROUP", "DESTROY", q.o.Stream, group)
			}
			if !c.running {
				s = q.open(t)
			}
			// after the mark all are redelivered: the record of the second one makes it a duplicate
			for _, id := range []string{"held", "settled after it"} {
				assert.NoError(t, receive(t, s, id).Ack(t.Context()), "Ack of %s", id)
			}
			assert.True(t, isStale(held.Ack(t.Context())), "the earlier delivery is stale")
			expectNothing(t, s, 300*time.Millisecond)
		})
	}
}

// Another group that was created after a source with Delete keeps entries that are done. If the
// group of the source is lost then, they are not redelivered, and the source goes on.
func TestGroupLostWithDelete(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string][]string{"the group": {"stock"}, "the group and the mark": {"stock", mark}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, sharedRedis(t).addr, func(o *redisstreamidem.Options) { o.Delete = true })
			s := q.open(t)
			q.publish(t, "deleted")
			assert.NoError(t, receive(t, s, "deleted").Ack(t.Context()), "Ack")
			q.c.command(t, "XGROUP", "CREATE", q.o.Stream, "points", "0")
			q.publish(t, "1", "2")
			for _, id := range []string{"1", "2"} {
				assert.NoError(t, receive(t, s, id).Ack(t.Context()), "Ack")
			}
			q.waitForMark(t)
			for _, group := range lose {
				q.c.command(t, "XGROUP", "DESTROY", q.o.Stream, group)
			}
			q.publish(t, "3")
			assert.NoError(t, receive(t, s, "3").Ack(t.Context()), "Ack of the first one that was not settled")
			q.waitForMark(t)
			assert.Equal(t, q.c.command(t, "XLEN", q.o.Stream), any(int64(3)), "entries that the other group needs")
			assert.NoError(t, s.Close(), "Close")

			q.c.command(t, "XGROUP", "DESTROY", q.o.Stream, "stock")
			o := q.o
			_, err := redisstreamidem.Open(t.Context(), q.c, &o)
			assert.Contains(t, fmt.Sprint(err), "the stream has other groups", "Open with Delete")
			q.o.Delete = false
			q.publish(t, "4")
			assert.NoError(t, receive(t, q.open(t), "4").Ack(t.Context()), "Ack by a later source")
		})
	}
}

// The mark follows what is settled, and stays before an entry that is not.
func TestMark(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	s := q.open(t)
	q.publish(t, "1", "2", "3")
	one, two := receive(t, s, "1"), receive(t, s, "2")
	assert.NoError(t, receive(t, s, "3").Ack(t.Context()), "Ack")
	assert.NoError(t, one.Ack(t.Context()), "Ack")
	first := entryID(t, q, 0)
	eventually(t, "the mark is before the entry that is held", func() bool { return q.groups(t)[mark] == first })
	assert.NoError(t, two.Ack(t.Context()), "Ack")
	assert.Equal(t, q.waitForMark(t), entryID(t, q, 2), "the mark, when all is settled")
	names, err := q.deadLetters(t).Groups(t.Context())
	assert.NoError(t, err, "Groups")
	assert.Equal(t, names, []string{"stock"}, "the groups that are shown")

	q = newQueue(t, sharedRedis(t).addr, func(o *redisstreamidem.Options) { o.Delete = true })
	s = q.open(t)
	q.publish(t, "1")
	assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
	assert.NoError(t, s.Close(), "Close")
	assert.Equal(t, len(q.groups(t)), 1, "groups with Delete: what is in the stream is not settled")
}

// entryID returns the id of an entry of the stream.
func entryID(tb testing.TB, q *queue, n int) string {
	tb.Helper()
	all, _ := q.c.command(tb, "XRANGE", q.o.Stream, "-", "+").([]any)
	entry, _ := all[n].([]any)
	return fmt.Sprint(entry[0])
}

// If the group and its mark are gone and the stream ends before what was settled, no one knows
// whether its entries are new: the source ends, and says what to do.
func TestPlaceUnknown(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	s := q.open(t)
	q.publish(t, "1")
	assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
	q.waitForMark(t)
	q.c.command(t, "EVAL", "redis.call('DEL', KEYS[1]) return redis.call('XADD', KEYS[1], '1-1', 'body', 'x')", "1", q.o.Stream)
	_, err := s.Receive(t.Context())
	assert.True(t, err != nil, "Receive ends")
	for _, part := range []string{"is gone, and the stream ends before", "XGROUP CREATE " + q.o.Stream + " stock 0", "XGROUP CREATE " + q.o.Stream + " stock $"} {
		assert.Contains(t, err.Error(), part, "the error")
	}
	assert.NoError(t, s.Close(), "Close")
	q.c.command(t, "XGROUP", "CREATE", q.o.Stream, "stock", "0")
	assert.NoError(t, receive(t, q.open(t), "").Ack(t.Context()), "Ack, after the operator has decided")
}

// Entries that were cut from the stream while a dead consumer had them are reported as lost. The
// report reaches OnOutcome and the log.
func TestTrimmedOfDeadConsumer(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, func(o *redisstreamidem.Options) { o.Prefetch = 0 })
	q.c.command(t, "XGROUP", "CREATE", q.o.Stream, "stock", "0", "MKSTREAM")
	q.publish(t, "1", "2", "3")
	q.c.command(t, "XREADGROUP", "GROUP", "stock", "who died", "COUNT", "3", "STREAMS", q.o.Stream, ">")
	q.makeIdle(t, time.Hour)
	q.c.command(t, "XADD", q.o.Stream, "MAXLEN", "1", "*", "retrysafe-id", "new", "body", "x")
	e := retrysafe.New(newStore(), &retrysafe.Options{Sweep: -1, Secret: []byte("a secret of tests"), Logger: quiet})
	defer func() { _ = e.Shutdown(context.Background()) }()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	outcomes := make(chan string, 10)
	var log heard
	ended := make(chan error, 1)
	go func() {
		ended <- mqidem.Consume(ctx, q.open(t), mqidem.Once(e, "stock", func(context.Context, *mqidem.Message) error { return nil }), &mqidem.Options{
			HoldsFor: time.Hour, Logger: log.logger(), OnOutcome: func(_ context.Context, o mqidem.Outcome) { outcomes <- o.What },
		})
	}()
	var seen []string
	for range 4 {
		select {
		case what := <-outcomes:
			seen = append(seen, what)
		case err := <-ended:
			t.Fatalf("Consume has ended: %v, after %v", err, seen)
		}
	}
	slices.Sort(seen)
	assert.Equal(t, seen, []string{"done", "lost", "lost", "lost"}, "outcomes")
	assert.Equal(t, q.pendingCount(t), 0, "pending")
	stop()
	assert.NoError(t, <-ended, "Consume")
	assert.Equal(t, strings.Count(log.String(), "level=ERROR"), 1, "one line for one cause: %s", log.String())
	assert.Contains(t, log.String(), "a message is lost", "the log")
}

// A message that a live consumer holds when its entry is cut off can still be settled: it has all
// of it. There is no later try.
func TestTrimmedWhileHeld(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, withIdle(300*time.Millisecond))
	s := q.open(t)
	q.publish(t, "acked", "dead", "later")
	acked, dead, later := receive(t, s, "acked"), receive(t, s, "dead"), receive(t, s, "later")
	q.c.command(t, "XTRIM", q.o.Stream, "MAXLEN", "0")
	eventually(t, "the source has noticed it", func() bool { return q.pendingCount(t) == 0 })
	assert.NoError(t, acked.Ack(t.Context()), "Ack")
	assert.NoError(t, dead.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
	assert.Equal(t, len(q.listDead(t)), 1, "dead letters")
	assert.NoError(t, later.Retry(t.Context(), 0), "Retry")
	isLost(t, s)
	q.publish(t, "next")
	assert.NoError(t, receive(t, s, "next").Ack(t.Context()), "Ack")
}

// Another consumer notices that an entry was cut off, and acks it. The one that holds the message
// settles it all the same, before it knows.
func TestTrimmedAndNoticedElsewhere(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	s := q.open(t)
	q.publish(t, "acked", "dead")
	acked, dead := receive(t, s, "acked"), receive(t, s, "dead")
	ids := q.pendingIDs(t)
	assert.Equal(t, len(ids), 2, "pending")
	q.c.command(t, "XTRIM", q.o.Stream, "MAXLEN", "0")
	q.c.command(t, append([]string{"XACK", q.o.Stream, q.o.Group}, ids...)...)
	assert.NoError(t, acked.Ack(t.Context()), "Ack")
	assert.NoError(t, dead.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
	assert.Equal(t, len(q.listDead(t)), 1, "dead letters")
}

// A source says that entries stay for ever, unless it removes them.
func TestHoldsFor(t *testing.T) {
	t.Parallel()
	for remove, want := range map[bool]time.Duration{false: retrysafe.Forever, true: 0} {
		got, err := newQueue(t, sharedRedis(t).addr, func(o *redisstreamidem.Options) { o.Delete = remove }).open(t).HoldsFor(t.Context())
		assert.NoError(t, err, "HoldsFor")
		assert.Equal(t, got, want, "HoldsFor with Delete %v", remove)
	}
}

// A user with the rights of docs/messages.md, on the stream and its dead letters alone, can do all
// that a source and a dead-letter queue do.
func TestUserRights(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, withIdle(300*time.Millisecond))
	q.c.command(t, "ACL", "SETUSER", q.o.Stream, "on", ">a-password", "~"+q.o.Stream, "~{"+q.o.Stream+"}:dead", "+@stream", "+eval", "+evalsha")
	admin := q.c
	q.c = dial(t, q.addr, func(o *rueidis.ClientOption) { o.Username, o.Password = q.o.Stream, "a-password" })
	var err error
	q.pub, err = redisstreamidem.NewPublisher(q.c, nil)
	assert.NoError(t, err, "publisher")
	s := q.openOn(t, q.c)
	q.publish(t, "1", "2")
	assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
	assert.NoError(t, receive(t, s, "2").Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
	assert.Equal(t, len(q.listDead(t)), 1, "dead letters")
	q.waitForMark(t)
	admin.command(t, "XGROUP", "DESTROY", q.o.Stream, q.o.Group)
	q.publish(t, "3")
	assert.NoError(t, receive(t, s, "3").Retry(t.Context(), 0), "Retry")
	assert.NoError(t, receive(t, s, "3").Ack(t.Context()), "Ack")
	assert.NoError(t, s.Close(), "Close")
}

// A user who may do what earlier versions needed, and no more, still consumes; a warning says what
// is missing.
func TestFewerRights(t *testing.T) {
	t.Parallel()
	for missing, rights := range map[string][]string{
		"XINFO GROUPS":  nil,
		"XGROUP CREATE": {"+xinfo|groups", "+xrevrange", "-xgroup|create"},
		"XGROUP SETID":  {"+xinfo|groups", "+xrevrange"},
		"XREVRANGE":     {"+xinfo|groups", "+xgroup|setid"},
		"":              {"+xinfo|groups", "+xrevrange", "+xgroup|setid"},
	} {
		t.Run("without "+missing, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, sharedRedis(t).addr, withIdle(300*time.Millisecond))
			assert.NoError(t, q.open(t).Close(), "the group is there")
			q.publish(t, "1", "2")
			q.c.command(t, append([]string{
				"ACL", "SETUSER", q.o.Stream, "on", ">a-password", "~" + q.o.Stream, "~{" + q.o.Stream + "}:dead", "+eval", "+evalsha", "+xlen", "+xgroup|create",
				"+xgroup|delconsumer", "+xreadgroup", "+xpending", "+xclaim", "+xautoclaim", "+xinfo|consumers", "+xack", "+xadd", "+xdel",
			}, rights...)...)
			if missing == "XGROUP CREATE" {
				q.c.command(t, "XGROUP", "DESTROY", q.o.Stream, mark)
			}
			var log heard
			q.o.Logger = log.logger()
			s := q.openOn(t, dial(t, q.addr, func(o *rueidis.ClientOption) { o.Username, o.Password = q.o.Stream, "a-password" }))
			assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
			held := receive(t, s, "2")
			q.publish(t, "3", "4")
			// longer than Idle
			assert.NoError(t, receive(t, s, "3").Retry(t.Context(), time.Second), "Retry")
			assert.NoError(t, receive(t, s, "4").Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
			assert.NoError(t, receive(t, s, "3").Ack(t.Context()), "Ack")
			assert.NoError(t, held.Ack(t.Context()), "Ack of what was held for longer than Idle")
			want := 0
			if missing != "" {
				want = 1
				eventually(t, "a warning", func() bool { return strings.Contains(log.String(), "may not mark what is settled") })
				assert.Contains(t, log.String(), "("+missing+")", "the command that the server has refused")
			}
			assert.NoError(t, s.Close(), "Close")
			assert.Equal(t, q.pendingCount(t), 0, "pending")
			assert.Equal(t, strings.Count(log.String(), "may not mark what is settled"), want, "the log: %s", log.String())
		})
	}
}
