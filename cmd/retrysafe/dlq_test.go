package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// deadQueue is a queue on a real broker, with the names that the command gets.
type deadQueue struct {
	broker, queue, topic string
	source               interface {
		mqidem.Source
		Close() error
	}
	publisher outbox.Publisher
}

func rabbitQueue(t *testing.T) *deadQueue {
	t.Helper()
	url := servertest.StartRabbitMQ(t).VHost(t)
	o := &amqpidem.Options{Delays: []time.Duration{10 * time.Millisecond}, Dialing: amqpidem.Dialing{Logger: slog.New(slog.DiscardHandler)}}
	s, err := amqpidem.Open(t.Context(), url, "stock", o)
	assert.NoError(t, err, "open")
	p, err := amqpidem.NewPublisher(t.Context(), url, nil)
	assert.NoError(t, err, "publisher")
	t.Cleanup(func() { _ = errors.Join(s.Close(), p.Close()) })
	return &deadQueue{url, "stock", "stock", s, p}
}

func redisQueue(t *testing.T) *deadQueue {
	t.Helper()
	url := "redis://" + servertest.StartRedis(t).Addr
	address, err := redisclient.ParseURL(url)
	assert.NoError(t, err, "address")
	client, err := rueidisclient.Open(address)
	assert.NoError(t, err, "connect")
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstreamidem.Open(t.Context(), client, &redisstreamidem.Options{Stream: "orders", Group: "stock"})
	assert.NoError(t, err, "open")
	p, err := redisstreamidem.NewPublisher(client, nil)
	assert.NoError(t, err, "publisher")
	t.Cleanup(func() { _ = s.Close() })
	return &deadQueue{url, "orders/stock", "orders", s, p}
}

// consume runs a consumer until n messages are done or dead-lettered.
func (q *deadQueue) consume(t *testing.T, e *retrysafe.Engine, n int, h mqidem.Handler, opts ...retrysafe.CallOption) (done int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	settled := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- mqidem.Consume(ctx, q.source, mqidem.Once(e, "stock", h, opts...), &mqidem.Options{
			HoldsFor:    time.Hour,
			MaxAttempts: 2, Backoff: mqidem.Fixed(10 * time.Millisecond), Logger: slog.New(slog.DiscardHandler),
			OnOutcome: func(_ context.Context, o mqidem.Outcome) {
				if o.What == mqidem.OutcomeDone || o.What == mqidem.OutcomeDead {
					settled <- o.What
				}
			},
		})
	}()
	for range n {
		select {
		case what := <-settled:
			if what == mqidem.OutcomeDone {
				done++
			}
		case <-ctx.Done():
			t.Fatalf("the messages were not settled in time; %d were done", done)
		}
	}
	cancel()
	assert.NoError(t, <-ended, "consume")
	return done
}

// TestDeadLetters: dead letters are listed without their content, redriven, discarded, and redriven
// by rule.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *deadQueue{"RabbitMQ": rabbitQueue, "Redis streams": redisQueue} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deadLetters(t, open(t))
		})
	}
}

