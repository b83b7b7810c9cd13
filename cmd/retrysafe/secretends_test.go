package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestSecretEnds: a secret with white space at an end is refused by every command with a store, and
// not shown. White space inside is a part of it.
func TestSecretEnds(t *testing.T) {
	t.Parallel()
	const secret = "sixteen bytes and more"
	store := "sqlite:" + filepath.Join(t.TempDir(), "r.db")
	with := func(secret string, args ...string) (string, int) {
		c := newCommand(t, args...)
		c.Env = append(os.Environ(), asCommand+"=1", "RETRYSAFE_SECRET="+secret)
		return runToEnd(t, c)
	}
	for _, args := range [][]string{
		{"gateway", "--upstream", "http://127.0.0.1:1", "--store", store},
		{"gateway", "--upstream", "http://127.0.0.1:1", "--store", store, "--check-config"},
		{"keys", "list", "--store", store},
		{"secret", "replace", "--store", store, "--namespace", "shop", "--by", "ann", "--reason", "x"},
		{"dlq", "list", "--broker", "redis://127.0.0.1:1", "--queue", "q", "--store", store},
		{"console", "--store", store},
	} {
		for ends, where := range map[string]string{secret + "\n": "ends", " " + secret: "begins", secret + "\u00a0": "ends"} {
			out, code := with(ends, args...)
			assert.True(t, code == 2 && strings.Contains(out, "RETRYSAFE_SECRET "+where+" with white space"), "%q: %d %s", args, code, out)
			assert.True(t, !strings.Contains(out, secret), "%q shows the secret: %s", args, out)
		}
	}
	out, code := with(secret, "keys", "list", "--store", store)
	assert.True(t, code == 1 && strings.Contains(out, "no such file"), "without: %d %s", code, out)
	out, code = with(secret+"\n", "version")
	assert.Equal(t, code, 0, "a command without a store: %s", out)
}
