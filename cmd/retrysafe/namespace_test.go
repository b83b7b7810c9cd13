package main

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestKeysNamespace: keys list and keys show say which service a record is of, and a namespace
// that has no records is named.
func TestKeysNamespace(t *testing.T) {
	t.Parallel()
	name, _, _, _ := recordsInDoubt(t, "order-1")
	keys := func(args ...string) (string, int) {
		return runToEnd(t, newCommand(t, append([]string{"keys", "--store", name}, args...)...))
	}
	out, _ := keys("list")
	lines := strings.Split(out, "\n")
	assert.Equal(t, strings.Fields(lines[0])[1], "NAMESPACE", "list: %s", out)
	assert.Equal(t, strings.Fields(lines[1])[1], "shop", "list: %s", out)
	hash := strings.Fields(lines[1])[0]
	out, _ = keys("list", "--namespace", "shop")
	assert.True(t, strings.Contains(out, hash) && !strings.Contains(out, "NAMESPACE"), "list of one namespace: %s", out)
	out, _ = keys("list", "--json")
	assert.Contains(t, out, `"namespace":"shop"`, "JSON")
	out, _ = keys("show", hash)
	assert.True(t, strings.Contains(out, " shop\n") && strings.Contains(out, "\nin doubt since ") && strings.Contains(out, "\nage "), "show: %s", out)

	out, code := keys("list", "--namespace", "typo")
	assert.True(t, code == 0 && strings.Contains(out, "nothing was found in namespace typo\n"), "list of a namespace without records: %s", out)
	out, code = keys("show", hash, "--namespace", "typo")
	assert.Equal(t, code, 1, "exit code")
	assert.Contains(t, out, "no record of namespace typo has the hash "+hash+"; is that the namespace of the service, and is RETRYSAFE_SECRET the one of the gateway?", "show")
	out, _ = keys("show", "0123456789abcdef")
	assert.Contains(t, out, "no record has the hash 0123456789abcdef; is RETRYSAFE_SECRET", "show without a namespace")
	out, _ = keys("show", "order-1", "--namespace", "typo")
	assert.Contains(t, out, "no record of namespace typo has the key order-1", "show of a key")
}
