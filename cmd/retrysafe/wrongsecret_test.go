package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

const oneSecret, otherSecret = "the first of the words", "another of the words"

// withSecret returns a command with a secret, or without one. It ends in time: a gateway that
// should not start must not run for ever.
func withSecret(t *testing.T, secret string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c := commandContext(ctx, t, args...)
	c.Env = append(c.Env, "RETRYSAFE_SECRET="+secret)
	return c
}

// TestGatewaysWithTwoSecrets: of two gateways on one store, the one with another secret does not
// start, so no request runs twice.
func TestGatewaysWithTwoSecrets(t *testing.T) {
	t.Parallel()
	up, effects := newCountingService(t)
	store := "redis://:pass-word@" + startRedis(t)
	args := []string{"--upstream", up.URL, "--store", store, "--listen", "127.0.0.1:0"}
	_, base, _ := startGatewayIn(t, []string{"RETRYSAFE_SECRET=" + oneSecret}, args...)
	status, _, _ := postPayment(t, base, "k")
	assert.Equal(t, status, 201, "a request")
	out, code := runToEnd(t, withSecret(t, otherSecret, append([]string{"gateway", "--namespace", "app"}, args...)...))
	assert.Equal(t, code, 2, "a gateway with another secret: %s", out)
	for _, want := range []string{`namespace "app" was used with another secret`, "retrysafe secret replace"} {
		assert.Contains(t, out, want, "what it says")
	}
	assert.True(t, !strings.Contains(out, oneSecret) && !strings.Contains(out, otherSecret), "a secret is shown: %s", out)
	_, other, _ := startGatewayIn(t, []string{"RETRYSAFE_SECRET=" + oneSecret}, args...)
	status, _, header := postPayment(t, other, "k")
	assert.Equal(t, fmt.Sprint(status, header.Get("Idempotency-Replayed")), "201true", "a repeat at a gateway with the same secret")
	assert.Equal(t, effects("k"), int64(1), "effects")
	// another namespace is another service, which may have a secret of its own
	_, _, log := startGatewayIn(t, []string{"RETRYSAFE_SECRET=" + otherSecret}, append(args, "--namespace", "bank")...)
	assert.True(t, !strings.Contains(log.String(), "another secret"), "another namespace: %s", log)

	out, code = runToEnd(t, withSecret(t, otherSecret, "dlq", "run", "--every", "0", "--broker", store, "--queue", "orders/billing", "--store", store, "--namespace", "app"))
	assert.True(t, code == 2 && strings.Contains(out, "another secret"), "dlq run: %d %s", code, out)
}

// usedStore is a SQLite store with a record of a gateway that had oneSecret, or no secret.
func usedStore(t *testing.T, secret string) (store, hash string) {
	t.Helper()
	up, _ := newCountingService(t)
	store = "sqlite:" + filepath.Join(t.TempDir(), "records.db")
	c, base, _ := startGatewayIn(t, []string{"RETRYSAFE_SECRET=" + secret}, "--upstream", up.URL, "--store", store, "--listen", "127.0.0.1:0")
	status, _, _ := postPayment(t, base, "k-1")
	assert.Equal(t, status, 201, "a request")
	killProcess(c)
	out, code := runToEnd(t, withSecret(t, secret, "keys", "--store", store, "list"))
	assert.Equal(t, code, 0, "keys list: %s", out)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	assert.Equal(t, len(lines), 2, "the head and one record: %s", out)
	hash, _, _ = strings.Cut(lines[1], " ")
	return store, hash
}

