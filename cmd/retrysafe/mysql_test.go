package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// startMySQL starts a MariaDB for this test only, with a user who has a password. The server
// refuses to run as root; then it runs as the package's user.
func startMySQL(t *testing.T) (addr string) {
	t.Helper()
	// The folders of tests are closed to other users.
	dir, err := os.MkdirTemp("", "retrysafe-mysql")
	assert.NoError(t, err, "a folder")
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		u, err := user.Lookup("mysql")
		assert.NoError(t, err, "the user mysql: apt-get install -y mariadb-server")
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		assert.NoError(t, os.Chown(dir, uid, gid), "chown")
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	run := func(name string, args ...string) *exec.Cmd {
		path, err := exec.LookPath(name)
		if err != nil {
			path = "/usr/sbin/" + name
		}
		c := exec.Command(path, append([]string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--tmpdir=" + dir, "--skip-name-resolve", "--innodb-log-file-size=16M"}, args...)...)
		c.Dir, c.SysProcAttr = dir, attr
		return c
	}
	said, err := run("mariadb-install-db", "--skip-test-db", "--auth-root-authentication-method=normal").CombinedOutput()
	assert.NoError(t, err, "mariadb-install-db, of the package mariadb-server: %s", said)
	first := "CREATE DATABASE app;\nCREATE USER retrysafe@'127.0.0.1' IDENTIFIED BY 'pass-word';\nGRANT ALL ON app.* TO retrysafe@'127.0.0.1';\n"
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "first.sql"), []byte(first), 0o644), "the first statements")
	port := freePorts(t, 1)[0]
	c := run("mariadbd", "--port="+port, "--bind-address=127.0.0.1", "--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"),
		"--innodb-buffer-pool-size=32M", "--innodb-flush-method=nosync", "--init-file="+filepath.Join(dir, "first.sql"))
	assert.NoError(t, c.Start(), "start mariadbd")
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "pid"))
		return err == nil
	}, "mariadbd is ready")
	return "127.0.0.1:" + port
}

// TestGatewaysOnMySQL: two gateways share finished work, one is killed, and operators see the same
// records. No password is shown.
func TestGatewaysOnMySQL(t *testing.T) {
	t.Parallel()
	up, effects := newCountingService(t)
	addr := startMySQL(t)
	store := "mysql://retrysafe:pass-word@" + addr + "/app?pool_max_conns=5"
	out, err := newCommand(t, "keys", "--store", store, "list").CombinedOutput()
	assert.True(t, err != nil, "keys before there are tables")
	assert.Contains(t, string(out), "call Store.Migrate once", "keys before there are tables")
	out, err = newCommand(t, "migrate", "--store", store).CombinedOutput()
	assert.NoError(t, err, "migrate (%s)", out)
	assert.Contains(t, string(out), "mysql "+addr+"/app is up to date", "migrate")

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
		"mysql://retrysafe:pass-word@127.0.0.1:1/app":                  "cannot be reached",
		"mysql://retrysafe:wrong-word@" + addr + "/app":                "the server refuses the user or the password",
		"mysql://retrysafe:pass-word@" + addr + "/absent":              "this user may not use the database",
		"mysql://retrysafe:pass-word@" + addr + "/app?tls=other-word":  "tls is true",
		"mysql://retrysafe:pass-word@" + addr + "/app?pass-word=x":     "a parameter of the address is not known",
		"mysql://retrysafe:pass-word@" + addr + "/app?pool_max_conns=": "pool_max_conns",
		"mysql://retrysafe:pass-wo rd@" + addr + "/app":                "address cannot be read",
		"mysql://retrysafe:pass-word@" + addr:                          "names no database",
		"mysql:pass-word":                                              "address cannot be read",
	} {
		out, err := newCommand(t, "gateway", "--namespace", "app", "--upstream", up.URL, "--store", name, "--listen", "127.0.0.1:0").CombinedOutput()
		assert.True(t, err != nil, "%s: it ends with an error", name)
		assert.Contains(t, string(out), want, "%s", name)
		assert.True(t, !strings.Contains(string(out), "pass-") && !strings.Contains(string(out), "wrong-"), "no password: %s", out)
	}
	out, err = newCommand(t, "migrate", "--print", "--store", "mysql://nobody@127.0.0.1:1/none").CombinedOutput()
	assert.NoError(t, err, "migrate --print (%s)", out)
	assert.Contains(t, string(out), "ENGINE = InnoDB", "migrate --print")
}
