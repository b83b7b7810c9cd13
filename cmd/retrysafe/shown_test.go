package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// forged is what a service that was taken over answers.
const forged = "é\t\x1b[2J\x9b1A\u202e\r\nstate  completed\nx\n"

// TestKeysRevealEscapes: an answer cannot control the terminal, and none of its lines looks like a
// line of the command. --raw prints the bytes alone.
func TestKeysRevealEscapes(t *testing.T) {
	t.Parallel()
	name, _, _, store := recordsInDoubt(t)
	storeAnswered(t, store, "order-1", forged)
	show := func(args ...string) (string, int) {
		return runToEnd(t, newCommand(t, append([]string{"keys", "show", "--store", name, "order-1"}, args...)...))
	}
	out, code := show("--reveal", "--reason", "x")
	assert.Equal(t, code, 0, "show: %s", out)
	_, body, _ := strings.Cut(out, "\n\n")
	assert.Equal(t, body, "  é\t\\x1b[2J\\x9b1A\\u202e\\r\n  state  completed\n  x\n", "the answer")
	out, code = show("--reveal", "--raw", "--reason", "x")
	assert.True(t, code == 0 && out == forged, "--raw: %q", out)
	out, code = show("--raw")
	assert.True(t, code == 2 && strings.Contains(out, "--reveal"), "--raw alone: %s", out)
}

// storeAnswered stores a completed record with an answer in the store of recordsInDoubt.
func storeAnswered(t *testing.T, store *sqlstore.Store, id, body string) {
	t.Helper()
	e := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	key := retrysafe.Key{Operation: "POST /orders", ID: id}
	a, _, err := e.Layer("gw").Begin(t.Context(), key)
	assert.NoError(t, err, "begin")
	assert.NoError(t, a.Complete(context.Background(), retrysafe.Answer{Codec: "raw", Body: []byte(body), Kept: true}), "complete")
}
