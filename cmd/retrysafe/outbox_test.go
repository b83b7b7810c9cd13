package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
)

// newDeadOutbox returns an outbox in a file, of which the first two of three messages are dead. The
// third has the key of the first.
func newDeadOutbox(t *testing.T, file string) *outbox.Outbox {
	t.Helper()
	var messages []outbox.Message
	for i, key := range []string{"secret-ann", "secret-bob", "secret-ann"} {
		messages = append(messages, outbox.Message{ID: fmt.Sprint("secret-", i), Topic: fmt.Sprint("topic-", i), Key: key, Payload: []byte("{}")})
	}
	box, _ := newOutboxIn(t, file, messages...)
	relayUntil(t, box, func(context.Context, outbox.Outgoing) error {
		return outbox.Permanent(errors.New("no such topic, says the broker"))
	}, outbox.Stats{Dead: 2, Pending: 1}) // the third waits for the first
	return box
}

// relayUntil runs a relay until so many messages are dead and pending.
func relayUntil(t *testing.T, box *outbox.Outbox, publish func(context.Context, outbox.Outgoing) error, want outbox.Stats) {
	t.Helper()
	relay, err := outbox.NewRelay(box, outbox.OneByOne(publish), nil)
	assert.NoError(t, err, "relay")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	eventually(t, func() bool {
		s, err := box.Stats(t.Context())
		return err == nil && s.Dead == want.Dead && s.Pending == want.Pending
	}, fmt.Sprintf("%d are dead and %d pending", want.Dead, want.Pending))
	stop()
	<-ended
}

// TestOutboxCommand: an operator sees which messages of an outbox are dead, and puts them back or
// removes them, with the audit log of a store, or without one.
func TestOutboxCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, store := filepath.Join(dir, "shop.db"), "sqlite:"+filepath.Join(dir, "records.db")
	box := newDeadOutbox(t, file)
	run := func(args ...string) (string, int) {
		t.Helper()
		return runToEnd(t, withSecret(t, oneSecret, append([]string{"outbox", args[0], "--outbox", "sqlite:" + file}, args[1:]...)...))
	}
	out, code := run("list")
	assert.True(t, code == 0 && strings.Contains(out, "1 pending, of which 0 were refused") && strings.Contains(out, "2 dead"), "list: %d %s", code, out)
	assert.True(t, strings.Contains(out, "topic-0") && strings.Contains(out, "topic-1") && !strings.Contains(out, "topic-2"), "dead messages: %s", out)
	assert.True(t, !strings.Contains(out, "secret-") && !strings.Contains(out, "says the broker"), "nothing is revealed: %s", out)
	out, code = run("list", "--json", "--topic", "topic-1")
	assert.True(t, code == 0 && strings.Count(out, "\n") == 2 && strings.Contains(out, `{"pending":1,"waiting":0,"dead":2,`) && strings.Contains(out, `{"place":2,"topic":"topic-1"`), "JSON: %d %s", code, out)
	out, code = run("list", "--reveal", "--limit", "1")
	assert.True(t, code == 0 && strings.Contains(out, "secret-ann") && strings.Contains(out, "says the broker") && !strings.Contains(out, "secret-bob"), "reveal: %d %s", code, out)

	for _, wrong := range []struct{ args, want string }{
		{"redrive", "--all, and not both"},
		{"redrive 1 --all", "--all, and not both"},
		{"redrive one", `"one" is no place of a message`},
		{"discard 1 --topic topic-0", "--topic belongs to --all"},
		{"discard --all --topic=", "--topic is empty"},
		{"discard 1 --store " + store, "reason"},
		{"discard 1 --store redis://127.0.0.1:1 --reason why", "namespace is missing"},
	} {
		out, code = run(strings.Fields(wrong.args)...)
		assert.True(t, code == 2 && strings.Contains(out, wrong.want), "%s: %d %s", wrong.args, code, out)
	}
	out, code = run("discard", "1", "--store", store, "--reason", "why")
	assert.True(t, code == 1 && strings.Contains(out, "there is no such file"), "a store that is not there: %d %s", code, out)
	misspelt := filepath.Join(dir, "shpo.db")
	out, code = runToEnd(t, newCommand(t, "outbox", "list", "--outbox", "sqlite:"+misspelt))
	assert.True(t, code == 1 && strings.Contains(out, "shpo.db: no such file"), "an outbox that is not there: %d %s", code, out)
	_, err := os.Stat(misspelt)
	assert.ErrorIs(t, err, os.ErrNotExist, "the misspelt file")
	s, err := box.Stats(t.Context())
	assert.True(t, err == nil && s.Dead == 2, "nothing was done: %+v, %v", s, err)

	out, code = runToEnd(t, newCommand(t, "migrate", "--store", store))
	assert.Equal(t, code, 0, "tables: %s", out)
	out, code = run("discard", "2", "9", "--store", store, "--by", "ann", "--reason", "bob is gone")
	assert.True(t, code == 1 && strings.Contains(out, "1 discarded") && strings.Contains(out, "no dead message at place 9"), "discard: %d %s", code, out)
	redrive := withSecret(t, oneSecret, "outbox", "redrive", "--all", "--topic", "topic-0", "--outbox", "sqlite:"+file, "--by", "ann", "--reason", "mended")
	redrive.Env = append(redrive.Env, "RETRYSAFE_STORE="+store)
	out, code = runToEnd(t, redrive)
	assert.True(t, code == 0 && strings.Contains(out, "1 to be published again"), "redrive: %d %s", code, out)
	out, code = runToEnd(t, withSecret(t, oneSecret, "keys", "list", "--layer", "audit", "--store", store, "--json"))
	assert.True(t, code == 0 && strings.Count(out, `"layer":"audit"`) == 4, "the entries of both, and their results: %d %s", code, out)

	var published []string
	relayUntil(t, box, func(_ context.Context, m outbox.Outgoing) error {
		published = append(published, m.ID)
		return nil
	}, outbox.Stats{})
	assert.Equal(t, published, []string{"secret-0", "secret-2"}, "published, in their places")
	out, code = run("list")
	assert.True(t, code == 0 && strings.Contains(out, "0 dead"), "list then: %d %s", code, out)
}
