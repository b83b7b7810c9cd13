package redisstreamidem_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/redisclient"
)

func withIdle(d time.Duration) func(*redisstreamidem.Options) {
	return func(o *redisstreamidem.Options) { o.Idle = d }
}

// pendingCount returns how many entries are delivered and not acked.
func (q *queue) pendingCount(tb testing.TB) int64 {
	tb.Helper()
	summary, _ := q.c.command(tb, "XPENDING", q.o.Stream, q.o.Group).([]any)
	n, _ := summary[0].(int64)
	return n
}

// pendingIDs returns the ids of the pending entries.
func (q *queue) pendingIDs(tb testing.TB) (ids []string) {
	tb.Helper()
	all, _ := q.c.command(tb, "XPENDING", q.o.Stream, q.o.Group, "-", "+", "1000").([]any)
	for _, one := range all {
		entry, _ := one.([]any)
		id, _ := entry[0].(string)
		ids = append(ids, id)
	}
	return ids
}

// consumers returns the names of the consumers that the server knows.
func (q *queue) consumers(tb testing.TB) (names []string) {
	tb.Helper()
	all, _ := q.c.command(tb, "XINFO", "CONSUMERS", q.o.Stream, q.o.Group).([]any)
	for _, one := range all {
		fields, _ := one.(map[string]any)
		name, _ := fields["name"].(string)
		names = append(names, name)
	}
	return names
}

// makeIdle makes all pending entries idle for d.
func (q *queue) makeIdle(tb testing.TB, d time.Duration) {
	tb.Helper()
	all, _ := q.c.command(tb, "XPENDING", q.o.Stream, q.o.Group, "-", "+", "1000").([]any)
	for _, one := range all {
		entry, _ := one.([]any)
		id, _ := entry[0].(string)
		consumer, _ := entry[1].(string)
		q.c.command(tb, "XCLAIM", q.o.Stream, q.o.Group, consumer, "0", id, "IDLE", strconv.FormatInt(d.Milliseconds(), 10), "JUSTID")
	}
}

// A message that is held for several times Idle goes to no other consumer, nor does one that is
// ready or waits for a later try.
func TestSlowConsumerIsNotRobbed(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, withIdle(10*time.Second))
	q.publish(t, "work", "later", "ready")
	q.o.Prefetch = 1
	slow := q.open(t)
	work := receive(t, slow, "work")
	assert.NoError(t, receive(t, slow, "later").Retry(t.Context(), 14*time.Second), "Retry")
	q.o.Prefetch = -1
	other := q.open(t)
	expectNothing(t, other, 12*time.Second)
	assert.NoError(t, work.Ack(t.Context()), "Ack")
	ready := receive(t, slow, "ready")
	assert.Equal(t, ready.Message().Deliveries, 1, "deliveries of the one that lay ready")
	assert.NoError(t, ready.Ack(t.Context()), "Ack")
	assert.NoError(t, receive(t, slow, "later").Ack(t.Context()), "Ack")
	expectNothing(t, other, 50*time.Millisecond)
	assert.Equal(t, q.pendingCount(t), 0, "pending")
}

// After Idle another consumer receives what a dead consumer had, also messages that waited for a
// later try. The dead consumer is deleted.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, withIdle(time.Hour))
	q.publish(t, "1", "2")
	c := dial(t, q.addr, nil)
	dies := q.openOn(t, c)
	receive(t, dies, "1")
	assert.NoError(t, receive(t, dies, "2").Retry(t.Context(), time.Hour), "Retry")
	c.Close() // it sends nothing more
	dead := q.consumers(t)[0]
	assert.NotEqual(t, dead, "", "the name of the dead one")
	q.makeIdle(t, time.Hour)
	lives := q.open(t)
	for range 2 {
		d, err := lives.Receive(t.Context())
		assert.NoError(t, err, "Receive")
		assert.Equal(t, d.Message().Deliveries, 2, "deliveries of %s", d.Message().ID)
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
	q.o.Idle, q.o.Prefetch = 200*time.Millisecond, -1 // it only looks for the dead, and soon
	q.open(t)
	eventually(t, "a consumer that has nothing and is silent is removed", func() bool { return !slices.Contains(q.consumers(t), dead) })
	q.publish(t, "3")
	assert.NoError(t, receive(t, lives, "3").Ack(t.Context()), "Ack by the one that lives")
}