// TestCommandsWithAnotherSecret: commands that show records warn in one line, and commands that act
// are refused.
func TestCommandsWithAnotherSecret(t *testing.T) {
	t.Parallel()
	store, hash := usedStore(t, oneSecret)
	sealKeys, code := runToEnd(t, newCommand(t, "seal", "keygen", "first"))
	assert.Equal(t, code, 0, "keygen")
	keyFile := filepath.Join(t.TempDir(), "seal.json")
	assert.NoError(t, os.WriteFile(keyFile, []byte(sealKeys), 0o600), "keys")
	tests := map[string]struct {
		args []string
		code int // with another secret
		ok   int // with the same one
	}{
		"list":         {[]string{"keys", "list"}, 0, 0},
		"list app":     {[]string{"keys", "list", "--namespace", "app"}, 0, 0},
		"show":         {[]string{"keys", "show", "k-1"}, 0, 0},
		"show a hash":  {[]string{"keys", "show", hash}, 1, 0},
		"reveal":       {[]string{"keys", "show", "k-1", "--reveal", "--reason", "x"}, 2, 0},
		"release":      {[]string{"keys", "release", "k-1", "--fence", "1", "--reason", "x"}, 2, 1},
		"resolve":      {[]string{"keys", "resolve", hash, "--fence", "1", "--outcome", "not-done", "--reason", "x"}, 2, 1},
		"list of ann":  {[]string{"keys", "list", "--user", "ann"}, 0, 0},
		"answers":      {[]string{"keys", "list", "--answer-text", "order", "--reason", "x"}, 2, 0},
		"export":       {[]string{"keys", "export", "--tenant", "nobody", "--reason", "x"}, 2, 0},
		"forget ann":   {[]string{"keys", "forget", "--tenant", "nobody", "--reason", "x"}, 2, 1},
		"dry run":      {[]string{"keys", "forget", "--tenant", "nobody", "--dry-run"}, 2, 1},
		"resume":       {[]string{"resume", "--once", "--operation", "pay", "--exec", "true"}, 2, 0},
		"rewrap":       {[]string{"seal", "rewrap", "--seal-keys", keyFile}, 2, 0},
		"forget":       {[]string{"seal", "forget", "--seal-keys", keyFile, "--namespace", "app", "--tenant", "ada", "--reason", "x"}, 2, 1},
		"secret check": {[]string{"secret", "check"}, 1, 0},
	}
	for name, c := range tests {
		args := append(c.args, "--store", store)
		for _, secret := range []string{otherSecret, ""} {
			out, code := runToEnd(t, withSecret(t, secret, args...))
			assert.Equal(t, code, c.code, "%s with the secret %q: %s", name, secret, out)
			says := `namespace "app" was used with another secret`
			if secret == "" {
				says = `namespace "app" was used with a secret, and this process has none`
			}
			assert.Equal(t, strings.Count(out, says), 1, "%s with the secret %q: %s", name, secret, out)
			assert.True(t, !strings.Contains(out, oneSecret) && !strings.Contains(out, otherSecret), "%s shows a secret: %s", name, out)
		}
		out, code := runToEnd(t, withSecret(t, oneSecret, args...))
		assert.True(t, code == c.ok && !strings.Contains(out, "was used with"), "%s with the same secret: %d %s", name, code, out)
	}
	out, code := runToEnd(t, withSecret(t, oneSecret, "keys", "--store", store, "list", "--layer", "secret"))
	assert.True(t, code == 0 && strings.Contains(out, "secret"), "list --layer secret: %d %s", code, out)

	out, code = runToEnd(t, withSecret(t, oneSecret, "keys", "--store", store, "show", "k-1", "--reveal", "--reason", "x"))
	assert.Equal(t, code, 0, "reveal: %s", out)
	_, key, _ := strings.Cut(out, "\nkey ")
	key, _, _ = strings.Cut(strings.TrimSpace(key), "\n")
	assert.True(t, strings.HasPrefix(key, "app/"), "the text of the key: %q", key)
	for _, flag := range []string{"app", "bank"} { // the key is of app, whatever the flag says
		out, code = runToEnd(t, withSecret(t, otherSecret, "keys", "--store", store, "--namespace", flag, "show", key, "--reveal", "--reason", "x"))
		assert.True(t, code == 2 && strings.Contains(out, `namespace "app" was used with another secret`), "the whole key, with --namespace %s: %d %s", flag, code, out)
	}
}

// TestStoreWithoutSecret: a store that was used without a secret says so, and needs no --no-secret.
func TestStoreWithoutSecret(t *testing.T) {
	t.Parallel()
	store, _ := usedStore(t, "")
	out, code := runToEnd(t, withSecret(t, "", "secret", "check", "--store", store))
	assert.True(t, code == 0 && strings.Contains(out, "was used without a secret"), "check: %d %s", code, out)
	out, code = runToEnd(t, withSecret(t, oneSecret, "keys", "--store", store, "list"))
	assert.True(t, code == 0 && strings.Contains(out, "was used without a secret, and this process has one"), "list: %d %s", code, out)
}

