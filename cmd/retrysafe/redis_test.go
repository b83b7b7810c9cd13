package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// startRedis runs a server of this test's own, with a password.
func startRedis(t *testing.T, args ...string) (addr string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	assert.NoError(t, err, "redis-server is not installed: apt-get install -y redis-server")
	port := freePorts(t, 1)[0]
	c := exec.Command(path, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "yes", "--requirepass", "pass-word",
	}, args...)...)
	assert.NoError(t, c.Start(), "start redis-server")
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	addr = "127.0.0.1:" + port
	eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, "redis-server listens")
	return addr
}

// TestGatewaysOnRedis: two gateways share what is done, one is killed, and operators look at the same records. No password is shown.
func TestGatewaysOnRedis(t *testing.T) {
	t.Parallel()
	up, effects := counting(t)
	addr := startRedis(t)
	store := "redis://:pass-word@" + addr
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	assert.NoError(t, os.WriteFile(file, []byte("upstream: "+up.URL+"\nstore: "+store+"\n"), 0o600), "file")
	first, base, log := startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	_, other, _ := startGateway(t, "--upstream", up.URL, "--store", store, "--listen", "127.0.0.1:0")
	for i := range 10 {
		key := fmt.Sprint("k", i)
		status, body, _ := post(t, []string{base, other}[i%2], key)
		assert.Equal(t, status, 201, "the first (%s)", body)
		status, _, header := post(t, []string{other, base}[i%2], key)
		assert.Equal(t, fmt.Sprint(status, header.Get("Idempotency-Replayed")), "201true", "a repeat at the other gateway")
		assert.Equal(t, effects(key), int64(1), "effects")
	}
	kill(first)
	status, _, header := post(t, other, "k0")
	assert.Equal(t, fmt.Sprint(status, header.Get("Idempotency-Replayed")), "201true", "after one was killed")
	out, err := command(t, "keys", "--store", store, "list", "--state", "completed").CombinedOutput()
	assert.NoError(t, err, "keys list (%s)", out)
	assert.Equal(t, strings.Count(string(out), "completed"), 10, "records: %s", out)
	assert.True(t, !strings.Contains(log.String()+string(out), "pass-word"), "no password: %s", log)

	for name, want := range map[string]string{
		"redis://127.0.0.1:1":          "cannot connect",
		"redis://" + addr:              "NOAUTH",
		"redis://:wrong-word@" + addr:  "WRONGPASS",
		"redis+sentinel://" + addr:     "name of the primary",
		"redis://:wrong-word@" + "a b": "no host and port",
	} {
		out, err := command(t, "gateway", "--upstream", up.URL, "--store", name, "--listen", "127.0.0.1:0").CombinedOutput()
		assert.True(t, err != nil, "%s: it ends with an error", name)
		assert.Contains(t, string(out), want, "%s", name)
		assert.True(t, !strings.Contains(string(out), "-word"), "no password: %s", out)
	}
	evicting := startRedis(t, "--maxmemory-policy", "allkeys-lru")
	out, err = command(t, "gateway", "--upstream", up.URL, "--store", "redis://:pass-word@"+evicting, "--listen", "127.0.0.1:0").CombinedOutput()
	assert.True(t, err != nil && strings.Contains(string(out), "allkeys-lru"), "a server that evicts: %s", out)
}