// A consumer that was away for longer than Idle has lost its messages. It neither acks nor
// dead-letters what another one has done.
func TestRobbed(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, withIdle(time.Hour))
	p := startProxy(t, q.addr)
	q.publish(t, "1", "2", "3")
	slow := q.openOn(t, dial(t, p.Addr, nil))
	first, second, third := receive(t, slow, "1"), receive(t, slow, "2"), receive(t, slow, "3")
	p.Cut()
	q.makeIdle(t, time.Hour)
	other := q.open(t)
	for _, id := range []string{"1", "2"} {
		assert.NoError(t, receive(t, other, id).Ack(t.Context()), "Ack by another one")
	}
	held := receive(t, other, "3")
	p.Mend()
	eventually(t, "Ack is stale", func() bool { return isStale(first.Ack(t.Context())) })
	eventually(t, "Dead is stale", func() bool { return isStale(second.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison})) })
	assert.Equal(t, len(q.listDead(t)), 0, "dead letters")
	assert.NoError(t, third.Retry(t.Context(), 0), "Retry of what another one has")
	expectNothing(t, slow, 600*time.Millisecond)
	assert.NoError(t, held.Ack(t.Context()), "Ack")
}

// A lost reply loses no message, and the message does not have to wait for Idle.
func TestLostReply(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, withIdle(time.Hour))
	p := startProxy(t, q.addr)
	s := q.openOn(t, dial(t, p.Addr, nil))
	for round := range 3 {
		next := make(chan mqidem.Delivery, 1)
		go func() {
			d, _ := s.Receive(t.Context())
			next <- d
		}()
		id := fmt.Sprint("message-", round)
		p.loseReply(id)
		q.publish(t, id)
		d := <-next
		assert.True(t, d != nil && d.Message().ID == id, "it comes")
		assert.True(t, p.loseReply(""), "the reply was lost")
		assert.Equal(t, d.Message().Deliveries, 2, "deliveries")
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// While the server is down, nothing is lost and calls end with their contexts. After a restart on
// its file everything continues.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	srv := ownRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	q := newQueue(t, srv.addr, withIdle(time.Hour))
	s := q.open(t)
	q.publish(t, "acked", "dead", "later")
	acked, dead := receive(t, s, "acked"), receive(t, s, "dead")
	asked := time.Now()
	assert.NoError(t, receive(t, s, "later").Retry(t.Context(), time.Second), "Retry")
	srv.kill()
	assert.True(t, callWithin(t, 50*time.Millisecond, acked.Ack) != nil, "Ack while the server is away fails")
	errs := q.pub.Publish(t.Context(), batch(q.o.Stream, "x"))
	assert.Contains(t, errs[0].Error(), "the broker is not available", "Publish while the server is away")
	srv.start(t)
	eventually(t, "Dead behind the restart", func() bool { return dead.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}) == nil })
	eventually(t, "Publish behind the restart", func() bool { return q.pub.Publish(t.Context(), batch(q.o.Stream, "behind"))[0] == nil })
	q.c = dial(t, q.addr, nil)
	ids := map[string]bool{}
	for range 3 { // and the one whose Ack has failed
		var d mqidem.Delivery
		eventually(t, "Receive", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var err error
			if d, err = s.Receive(ctx); err != nil && time.Since(asked) > 2*time.Second {
				// the source saw no poll fail, so the message comes after Idle
				q.makeIdle(t, time.Hour)
			}
			return err == nil
		})
		id := d.Message().ID
		ids[id] = true
		if id == "later" {
			assert.True(t, time.Since(asked) >= time.Second, "the later try waits its time, and came after %v", time.Since(asked))
		}
		eventually(t, "Ack", func() bool { return d.Ack(t.Context()) == nil })
	}
	assert.Equal(t, ids, map[string]bool{"acked": true, "later": true, "behind": true}, "messages")
	assert.Equal(t, len(q.listDead(t)), 1, "dead letters")
	eventually(t, "all is acked", func() bool { return q.pendingCount(t) == 0 })
}