func deadLetters(t *testing.T, q *deadQueue) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "r.db")
	db, err := sql.Open("sqlite", file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	assert.NoError(t, err, "open")
	t.Cleanup(func() { _ = db.Close() })
	store, err := sqlstore.New(db, sqlstore.SQLite, nil)
	assert.NoError(t, err, "store")
	assert.NoError(t, store.Migrate(t.Context()), "migrate")
	e := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: slog.New(slog.DiscardHandler)})

	dlq := func(args ...string) (string, int) {
		t.Helper()
		args = append([]string{"dlq", args[0], "--queue", q.queue, "--store", "sqlite:" + file}, args[1:]...)
		c := newCommand(t, args...)
		c.Env = append(c.Env, "RETRYSAFE_BROKER="+q.broker, "USER=ann")
		return runToEnd(t, c)
	}
	type line struct {
		Hash, Why, Consumer, Record string
		Tries, Redrives             int
	}
	if strings.HasPrefix(q.broker, "amqp") {
		out, code := dlq("list", "--queue", "none")
		assert.Equal(t, code, 1, "exit code of a wrong queue: %s", out)
		assert.Contains(t, out, "check --queue", "a wrong queue")
		assert.True(t, !strings.Contains(out, "Options"), "no advice about Go: %s", out)
	}
	list := func(args ...string) (lines []line) {
		t.Helper()
		out, code := dlq(append([]string{"list", "--json"}, args...)...)
		assert.Equal(t, code, 0, "exit code of list: %s", out)
		for text := range strings.Lines(out) {
			var l line
			if json.Unmarshal([]byte(text), &l) == nil && l.Hash != "" {
				lines = append(lines, l)
			}
		}
		return lines
	}

	var batch []outbox.Outgoing
	for i := range 4 {
		batch = append(batch, outbox.Outgoing{Message: outbox.Message{ID: fmt.Sprint("id-secret-", i), Topic: q.topic, Payload: fmt.Append(nil, "body-secret-", i)}, Attempt: 1})
	}
	assert.NoError(t, errors.Join(q.publisher.Publish(t.Context(), batch)...), "publish")
	failing := func(_ context.Context, m *mqidem.Message) error {
		if strings.HasSuffix(m.ID, "3") {
			return mqidem.Poison(errors.New("error-secret"))
		}
		return errors.New("error-secret")
	}
	assert.Equal(t, q.consume(t, e, 4, failing), 0, "done")

	lines := list()
	assert.Equal(t, len(lines), 4, "dead messages")
	poisoned := list("--why", "poison")
	assert.Equal(t, len(poisoned), 1, "poisoned ones")
	assert.Equal(t, poisoned[0], line{Hash: poisoned[0].Hash, Why: "poison", Consumer: "stock", Record: "failed", Tries: 1}, "a poisoned one")
	table, _ := dlq("list", "--limit", "2")
	assert.Equal(t, strings.Count(table, "  failed  "), 2, "lines of a list of two: %s", table)
	shown, code := dlq("show", lines[0].Hash)
	assert.Equal(t, code, 0, "exit code of show: %s", shown)
	for _, text := range []string{table, shown} {
		assert.True(t, !strings.Contains(text, "secret-"), "what is secret is not shown: %s", text)
	}
	shown, code = dlq("show", lines[0].Hash, "--reveal")
	assert.True(t, code == 2 && strings.Contains(shown, "--reason: a reason is needed") && !strings.Contains(shown, "secret-"), "show --reveal without a reason: %s", shown)
	shown, code = dlq("show", lines[0].Hash, "--reveal", "--reason", "a customer asks")
	assert.Equal(t, code, 0, "exit code of show --reveal: %s", shown)
	for _, part := range []string{"id-secret-", "\n  body-secret-", "error-secret"} {
		assert.Contains(t, shown, part, "show --reveal")
	}

	out, code := dlq("redrive", "0123456789abcdef", "--reason", "x")
	assert.True(t, code == 1 && strings.Contains(out, "no dead message has the hash") && !strings.Contains(out, "0 put back"), "redrive of none: %s", out)
	out, code = dlq("discard", "0123456789abcdef", "--reason", "x")
	assert.True(t, code == 1 && !strings.Contains(out, "0 discarded"), "discard of none: %s", out)
	out, code = dlq("redrive", list("--why", "tries")[0].Hash, "0123456789abcdef", "--reason", "the stock is back")
	assert.Equal(t, code, 1, "exit code of a redrive of one that is there and one that is not: %s", out)
	assert.Contains(t, out, "1 put back", "redrive")
	assert.Contains(t, out, "no dead message has the hash 0123456789abcdef", "redrive")
	works := func(context.Context, *mqidem.Message) error { return nil }
	assert.Equal(t, q.consume(t, e, 1, works), 1, "done behind the redrive")
	out, code = dlq("discard", poisoned[0].Hash, "--reason", "no such order")
	assert.Equal(t, code, 0, "exit code of discard: %s", out)
	assert.Contains(t, out, "1 discarded", "discard")
	_, err = db.ExecContext(t.Context(), `CREATE TRIGGER no_log BEFORE INSERT ON retrysafe_records BEGIN SELECT RAISE(ABORT, 'no room'); END`)
	assert.NoError(t, err, "trigger")
	out, code = dlq("show", list("--why", "tries")[0].Hash, "--reveal", "--reason", "x")
	assert.True(t, code == 1 && strings.Contains(out, "the audit log cannot be written") && !strings.Contains(out, "secret-"), "show --reveal without a log: %s", out)
	out, code = dlq("run", "--every", "0", "--after", "0s", "--by", "night")
	assert.True(t, code == 1 && strings.Contains(out, "0 put back") && strings.Contains(out, "the audit log cannot be written"), "run without a log: %s", out)
	_, err = db.ExecContext(t.Context(), `DROP TRIGGER no_log`)
	assert.NoError(t, err, "trigger")
	out, code = dlq("run", "--every", "0", "--after", "0s", "--by", "night")
	assert.Equal(t, code, 0, "exit code of run: %s", out)
	assert.Contains(t, out, "2 put back", "run")
	assert.Equal(t, q.consume(t, e, 2, works), 2, "done behind the run")
	assert.Equal(t, len(list()), 0, "dead messages in the end")
	assertAudited(t, store, "app",
		"night redrive HASH, why \"tries\", consumer \"stock\", by a rule: done", "night redrive HASH, why \"tries\", consumer \"stock\", by a rule: begun",
		"night redrive HASH, why \"tries\", consumer \"stock\", by a rule: done", "night redrive HASH, why \"tries\", consumer \"stock\", by a rule: begun",
		"ann discard 1 done, 0 gone, 0 left: done (no such order)", "ann discard HASH: begun (no such order)",
		"ann redrive 1 done, 0 gone, 1 left: done (the stock is back)", "ann redrive HASH HASH: begun (the stock is back)",
		"ann reveal HASH: done (a customer asks)", "ann reveal HASH: begun (a customer asks)")
}

