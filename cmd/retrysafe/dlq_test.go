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
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/sqlstore"
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
	t.Cleanup(client.Close)
	s, err := redisstreamidem.Open(t.Context(), client, redisstreamidem.Options{Stream: "orders", Group: "stock"})
	assert.NoError(t, err, "open")
	p, err := redisstreamidem.NewPublisher(client, nil)
	assert.NoError(t, err, "publisher")
	t.Cleanup(func() { _ = s.Close() })
	return &deadQueue{url, "orders/stock", "orders", s, p}
}

// work runs a consumer until n messages are done or dead-lettered.
func (q *deadQueue) work(t *testing.T, e *retrysafe.Engine, n int, h mqidem.Handler, opts ...retrysafe.CallOption) (done int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	settled := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- mqidem.Consume(ctx, q.source, mqidem.Once(e, "stock", h, opts...), &mqidem.Options{
			MaxDeliveries: 2, Backoff: mqidem.Fixed(10 * time.Millisecond), Logger: slog.New(slog.DiscardHandler),
			Observe: func(o mqidem.Outcome) {
				if o.What == mqidem.Done || o.What == mqidem.Dead {
					settled <- o.What
				}
			},
		})
	}()
	for range n {
		select {
		case what := <-settled:
			if what == mqidem.Done {
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
		c := command(t, args...)
		c.Env = append(c.Env, "RETRYSAFE_BROKER="+q.broker)
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return string(out), exit.ExitCode()
		}
		assert.NoError(t, err, "dlq")
		return string(out), 0
	}
	type line struct {
		Hash, Why, Consumer, Record string
		Tries, Redrives             int
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
	assert.Equal(t, q.work(t, e, 4, failing), 0, "done")

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
	shown, _ = dlq("show", lines[0].Hash, "--reveal")
	for _, part := range []string{"id-secret-", "body-secret-", "error-secret"} {
		assert.Contains(t, shown, part, "show --reveal")
	}

	out, code := dlq("redrive", list("--why", "tries")[0].Hash, "0123456789abcdef")
	assert.Equal(t, code, 1, "exit code of a redrive of one that is there and one that is not: %s", out)
	assert.Contains(t, out, "1 put back", "redrive")
	assert.Contains(t, out, "no dead message has the hash 0123456789abcdef", "redrive")
	works := func(context.Context, *mqidem.Message) error { return nil }
	assert.Equal(t, q.work(t, e, 1, works), 1, "done behind the redrive")
	out, code = dlq("discard", poisoned[0].Hash)
	assert.Equal(t, code, 0, "exit code of discard: %s", out)
	assert.Contains(t, out, "1 discarded", "discard")
	out, code = dlq("run", "--every", "0", "--after", "0s")
	assert.Equal(t, code, 0, "exit code of run: %s", out)
	assert.Contains(t, out, "2 put back", "run")
	assert.Equal(t, q.work(t, e, 2, works), 2, "done behind the run")
	assert.Equal(t, len(list()), 0, "dead messages in the end")
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
	q.work(t, e, 1, func(context.Context, *mqidem.Message) error { return errors.New("timeout") }, refuse)
	dlq := func(args ...string) (string, int) {
		args = append([]string{"dlq"}, append(args, "--broker", q.broker, "--queue", q.queue, "--store", "sqlite:"+file)...)
		out, err := command(t, args...).CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return string(out), exit.ExitCode()
		}
		return string(out), 0
	}
	out, code := dlq("redrive", "--all")
	assert.Equal(t, code, 1, "exit code: %s", out)
	assert.Contains(t, out, "--not-done says that nothing was done", "redrive")
	out, _ = dlq("run", "--why", "in-doubt", "--every", "0")
	assert.Contains(t, out, "a rule cannot redrive what is in doubt", "run")
	out, code = dlq("redrive", "--all", "--not-done", "--by", "ann")
	assert.Equal(t, code, 0, "exit code: %s", out)
	assert.Equal(t, q.work(t, e, 1, func(context.Context, *mqidem.Message) error { return nil }, refuse), 1, "done")
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
		{[]string{"what"}, "unknown command", 2},
	} {
		out, err := command(t, append([]string{"dlq"}, one.args...)...).CombinedOutput()
		var exit *exec.ExitError
		assert.True(t, errors.As(err, &exit), "dlq %q fails", one.args)
		assert.Equal(t, exit.ExitCode(), one.code, "exit code of %q: %s", one.args, out)
		assert.Contains(t, string(out), one.want, "dlq %q", one.args)
		assert.True(t, !strings.Contains(string(out), "secret"), "a password is not shown: %s", out)
	}
}