// A deleted stream is made again, and a deleted group that has settled nothing begins at the oldest
// entry; earlier deliveries are stale.
func TestStreamDeleted(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string][]string{"the stream": {"DEL"}, "the group": {"XGROUP", "DESTROY"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, sharedRedis(t).addr, nil)
			s := q.open(t)
			q.publish(t, "before")
			d := receive(t, s, "before")
			next := make(chan mqidem.Delivery, 1)
			go func() {
				d, _ := s.Receive(t.Context())
				next <- d
			}()
			lose = append(lose, q.o.Stream)
			if len(lose) == 3 {
				lose = append(lose, q.o.Group)
			}
			q.c.command(t, lose...)
			want := "before" // the oldest entry, again
			if name == "the stream" {
				ack := d.Ack(t.Context())
				assert.True(t, isStale(ack), "Ack of what is gone is stale: %v", ack)
				want = "behind"
				q.publish(t, want)
			}
			got := <-next
			assert.Equal(t, got.Message().ID, want, "the message of a Receive that waited")
			assert.NoError(t, got.Ack(t.Context()), "Ack")
			expectNothing(t, s, 50*time.Millisecond)
		})
	}
}

// Close returns messages at once, and later tries when they are due.
func TestCloseGivesBack(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, func(o *redisstreamidem.Options) { o.Prefetch, o.Idle = 2, time.Hour })
	q.publish(t, "later", "held", "ready")
	s := q.open(t)
	later, held := receive(t, s, "later"), receive(t, s, "held")
	asked := time.Now()
	assert.NoError(t, later.Retry(t.Context(), 1500*time.Millisecond), "Retry")
	other := q.open(t) // it looks for silent consumers before the first is closed
	expectNothing(t, other, 50*time.Millisecond)
	assert.NoError(t, s.Close(), "Close")
	assert.True(t, isStale(held.Ack(t.Context())), "Ack behind Close is stale")
	ids := map[string]bool{}
	for range 3 {
		d, err := other.Receive(t.Context())
		assert.NoError(t, err, "Receive")
		id := d.Message().ID
		ids[id] = true
		if took := time.Since(asked); id == "later" {
			assert.True(t, took >= 1490*time.Millisecond, "the later try keeps its time, and came after %v", took)
		}
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
	// All arrived before Idle, which is an hour.
	assert.Equal(t, ids, map[string]bool{"later": true, "held": true, "ready": true}, "messages")
}

// widest is a client that records the number of words of the longest call.
type widest struct {
	redisclient.Client
	most atomic.Int64
}

func (w *widest) Eval(ctx context.Context, c redisclient.Call) redisclient.Reply {
	for n := int64(len(c.Args)); ; {
		if most := w.most.Load(); n <= most || w.most.CompareAndSwap(most, n) {
			return w.Client.Eval(ctx, c)
		}
	}
}

// However much a source holds, Close returns it in short scripts, so that the server is not
// blocked.
func TestCloseGivesBackInParts(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, func(o *redisstreamidem.Options) { o.Idle, o.Prefetch = time.Minute, 256 })
	const n = 2500
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	q.publish(t, ids...)
	w := &widest{Client: dial(t, q.addr, nil)}
	s := q.openOn(t, w)
	for _, id := range ids {
		_ = receive(t, s, id)
	}
	assert.NoError(t, s.Close(), "Close")
	assert.True(t, w.most.Load() <= 2100, "the longest call has %d words", w.most.Load())
	other := q.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for range ids {
		d, err := other.Receive(ctx)
		assert.NoError(t, err, "Receive by another one")
		assert.NoError(t, d.Ack(ctx), "Ack")
	}
	assert.Equal(t, q.pendingCount(t), 0, "pending")
}

// Delete leaves no entries, and Open refuses it if other groups read the stream.
func TestDelete(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, func(o *redisstreamidem.Options) { o.Delete = true })
	s := q.open(t)
	q.publish(t, "1", "2")
	assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
	assert.Equal(t, q.c.command(t, "XLEN", q.o.Stream), any(int64(1)), "entries")
	assert.NoError(t, receive(t, s, "2").Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
	assert.Equal(t, q.c.command(t, "XLEN", q.o.Stream), any(int64(0)), "entries")
	o := q.o
	o.Group, o.Delete = "points", true
	_, err := redisstreamidem.Open(t.Context(), q.c, &o)
	assert.Contains(t, err.Error(), "the stream has other groups", "Open of a second group")
	groups, _ := q.c.command(t, "XINFO", "GROUPS", q.o.Stream).([]any)
	assert.Equal(t, len(groups), 1, "groups")
}

