package main

import (
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestKeysWithoutSecret: on a store where a gateway needs a secret, keys list and keys show warn
// without one, and what writes a hash to the audit log is refused.
func TestKeysWithoutSecret(t *testing.T) {
	t.Parallel()
	store := "redis://:pass-word@" + startRedis(t)
	keys := func(args ...string) (string, int) {
		c := newCommand(t, append([]string{"keys", "--store", store}, args...)...)
		c.Env = append(os.Environ(), asCommand+"=1", "RETRYSAFE_SECRET=")
		return runToEnd(t, c)
	}
	out, code := keys("list")
	assert.True(t, code == 0 && strings.Contains(out, "RETRYSAFE_SECRET is not set"), "list: %s", out)
	out, code = keys("list", "--no-secret")
	assert.True(t, code == 0 && !strings.Contains(out, "RETRYSAFE_SECRET is not set"), "list --no-secret: %s", out)
	out, _ = keys("show", "order-1")
	assert.Contains(t, out, "RETRYSAFE_SECRET is not set", "show")
	for _, args := range [][]string{
		{"release", "order-1", "--fence", "1", "--reason", "x"},
		{"resolve", "order-1", "--fence", "1", "--outcome", "not-done", "--reason", "x"},
		{"show", "order-1", "--reveal", "--reason", "x"},
	} {
		out, code = keys(args...)
		assert.True(t, code == 2 && strings.Contains(out, "RETRYSAFE_SECRET is not set") && strings.Contains(out, "--no-secret"), "%q: %s", args, out)
		out, code = keys(append(args, "--no-secret")...)
		assert.True(t, code == 1 && strings.Contains(out, "no record has the key"), "%q --no-secret: %s", args, out)
	}
}