// TestSecretReplace: the secret is replaced on purpose, with an entry in the audit log, and from
// then on the old one is the wrong one.
func TestSecretReplace(t *testing.T) {
	t.Parallel()
	store, _ := usedStore(t, oneSecret)
	secret := func(of string, args ...string) (string, int) {
		return runToEnd(t, withSecret(t, of, append([]string{"secret", args[0], "--store", store}, args[1:]...)...))
	}
	out, code := secret(otherSecret, "replace")
	assert.True(t, code == 2 && strings.Contains(out, "--reason"), "without a reason: %d %s", code, out)
	out, code = secret(oneSecret, "replace", "--reason", "x")
	assert.True(t, code == 0 && strings.Contains(out, "already"), "by the same one: %d %s", code, out)
	db, err := sql.Open("sqlite", strings.TrimPrefix(store, "sqlite:"))
	assert.NoError(t, err, "open")
	defer db.Close()
	_, err = db.ExecContext(t.Context(), `CREATE TRIGGER no_log BEFORE INSERT ON retrysafe_records BEGIN SELECT RAISE(ABORT, 'no room'); END`)
	assert.NoError(t, err, "trigger")
	out, code = secret(otherSecret, "replace", "--reason", "x")
	assert.True(t, code == 1 && strings.Contains(out, "the audit log cannot be written"), "without a log: %d %s", code, out)
	_, err = db.ExecContext(t.Context(), `DROP TRIGGER no_log`)
	assert.NoError(t, err, "trigger")
	out, code = secret(oneSecret, "check")
	assert.Equal(t, code, 0, "nothing was replaced: %s", out)
	out, code = secret(otherSecret, "replace", "--by", "ann", "--reason", "the old one was in a log")
	assert.True(t, code == 0 && strings.Contains(out, "runs again"), "replace: %d %s", code, out)
	out, code = secret(otherSecret, "check")
	assert.True(t, code == 0 && strings.Contains(out, "is the secret of namespace app"), "check: %d %s", code, out)
	out, code = secret(oneSecret, "check")
	assert.True(t, code == 1 && strings.Contains(out, "another secret"), "check with the old one: %d %s", code, out)
	out, code = runToEnd(t, withSecret(t, oneSecret, "gateway", "--upstream", "http://127.0.0.1:1", "--store", store, "--listen", "127.0.0.1:0"))
	assert.True(t, code == 2 && strings.Contains(out, "another secret"), "a gateway with the old one: %d %s", code, out)
	out, code = runToEnd(t, withSecret(t, otherSecret, "keys", "--store", store, "list", "--layer", "audit"))
	assert.True(t, code == 0 && strings.Count(out, "completed") == 2, "the entries of the audit log: %d %s", code, out)
	out, code = secret(oneSecret, "replace", "--no-secret", "--reason", "x")
	assert.True(t, code == 2 && strings.Contains(out, "unset one of them"), "--no-secret with a secret: %d %s", code, out)
	for _, want := range []string{"has no secret now", "has no secret, as before"} {
		out, code = secret("", "replace", "--reason", "x")
		assert.True(t, code == 0 && strings.Contains(out, want), "by none: %d %s", code, out)
	}
	out, code = secret(otherSecret, "check", "--namespace", "bank")
	assert.True(t, code == 0 && strings.Contains(out, "no check value yet"), "another namespace: %d %s", code, out)
	out, code = runToEnd(t, withSecret(t, oneSecret, "secret", "check", "--store", "redis://127.0.0.1:1"))
	assert.True(t, code == 2 && strings.Contains(out, "namespace is missing"), "without a namespace: %d %s", code, out)
}

// redisSays sends commands to a Redis as its administrator.
func redisSays(t *testing.T, addr string, commands ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	assert.NoError(t, err, "connect")
	defer conn.Close()
	lines := bufio.NewReader(conn)
	for _, c := range append([]string{"AUTH pass-word"}, commands...) {
		_, err := fmt.Fprintf(conn, "%s\r\n", c)
		assert.NoError(t, err, "send")
		line, err := lines.ReadString('\n')
		assert.True(t, err == nil && strings.HasPrefix(line, "+OK"), "%s: %q %v", c, line, err)
	}
}

// TestSecretUnknownAtTheStart: a gateway whose store does not say at the start whether the secret
// is the right one serves nothing that is guarded until it does, and nothing after that if it is
// wrong.
func TestSecretUnknownAtTheStart(t *testing.T) {
	t.Parallel()
	up, effects := newCountingService(t)
	addr := startRedis(t)
	redisSays(t, addr, "ACL SETUSER ann on >pass-word ~rs:app/gw/* ~rs:unfinished* &* +@all")
	_, base, log := startGatewayIn(t, []string{"RETRYSAFE_SECRET=" + oneSecret}, "--upstream", up.URL, "--store", "redis://ann:pass-word@"+addr, "--listen", "127.0.0.1:0")
	status, body, _ := postPayment(t, base, "k")
	assert.True(t, status == 503 && strings.Contains(body, "store-unavailable"), "before it is known: %d %s", status, body)
	assert.Contains(t, log.String(), "the store does not say yet", "the log of the start")

	_, other, _ := startGatewayIn(t, []string{"RETRYSAFE_SECRET=" + otherSecret}, "--upstream", up.URL, "--store", "redis://:pass-word@"+addr, "--listen", "127.0.0.1:0")
	status, body, _ = postPayment(t, other, "other")
	assert.Equal(t, status, 201, "a gateway with another secret is the first: %s", body)
	redisSays(t, addr, "ACL SETUSER ann allkeys")
	for range 3 {
		status, body, _ = postPayment(t, base, "k")
		assert.True(t, status == 503 && strings.Contains(body, "store-unavailable"), "with the wrong secret: %d %s", status, body)
	}
	assert.Equal(t, strings.Count(log.String(), "was used with another secret"), 1, "lines: %s", log)
	assert.Equal(t, effects("k"), int64(0), "effects")
}
