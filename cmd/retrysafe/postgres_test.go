package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// startPostgres starts a server for this test only, with a password. The server refuses to run as
// root; then it runs as the package's user.
func startPostgres(t *testing.T) (addr string) {
	t.Helper()
	// The folders of tests are closed to other users.
	dir, err := os.MkdirTemp("", "retrysafe-postgres")
	assert.NoError(t, err, "a folder")
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		assert.NoError(t, err, "the user postgres: apt-get install -y postgresql")
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		assert.NoError(t, os.Chown(dir, uid, gid), "chown")
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	run := func(name string, args ...string) *exec.Cmd {
		path, err := exec.LookPath(name)
		if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
			path, err = slices.Max(found), nil
		}
		assert.NoError(t, err, "%s is not installed: apt-get install -y postgresql", name)
		c := exec.Command(path, args...)
		c.Dir, c.SysProcAttr = dir, attr
		return c
	}
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte("pass-word\n"), 0o644), "password")
	data := filepath.Join(dir, "data")
	said, err := run("initdb", "-D", data, "-U", "retrysafe", "-A", "scram-sha-256", "--pwfile=password", "-N").CombinedOutput()
	assert.NoError(t, err, "initdb: %s", said)
	port := freePorts(t, 1)[0]
	c := run("postgres", "-D", data, "-p", port, "-k", dir, "-c", "listen_addresses=127.0.0.1")
	assert.NoError(t, c.Start(), "start postgres")
	t.Cleanup(func() { _ = c.Process.Signal(syscall.SIGINT); _ = c.Wait() })
	eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, ".s.PGSQL."+port))
		return err == nil && strings.Contains(readFile(filepath.Join(data, "postmaster.pid")), "ready")
	}, "postgres is ready")
	return "127.0.0.1:" + port
}

func readFile(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// TestGatewaysOnPostgres: two gateways share finished work, one is killed, and operators see the
// same records. No password is shown.
func TestGatewaysOnPostgres(t *testing.T) {
	t.Parallel()
	up, effects := newCountingService(t)
	addr := startPostgres(t)
	store := "postgres://retrysafe:pass-word@" + addr + "/postgres?sslmode=disable&pool_max_conns=5"
	out, err := newCommand(t, "keys", "--store", store, "list").CombinedOutput()
	assert.True(t, err != nil, "keys before there are tables")
	assert.Contains(t, string(out), "call Store.Migrate once", "keys before there are tables")
	out, err = newCommand(t, "migrate", "--store", store).CombinedOutput()
	assert.NoError(t, err, "migrate (%s)", out)
	assert.Contains(t, string(out), "postgres "+addr+"/postgres is up to date", "migrate")

	first, base, log := startGateway(t, "--upstream", up.URL, "--store", store, "--listen", "127.0.0.1:0")
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
	out, err = newCommand(t, "keys", "--store", store, "list", "--state", "completed").CombinedOutput()
	assert.NoError(t, err, "keys list (%s)", out)
	assert.Equal(t, strings.Count(string(out), "completed"), 10, "records: %s", out)
	assert.True(t, !strings.Contains(log.String()+string(out), "pass-word"), "no password: %s", log)

	for name, want := range map[string]string{
		"postgres://retrysafe:pass-word@127.0.0.1:1/postgres":                      "cannot be reached",
		"postgres://retrysafe:wrong-word@" + addr + "/postgres?sslmode=disable":    "the server refuses the password",
		"postgres://retrysafe:pass-word@" + addr + "/absent?sslmode=disable":       "there is no such database",
		"postgres://retrysafe:pass-word@" + addr + "/postgres?sslmode=other-word":  "sslmode is invalid",
		"postgres://retrysafe:pass-word@" + addr + "/postgres?pool_max_conns=none": "pool_max_conns",
		"postgres://retrysafe:pass-wo rd@" + addr + "/postgres":                    "address cannot be read",
		"postgres:pass-word": "address cannot be read",
	} {
		out, err := newCommand(t, "gateway", "--namespace", "app", "--upstream", up.URL, "--store", name, "--listen", "127.0.0.1:0").CombinedOutput()
		assert.True(t, err != nil, "%s: it ends with an error", name)
		assert.Contains(t, string(out), want, "%s", name)
		assert.True(t, !strings.Contains(string(out), "pass-") && !strings.Contains(string(out), "wrong-"), "no password: %s", out)
	}
}

// TestMigratePrints: the command prints the SQL of both kinds of databases, without a database.
func TestMigratePrints(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"postgres://nobody@127.0.0.1:1/none":        "id        bytea    NOT NULL PRIMARY KEY",
		"sqlite:" + filepath.Join(t.TempDir(), "x"): `CREATE TABLE "retrysafe_records_limits"`,
	} {
		out, err := newCommand(t, "migrate", "--print", "--store", name).CombinedOutput()
		assert.NoError(t, err, "%s (%s)", name, out)
		assert.Contains(t, string(out), want, "%s", name)
	}
	path := filepath.Join(t.TempDir(), "app.db")
	for range 2 {
		out, err := newCommand(t, "migrate", "--store", "sqlite:"+path).CombinedOutput()
		assert.NoError(t, err, "migrate (%s)", out)
	}
	_, err := os.Stat(path)
	assert.NoError(t, err, "the file")
	out, err := newCommand(t, "migrate", "--store", "redis://127.0.0.1").CombinedOutput()
	assert.True(t, err != nil, "migrate of Redis")
	assert.Contains(t, string(out), "have tables", "migrate of Redis")
}