// A group that is created while a source with Delete is open loses nothing: messages that are done
// or dead-lettered from then on stay for it.
func TestDeleteBesideLaterGroup(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, func(o *redisstreamidem.Options) { o.Delete = true })
	s := q.open(t)
	q.publish(t, "0", "1", "2", "3")
	assert.NoError(t, receive(t, s, "0").Ack(t.Context()), "Ack")
	q.o.Group, q.o.Delete = "points", false
	later := q.open(t)
	assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
	assert.NoError(t, receive(t, s, "2").Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
	for _, id := range []string{"1", "2", "3"} {
		assert.NoError(t, receive(t, later, id).Ack(t.Context()), "Ack of %s by the later group", id)
	}
	q.c.command(t, "XGROUP", "DESTROY", q.o.Stream, q.o.Group)
	assert.Equal(t, q.c.command(t, "XLEN", q.o.Stream), any(int64(3)), "entries")
	assert.NoError(t, receive(t, s, "3").Ack(t.Context()), "Ack")
	assert.Equal(t, q.c.command(t, "XLEN", q.o.Stream), any(int64(2)), "entries, when the group is the only one again")
}

// Without Delete an entry stays for the other groups; each of them gets it once.
func TestGroups(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	q.publish(t, "1")
	for _, group := range []string{"stock", "points"} {
		q.o.Group = group
		s := q.open(t)
		assert.NoError(t, receive(t, s, "1").Ack(t.Context()), "Ack")
		expectNothing(t, s, 50*time.Millisecond)
	}
}

// An entry that was cut from the stream while it waited for a later try is reported as lost, and is
// not pending for ever.
func TestTrimmed(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	s := q.open(t)
	q.publish(t, "1")
	d := receive(t, s, "1")
	q.c.command(t, "XTRIM", q.o.Stream, "MAXLEN", "0")
	assert.NoError(t, d.Retry(t.Context(), 0), "Retry")
	isLost(t, s)
	q.publish(t, "2")
	assert.NoError(t, receive(t, s, "2").Ack(t.Context()), "Ack")
	eventually(t, "nothing is pending", func() bool { return q.pendingCount(t) == 0 })
}

// In a cluster a stream and its dead letters are in one slot, unless the options say otherwise.
func TestCluster(t *testing.T) {
	t.Parallel()
	srv := ownRedis(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(busPort(t)))
	c := dial(t, srv.addr, nil)
	c.command(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	eventually(t, "the cluster is formed", func() bool {
		said, _ := c.command(t, "CLUSTER", "INFO").(string)
		return strings.Contains(said, "cluster_state:ok")
	})
	for _, name := range []string{"plain", "{shop}:orders"} {
		q := newQueue(t, srv.addr, func(o *redisstreamidem.Options) { o.Stream = name })
		q.publish(t, "1")
		assert.NoError(t, receive(t, q.open(t), "1").Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
		assert.Equal(t, len(q.listDead(t)), 1, "dead letters")
		q.o.DeadStream = "elsewhere"
		_, err := redisstreamidem.Open(t.Context(), q.c, &q.o)
		assert.Contains(t, err.Error(), "are in different slots; leave Options.DeadStream empty", "Open")
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	q := newQueue(t, sharedRedis(t).addr, nil)
	q.c.command(t, "SET", q.o.Stream+"-text", "x")
	for what, change := range map[string]func(*redisstreamidem.Options){
		"the key is there and is no stream": func(o *redisstreamidem.Options) { o.Stream += "-text" },
		"and is no stream":                  func(o *redisstreamidem.Options) { o.DeadStream = o.Stream + "-text" },
		"are required":                      func(o *redisstreamidem.Options) { o.Group = "" },
		"are the same key":                  func(o *redisstreamidem.Options) { o.DeadStream = o.Stream },
		"under 30 ms":                       func(o *redisstreamidem.Options) { o.Idle = time.Millisecond },
		"Prefetch is at most":               func(o *redisstreamidem.Options) { o.Prefetch = 1000 },
	} {
		o := q.o
		change(&o)
		_, err := redisstreamidem.Open(t.Context(), q.c, &o)
		assert.True(t, err != nil, "Open is refused")
		assert.Contains(t, err.Error(), what, "Open")
	}
	_, err := redisstreamidem.Open(t.Context(), garbled{}, &q.o)
	assert.Contains(t, err.Error(), "answered with something else", "Open on a server that is none")
}

// garbled answers what no server answers.
type garbled struct{}

func (garbled) Eval(context.Context, redisclient.Call) redisclient.Reply {
	return redisclient.Reply{Value: "what?"}
}
