package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		c := newCommand(t, append([]string{"gateway", "--check-config", "--config", path}, one.args...)...)
		c.Env = append(c.Env, "RETRYSAFE_SECRET="+one.secret, "RETRYSAFE_STORE=")
		out, _ := c.CombinedOutput()
		assert.Contains(t, string(out), one.want, "%s", one.text)
		assert.True(t, !strings.Contains(string(out), "sesame"), "%s: a password in %s", one.text, out)
	}
}

// TestCheckConfigLooksIntoFiles: an expired certificate is an error, one that expires soon and a
// file of secrets that everybody may read are warnings, and a file of tokens that others may write
// to is refused. A start logs the warnings, and so does a reload.
func TestCheckConfigLooksIntoFiles(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	dir := t.TempDir()
	files := certificates{t, dir}
	good, goodKey := files.write("good", 90*day)
	soon, soonKey := files.write("soon", 13*day)
	old, oldKey := files.write("old", -time.Hour)
	open := filepath.Join(dir, "open.key")
	copyFile(t, goodKey, open, 0o644)
	tokens := filepath.Join(dir, "tokens")
	assert.NoError(t, os.WriteFile(tokens, nil, 0o600), "file")
	assert.NoError(t, os.Chmod(tokens, 0o620), "chmod")
	both := filepath.Join(dir, "both.pem")
	one, err := os.ReadFile(old)
	assert.NoError(t, err, "file")
	other, err := os.ReadFile(good)
	assert.NoError(t, err, "file")
	assert.NoError(t, os.WriteFile(both, append(one, other...), 0o600), "file")
	const isGood = "the configuration is good"
	for name, tt := range map[string]struct {
		text string
		code int
		want string
	}{
		"good":                    {fmt.Sprintf("tls: {cert: %s, key: %s}", good, goodKey), 0, isGood},
		"soon":                    {fmt.Sprintf("tls: {cert: %s, key: %s}", soon, soonKey), 0, "warning: tls.cert: " + soon + " has a certificate that expires at "},
		"expired":                 {fmt.Sprintf("tls: {cert: %s, key: %s}", old, oldKey), 2, "tls.cert: " + old + " has a certificate that expired at "},
		"clients, expired":        {fmt.Sprintf("tls: {cert: %s, key: %s, client_ca: %s}", good, goodKey, old), 2, "tls.client_ca: " + old + " has"},
		"clients, one of two":     {fmt.Sprintf("tls: {cert: %s, key: %s, client_ca: %s}", good, goodKey, both), 0, "warning: tls.client_ca: " + both + " has a certificate that expired at "},
		"upstream, expired":       {"upstream_ca: " + old, 2, "upstream_ca: " + old + " has"},
		"key for everybody":       {fmt.Sprintf("tls: {cert: %s, key: %s}", good, open), 0, "warning: tls.key: everybody on this machine may read " + open + " (mode 0644)"},
		"tokens of others":        {fmt.Sprintf("admin: 127.0.0.1:0\noperators: {tokens: %s}", tokens), 2, tokens + ": others than its owner may write to the file (mode 0620)"},
		"store, not there yet":    {"store: sqlite:" + filepath.Join(dir, "new.db"), 0, "does not exist yet"},
		"store, nothing answers":  {"store: redis://127.0.0.1:1\nnamespace: shop", 1, "cannot connect"},
		"store, no such argument": {"store: memory", 2, "write --check-config, or --check-config=store"},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".yaml")
		assert.NoError(t, os.WriteFile(path, []byte("upstream: http://127.0.0.1:9\n"+tt.text+"\n"), 0o600), "file")
		check := "--check-config"
		switch {
		case name == "store, no such argument":
			check += "=shop"
		case strings.HasPrefix(name, "store"):
			check += "=store"
		}
		out, code := runToEnd(t, withSecret(t, "sixteen random bytes", "gateway", check, "--config", path))
		assert.Equal(t, code, tt.code, "%s: %s", name, out)
		assert.Contains(t, out, tt.want, "%s", name)
		assert.Equal(t, strings.Contains(out, isGood), tt.code == 0, "%s: %s", name, out)
		assert.Equal(t, strings.Contains(out, "warning: "), strings.HasPrefix(tt.want, "warning: "), "%s: %s", name, out)
	}
	_, err = os.Stat(filepath.Join(dir, "new.db"))
	assert.ErrorIs(t, err, os.ErrNotExist, "a check makes no store")

	up, _ := newCountingService(t)
	config := filepath.Join(dir, "served.yaml")
	write := func(cert, key string) {
		text := fmt.Sprintf("upstream: %s\nlisten: 127.0.0.1:0\nstore: memory\ntls: {cert: %s, key: %s}\n", up.URL, cert, key)
		assert.NoError(t, os.WriteFile(config, []byte(text), 0o600), "file")
	}
	write(soon, soonKey)
	c, _, log := startGatewayIn(t, []string{"RETRYSAFE_SECRET=" + oneSecret}, "--config", config)
	eventually(t, func() bool { return strings.Contains(log.String(), soon+" has a certificate that expires at ") }, "a warning of the start")
	write(old, oldKey)
	hangUp(t, c, log, "configuration reloaded")
	eventually(t, func() bool { return strings.Contains(log.String(), old+" has a certificate that expired at ") }, "a warning of the reload")
}

// TestCheckConfigOfUsedStore: the check of a store refuses another secret, as a start does.
func TestCheckConfigOfUsedStore(t *testing.T) {
	t.Parallel()
	store, _ := usedStore(t, oneSecret)
	config := filepath.Join(t.TempDir(), "gateway.yaml")
	assert.NoError(t, os.WriteFile(config, []byte("upstream: http://127.0.0.1:9\nstore: "+store+"\n"), 0o600), "file")
	for secret, want := range map[string]int{oneSecret: 0, otherSecret: 2} {
		out, code := runToEnd(t, withSecret(t, secret, "gateway", "--check-config=store", "--config", config))
		assert.Equal(t, code, want, "%s", out)
		assert.Equal(t, strings.Contains(out, "was used with another secret"), want != 0, "%s", out)
	}
}

// certificates makes certificates in a folder.
type certificates struct {
	t   *testing.T
	dir string
}

// write writes a certificate for 127.0.0.1 that expires after some time, and its key.
func (c certificates) write(name string, expires time.Duration) (certFile, keyFile string) {
	c.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	assert.NoError(c.t, err, "key")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(expires), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	assert.NoError(c.t, err, "certificate")
	key, err := x509.MarshalPKCS8PrivateKey(private)
	assert.NoError(c.t, err, "key")
	certFile, keyFile = filepath.Join(c.dir, name+".pem"), filepath.Join(c.dir, name+".key")
	assert.NoError(c.t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600), "file")
	assert.NoError(c.t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600), "file")
	return certFile, keyFile
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	text, err := os.ReadFile(from)
	assert.NoError(t, err, "file")
	assert.NoError(t, os.WriteFile(to, text, 0o600), "file")
	assert.NoError(t, os.Chmod(to, mode), "chmod")
}
