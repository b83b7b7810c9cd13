package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestCheckConfigFindsWhatAStartNeeds tests that --check-config reports what the start would, with
// the place in the file where the file says it.
func TestCheckConfigFindsWhatAStartNeeds(t *testing.T) {
	t.Parallel()
	const forms = "is not known; write memory:, sqlite:PATH, redis://HOST,"
	for _, one := range []struct {
		text, secret, want string
		args               []string
	}{
		{text: "\nstore: 127.0.0.1:6379", want: `gateway.yaml:2:1: store "127.0.0.1:6379" ` + forms},
		{text: "\nstore: rdis://me:sesame@10.0.0.1:6379/0?password=sesame", want: `gateway.yaml:2:1: store "rdis://…@10.0.0.1:6379/0" ` + forms},
		{text: "\nstore: redis://10.0.0.1", secret: "sixteen random bytes", want: "gateway.yaml:2:1: namespace is missing"},
		{text: "\nstore: redis://10.0.0.1\nnamespace: shop", want: "RETRYSAFE_SECRET is not set"},
		{text: "\nstore: redis://10.0.0.1\nnamespace: shop", secret: "sesame", want: "the secret is RETRYSAFE_SECRET"},
		{text: "\nstore: redis://10.0.0.1\nnamespace: shop", secret: "sixteen random bytes", want: "the configuration is good: 0 routes\n"},
		{text: "\nlisten: here", want: "gateway.yaml:2:1: --listen \"here\": write it like 127.0.0.1:8080"},
		{text: "\nstore: memory", args: []string{"--store", "127.0.0.1:6379"}, want: `retrysafe: store "127.0.0.1:6379" ` + forms},
	} {
		path := filepath.Join(t.TempDir(), "gateway.yaml")
		assert.NoError(t, os.WriteFile(path, []byte("upstream: http://127.0.0.1:9"+one.text+"\n"), 0o600), "file")
		c := command(t, append([]string{"gateway", "--check-config", "--config", path}, one.args...)...)
		c.Env = append(c.Env, "RETRYSAFE_SECRET="+one.secret, "RETRYSAFE_STORE=")
		out, _ := c.CombinedOutput()
		assert.Contains(t, string(out), one.want, "%s", one.text)
		assert.True(t, !strings.Contains(string(out), "sesame"), "%s: a password in %s", one.text, out)
	}
}