// assertAudited checks the last entries of the audit log of a namespace, the last one first. HASH
// stands for a hash.
func assertAudited(t *testing.T, s storeapi.Store, namespace string, want ...string) {
	t.Helper()
	entries := auditEntries(t, s, namespace, len(want)+1)
	hash := regexp.MustCompile(`\b[0-9a-f]{16}\b`)
	got := []string{}
	for _, e := range entries {
		one := fmt.Sprint(e.Who, " ", e.Action, " ", hash.ReplaceAllString(e.Detail, "HASH"), ": ", e.Result)
		if e.Reason != "" {
			one += " (" + e.Reason + ")"
		}
		got = append(got, one)
	}
	assert.Equal(t, got, append([]string{}, want...), "the audit log of %s", namespace)
}

// auditEntries returns the last entries of the audit log of a namespace, the last one first.
// Midnight may have passed during the test.
func auditEntries(t *testing.T, s storeapi.Store, namespace string, most int) (all []admin.Entry) {
	t.Helper()
	now := time.Now()
	for _, day := range []time.Time{now, now.AddDate(0, 0, -1)} {
		part, _, err := admin.NewAudit(s, namespace, 0).Read(t.Context(), day, 0, most)
		assert.NoError(t, err, "read the audit log")
		all = append(all, part...)
	}
	return all[:min(len(all), most)]
}

// TestDeadInDoubt: a message in doubt is redriven after an operator says that it was not done.
func TestDeadInDoubt(t *testing.T) {
	t.Parallel()
	q := redisQueue(t)
	file := filepath.Join(t.TempDir(), "r.db")
	db, err := sql.Open("sqlite", file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	assert.NoError(t, err, "open")
	t.Cleanup(func() { _ = db.Close() })
	store, err := sqlstore.New(db, sqlstore.SQLite, nil)
	assert.NoError(t, err, "store")
	assert.NoError(t, store.Migrate(t.Context()), "migrate")
	e := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, q.publisher.Publish(t.Context(), []outbox.Outgoing{{Message: outbox.Message{ID: "1", Topic: q.topic}, Attempt: 1}})[0], "publish")
	refuse := retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Refuse})
	q.consume(t, e, 1, func(context.Context, *mqidem.Message) error { return errors.New("timeout") }, refuse)
	dlq := func(args ...string) (string, int) {
		args = append([]string{"dlq"}, append(args, "--broker", q.broker, "--queue", q.queue, "--store", "sqlite:"+file)...)
		return runToEnd(t, newCommand(t, args...))
	}
	out, code := dlq("redrive", "--all", "--by", "ann")
	assert.True(t, code == 2 && strings.Contains(out, "--reason: a reason is needed"), "without a reason: %s", out)
	out, code = dlq("redrive", "--all", "--by", "ann", "--reason", "try")
	assert.Equal(t, code, 1, "exit code: %s", out)
	assert.Contains(t, out, "--not-done says that nothing was done", "redrive")
	out, _ = dlq("run", "--why", "in-doubt", "--every", "0")
	assert.Contains(t, out, "no rule redrives them", "run")
	out, code = dlq("redrive", "--all", "--not-done", "--by", "ann", "--reason", "not in the stock")
	assert.Equal(t, code, 0, "exit code: %s", out)
	assert.Equal(t, q.consume(t, e, 1, func(context.Context, *mqidem.Message) error { return nil }, refuse), 1, "done")

	assert.NoError(t, q.publisher.Publish(t.Context(), []outbox.Outgoing{{Message: outbox.Message{ID: "2", Topic: q.topic}, Attempt: 1}})[0], "publish")
	q.consume(t, e, 1, func(context.Context, *mqidem.Message) error { return errors.New("timeout") }, refuse)
	_, err = db.ExecContext(t.Context(), `CREATE TRIGGER no_log BEFORE INSERT ON retrysafe_records BEGIN SELECT RAISE(ABORT, 'no room'); END`)
	assert.NoError(t, err, "trigger")
	out, code = dlq("discard", "--all", "--by", "bob", "--reason", "x")
	assert.Equal(t, code, 1, "exit code of discard without a log: %s", out)
	assert.Contains(t, out, "the audit log cannot be written", "discard without a log")
	_, err = db.ExecContext(t.Context(), `DROP TRIGGER no_log`)
	assert.NoError(t, err, "trigger")
	out, _ = dlq("discard", "--all", "--by", "bob", "--reason", "x")
	assert.Contains(t, out, "1 discarded", "discard")
	assertAudited(t, store, "app",
		"bob discard 1 done, 0 gone, 0 left: done (x)", "bob discard all: begun (x)",
		"ann redrive 1 done, 0 gone, 0 left: done (not in the stock)", "ann redrive all, not-done: begun (not in the stock)",
		"ann redrive 0 done, 0 gone, 1 left: done (try)", "ann redrive all: begun (try)")
}

