package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// startRedis starts a server for this test only, with a password.
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

// TestGatewaysOnRedis: two gateways share finished work, one is killed, and operators see the same
// records. No password is shown.
func TestGatewaysOnRedis(t *testing.T) {
	t.Parallel()
	up, effects := newCountingService(t)
	addr := startRedis(t)
	store := "redis://:pass-word@" + addr
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	assert.NoError(t, os.WriteFile(file, []byte("upstream: "+up.URL+"\nstore: "+store+"\n"), 0o600), "file")
	first, base, log := startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	_, other, _ := startGateway(t, "--upstream", up.URL, "--store", store, "--listen", "127.0.0.1:0")
	for i := range 10 {
		key := fmt.Sprint("k", i)
		status, body, _ := postPayment(t, []string{base, other}[i%2], key)
		assert.Equal(t, status, 201, "the first (%s)", body)
		status, _, header := postPayment(t, []string{other, base}[i%2], key)
		assert.Equal(t, fmt.Sprint(status, header.Get("Idempotency-Replayed")), "201true", "a repeat at the other gateway")
		assert.Equal(t, effects(key), int64(1), "effects")
	}
	killProcess(first)
	status, _, header := postPayment(t, other, "k0")
	assert.Equal(t, fmt.Sprint(status, header.Get("Idempotency-Replayed")), "201true", "after one was killed")
	out, err := newCommand(t, "keys", "--store", store, "list", "--state", "completed").CombinedOutput()
	assert.NoError(t, err, "keys list (%s)", out)
	assert.Equal(t, strings.Count(string(out), "completed"), 10, "records: %s", out)
	released, err := newCommand(t, "keys", "--store", store, "release", "k0", "--fence", "1", "--reason", "x").CombinedOutput()
	assert.True(t, err != nil && !strings.Contains(string(released), "WARN"), "a command that does not serve does not warn about the server: %s", released)
	assert.True(t, !strings.Contains(log.String()+string(out), "pass-word"), "no password: %s", log)

	for name, want := range map[string]string{
		"redis://127.0.0.1:1":          "cannot connect",
		"redis://" + addr:              "NOAUTH",
		"redis://:wrong-word@" + addr:  "WRONGPASS",
		"redis+sentinel://" + addr:     "name of the primary",
		"redis://:wrong-word@" + "a b": "no host and port",
	} {
		out, err := newCommand(t, "gateway", "--namespace", "app", "--upstream", up.URL, "--store", name, "--listen", "127.0.0.1:0").CombinedOutput()
		assert.True(t, err != nil, "%s: it ends with an error", name)
		assert.Contains(t, string(out), want, "%s", name)
		assert.True(t, !strings.Contains(string(out), "-word"), "no password: %s", out)
	}
	evicting := startRedis(t, "--maxmemory-policy", "allkeys-lru")
	out, err = newCommand(t, "gateway", "--namespace", "app", "--upstream", up.URL, "--store", "redis://:pass-word@"+evicting, "--listen", "127.0.0.1:0").CombinedOutput()
	assert.True(t, err != nil && strings.Contains(string(out), "allkeys-lru") && strings.Contains(string(out), "allow_eviction: true"), "a server that evicts: %s", out)
}

// leastRights returns the rights that docs/stores.md says are enough for a user.
func leastRights(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/stores.md")
	assert.NoError(t, err, "page")
	rights := regexp.MustCompile("(?s)ACL SETUSER shop on '>PASSWORD' (.+?)```").FindStringSubmatch(string(page))
	assert.Equal(t, len(rights), 2, "the command that makes a user")
	return strings.Fields(strings.NewReplacer("'", "", "\\", "").Replace(rights[1]))
}

// TestHostedRedis: the gateway and the commands work on a server without CONFIG, as a user with
// every right and as one with those of docs/stores.md alone.
func TestHostedRedis(t *testing.T) {
	t.Parallel()
	up, effects := newCountingService(t)
	users := append([]string{"--rename-command", "CONFIG", "", "--user", "ann", "on", ">pass-word"}, leastRights(t)...)
	addr := startRedis(t, users...)
	for user, warned := range map[string]bool{"": false, "ann": true} {
		store := "redis://" + user + ":pass-word@" + addr
		config := filepath.Join(t.TempDir(), "gateway.yaml")
		assert.NoError(t, os.WriteFile(config, []byte("upstream: "+up.URL+"\ndefaults: {limits: {live: 100, bytes: 1MiB}}\n"), 0o600), "configuration")
		_, base, log := startGateway(t, "--config", config, "--store", store, "--listen", "127.0.0.1:0")
		key := "of-user-" + user
		for i := range 2 {
			status, body, header := postPayment(t, base, key)
			assert.Equal(t, fmt.Sprint(status, header.Get("Idempotency-Replayed")), []string{"201", "201true"}[i], "%q: request %d (%s; %s)", user, i, body, log)
		}
		assert.Equal(t, effects(key), int64(1), "%q: effects", user)
		assert.True(t, strings.Contains(log.String(), "tells neither its configuration") == warned, "%q: the log: %s", user, log)
		for _, args := range [][]string{
			{"keys", "list"},
			{"keys", "list", "--in-doubt"},
			{"keys", "list", "--namespace", "app", "--answer-text", "order", "--reason", "x", "--no-secret"},
			{"keys", "export", "--namespace", "app", "--tenant", "nobody", "--reason", "x", "--no-secret"},
			{"keys", "forget", "--namespace", "app", "--tenant", "nobody", "--reason", "x", "--no-secret"},
			{"keys", "show", key},
			{"keys", "quota"},
			{"keys", "release", key, "--fence", "1", "--reason", "x"},
			{"keys", "list", "--layer", "audit"},
			{"resume"},
			{"secret", "check", "--namespace", "app"},
			{"dlq", "list", "--broker", store, "--queue", "rs:orders/stock", "--store", "none"},
		} {
			c := newCommand(t, args...)
			c.Env = append(c.Environ(), "RETRYSAFE_STORE="+store)
			out, code := runToEnd(t, c)
			refused := strings.Contains(out, "NOPERM") || strings.Contains(out, "unknown command") || strings.Contains(out, "may not")
			if args[0] == "dlq" && warned {
				assert.True(t, refused && strings.Contains(out, "commands that begin with X"), "%q: %v needs other rights: %s", user, args, out)
				continue
			}
			assert.True(t, !refused && code < 2, "%q: %v: %d %s", user, args, code, out)
		}
	}
}

