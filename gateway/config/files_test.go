package config_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestFilesBesideTheConfiguration tests that relative paths of files count from the directory of
// the configuration, and that an error has the whole path.
func TestFilesBesideTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.yaml")
	write := func(name, text string) {
		assert.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600), "%s", name)
	}
	for option, file := range map[string]string{
		"upstream_ca: FILE": "ca.pem", "tls: {cert: FILE, key: FILE}": "tls.pem", "tls: {cert: FILE, key: FILE, client_ca: FILE}": "clients.pem",
		"operators: {tokens: FILE}": "tokens", "seal: {keys: FILE}": "seal.json", "defaults: {signature: {keys: FILE}}": "callers.keys",
		"routes: [{match: POST /a, signature: {keys: FILE}}]": "route.keys", "defaults: {tenant: {jwt: {jwks: FILE, issuer: x}}}": "jwks.json",
	} {
		write("gateway.yaml", "upstream: http://127.0.0.1:9\nadmin: 127.0.0.1:8081\n"+strings.ReplaceAll(option, "FILE", file)+"\n")
		c, err := config.Load(path)
		if err == nil {
			_, _, err = c.Options()
		}
		assert.True(t, err != nil && strings.Contains(err.Error(), "open "+filepath.Join(dir, file)), "%s: %v", option, err)
	}
	write("callers.keys", "ann hmac-sha256 "+base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n")
	write("gateway.yaml", "upstream: http://127.0.0.1:9\nadmin: 127.0.0.1:8081\ndefaults: {signature: {keys: callers.keys, authorities: a.example}}\n")
	c, err := config.Load(path)
	assert.NoError(t, err, "a file beside the configuration")
	_, _, err = c.Options()
	assert.NoError(t, err, "options")
}