// TestDeadLetterCalls: a call that is wrong says what to write instead.
func TestDeadLetterCalls(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"list"}, "--broker (or RETRYSAFE_BROKER) and --queue say where", 2},
		{[]string{"list", "--broker", "http://user:pass-secret@x", "--queue", "q"}, "--broker http://…: write amqp://", 2},
		{[]string{"list", "--broker", "redis://127.0.0.1:1", "--queue", "orders"}, "write the stream and the group", 2},
		{[]string{"list", "--broker", "nats://127.0.0.1:1", "--queue", "orders"}, "write the stream and the consumer", 2},
		{[]string{"list", "--broker", "nats://127.0.0.1:1", "--queue", "orders/stock"}, "NATS is not reached", 1},
		{[]string{"list", "--broker", "amqp://user:pass-secret@127.0.0.1:1", "--queue", "q"}, "RabbitMQ", 1},
		{[]string{"redrive", "--broker", "redis://x", "--queue", "a/b"}, "name messages by their hashes", 2},
		{[]string{"discard", "--broker", "redis://x", "--queue", "a/b", "--all", "x"}, "and not both", 2},
		{[]string{"list", "--broker", "redis://127.0.0.1:1", "--queue", "a/b", "--why", "nonsense"}, "tries, poison, refused, no-id, too-large, in-doubt, mismatch or unreadable", 2},
		{[]string{"list", "--broker", "redis://" + servertest.StartRedis(t).Addr, "--queue", "a/b", "--store", "sqlite:none.db"}, "name the store of the consumer", 1},
		{[]string{"discard", "--broker", "redis://x", "--queue", "a/b", "--all"}, "--reason: a reason is needed", 2},
		{[]string{"discard", "--broker", "redis://127.0.0.1:1", "--queue", "a/b", "--all", "--store", "none"}, "Redis", 1},
		{[]string{"run", "--broker", "redis://x", "--queue", "a/b", "--by", "a\nb"}, "--by: ", 2},
		{[]string{"what"}, "unknown command", 2},
	} {
		out, err := newCommand(t, append([]string{"dlq"}, one.args...)...).CombinedOutput()
		var exit *exec.ExitError
		assert.True(t, errors.As(err, &exit), "dlq %q fails", one.args)
		assert.Equal(t, exit.ExitCode(), one.code, "exit code of %q: %s", one.args, out)
		assert.Contains(t, string(out), one.want, "dlq %q", one.args)
		assert.True(t, !strings.Contains(string(out), "secret"), "a password is not shown: %s", out)
	}
}

// TestDeadOfNoGroup: a group that the stream does not have is an error that names those that it
// has.
func TestDeadOfNoGroup(t *testing.T) {
	t.Parallel()
	q := redisQueue(t)
	list := func(queue string) (string, int) {
		return runToEnd(t, newCommand(t, "dlq", "list", "--broker", q.broker, "--queue", queue, "--store", "none"))
	}
	out, code := list("orders/stock")
	assert.Equal(t, code, 0, "list: %s", out)
	out, code = list("orders/nope")
	assert.True(t, code == 1 && strings.Contains(out, `the stream orders has no group "nope"; its groups are stock`), "list of no group: %s", out)
	out, code = list("gone/stock")
	assert.Equal(t, code, 0, "a stream that is gone: %s", out)
}