// TestRedisOverTLS: over TLS, with a user that has only the rights in the documentation.
func TestRedisOverTLS(t *testing.T) {
	// Not parallel: it sets an environment variable that children inherit.
	dir := t.TempDir()
	_, _ = writeCertificate(t, dir, 7)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	path, err := exec.LookPath("redis-server")
	assert.NoError(t, err, "redis-server is not installed: apt-get install -y redis-server")
	port := freePorts(t, 1)[0]
	c := exec.Command(path, append([]string{
		"--port", "0", "--tls-port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes",
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no",
		"--user", "default", "off", "--user", "ann", "on", ">pass-word",
	}, leastRights(t)...)...)
	var said output
	c.Stdout = &said
	assert.NoError(t, c.Start(), "start redis-server")
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	eventually(t, func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, "redis-server listens: "+said.String())
	up, effects := newCountingService(t)
	t.Setenv("SSL_CERT_FILE", cert)
	config := filepath.Join(dir, "gateway.yaml")
	assert.NoError(t, os.WriteFile(config, []byte("upstream: "+up.URL+"\ndefaults: {limits: {live: 1, bytes: 1MiB}}\n"), 0o600), "configuration")
	_, base, log := startGateway(t, "--config", config, "--store", "rediss://ann:pass-word@127.0.0.1:"+port, "--listen", "127.0.0.1:0")
	for i := range 2 {
		status, body, header := postPayment(t, base, "k")
		assert.Equal(t, fmt.Sprint(status, header.Get("Idempotency-Replayed")), []string{"201", "201true"}[i], "request %d (%s; %s)", i, body, log)
	}
	assert.Equal(t, effects("k"), int64(1), "effects")
	status, body, _ := postPayment(t, base, "another")
	assert.Equal(t, status, 429, "a key over the limit (%s; %s)", body, log)
	out, err := newCommand(t, "keys", "--store", "rediss://ann:pass-word@127.0.0.1:"+port, "list").CombinedOutput()
	assert.NoError(t, err, "keys list (%s)", out)
	assert.Contains(t, string(out), "completed", "keys list")
}

// TestDemoOnRedis runs every scene on one server several times: what an earlier run has left there
// changes nothing, is not in doubt, and expires by itself.
func TestDemoOnRedis(t *testing.T) {
	t.Parallel()
	store := "redis://:pass-word@" + startRedis(t) + "/0"
	for range 2 {
		playDemo(t, "--store", store)
	}
	d := startDemo(t, t.TempDir(), "--listen", "127.0.0.1:0", "--store", store)
	doubtOnPage(t, d, "pass-word")
	d.sendPost(t, "/press", `{"how":"killed","times":1}`) // a doubt that is not resolved
	d.awaitState(t, "the kill", func(s demoState) bool { return !s.Gateway.Up && allAnswered(s) })
	assert.NoError(t, d.process.Process.Signal(os.Interrupt), "interrupt")
	assert.NoError(t, d.process.Wait(), "exit code")

	at, err := redisclient.ParseURL(store)
	assert.NoError(t, err, "address")
	client, err := rueidisclient.Open(at)
	assert.NoError(t, err, "connect")
	defer client.Close()
	records, err := redisstore.New(t.Context(), client, nil)
	assert.NoError(t, err, "store")
	page, err := records.List(t.Context(), storeapi.ListRequest{Limit: 1000})
	assert.NoError(t, err, "list")
	ofDemo := regexp.MustCompile(`-[a-z2-7]{10}$`)
	for _, rec := range page.Records {
		if rec.Key.Layer == "audit" {
			continue // an operator resolved the doubt by the command line
		}
		assert.True(t, rec.State != retrysafe.StateInProgress, "it has ended: %v", rec.State)
		assert.True(t, ofDemo.MatchString(rec.Key.ID) || rec.Key.Layer == "secret" || rec.Key.Layer == "mark", "Ctrl-C would not resolve the key %s", rec.Key.ID)
		assert.True(t, !rec.Expires.IsZero() && time.Until(rec.Expires) <= time.Hour, "it is gone within an hour: %v", rec.Expires)
	}
	assert.True(t, len(page.Records) > 20, "records: %d", len(page.Records))
}
