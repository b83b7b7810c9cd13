package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// restorable is a store whose backup is taken and restored with the tools that docs/backup.md
// names, while gateways run.
type restorable struct {
	store           string
	backup, restore func()
}

// tool runs a tool of a database, and returns what it printed.
func tool(t *testing.T, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	var errOut bytes.Buffer
	c.Stdin, c.Stderr = bytes.NewReader(stdin), &errOut
	c.Env = append(os.Environ(), "PGPASSWORD=pass-word", "MYSQL_PWD=pass-word")
	out, err := c.Output()
	assert.NoError(t, err, "%s: %s", name, &errOut)
	return out
}

func restorableStores() map[string]func(*testing.T) restorable {
	return map[string]func(*testing.T) restorable{
		"sqlite": func(t *testing.T) restorable {
			t.Helper()
			shell := servertest.Program(t, "sqlite3", "sqlite3")
			file, to := filepath.Join(t.TempDir(), "r.db"), filepath.Join(t.TempDir(), "copy.db")
			run := func(command string) { tool(t, nil, shell, "-cmd", ".timeout 60000", file, command) }
			return restorable{"sqlite:" + file, func() { run("VACUUM INTO '" + to + "'") }, func() { run(".restore " + to) }}
		},
		"postgres": func(t *testing.T) restorable {
			t.Helper()
			store := "postgres://retrysafe:pass-word@" + startPostgres(t) + "/postgres?sslmode=disable"
			var dump []byte
			return restorable{
				store, func() { dump = tool(t, nil, "pg_dump", "--format=custom", "--table=retrysafe_*", store) },
				func() {
					tool(t, dump, "pg_restore", "--clean", "--if-exists", "--single-transaction", "--dbname="+store)
				},
			}
		},
		"mysql": func(t *testing.T) restorable {
			t.Helper()
			addr := startMySQL(t)
			_, port, _ := net.SplitHostPort(addr)
			args := []string{"--no-defaults", "--host=127.0.0.1", "--port=" + port, "--user=retrysafe"}
			var dump []byte
			return restorable{
				"mysql://retrysafe:pass-word@" + addr + "/app",
				func() { dump = tool(t, nil, "mariadb-dump", append(args, "--single-transaction", "app")...) },
				func() { tool(t, dump, "mariadb", append(args, "app")...) },
			}
		},
		"redis": func(t *testing.T) restorable {
			t.Helper()
			dir, saved := t.TempDir(), []byte(nil)
			r := servertest.StartRedis(t, "--dir", dir)
			_, port, _ := net.SplitHostPort(r.Addr)
			file := filepath.Join(dir, "dump.rdb")
			return restorable{
				"redis://" + r.Addr, func() {
					tool(t, nil, "redis-cli", "-p", port, "save")
					var err error
					saved, err = os.ReadFile(file)
					assert.NoError(t, err, "dump.rdb")
				},
				func() {
					r.Kill()
					assert.NoError(t, os.WriteFile(file, saved, 0o600), "dump.rdb")
					r.Restart(t)
				},
			}
		},
	}
}

// What a gateway tells about the marks of its namespace.
const (
	storeMarks    = `retrysafe_store_marks{namespace="app"}`
	storeWentBack = `retrysafe_store_went_back{namespace="app"}`
)

// TestRestoredStore: a gateway that runs while its store is restored to an older state, by the
// store's own tools, runs no new key until an operator accepts that, in every process; what the
// store still has is answered.
func TestRestoredStore(t *testing.T) {
	t.Parallel()
	for name, open := range restorableStores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRestore(t, open(t))
		})
	}
}

func testRestore(t *testing.T, s restorable) {
	t.Helper()
	up, effects := newCountingService(t)
	env, port := []string{"RETRYSAFE_SECRET=" + oneSecret}, freePorts(t, 1)[0]
	args := []string{"--upstream", up.URL, "--store", s.store, "--listen", "127.0.0.1:0"}
	_, base, log := startGatewayIn(t, env, append(args, "--admin", "127.0.0.1:"+port)...)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	assert.NoError(t, os.WriteFile(file, []byte("serve_restored: true\nupstream: "+up.URL+"\n"), 0o600), "configuration")
	_, quiet, _ := startGatewayIn(t, env, "--config", file, "--store", s.store, "--listen", "127.0.0.1:0")
	admin := "http://127.0.0.1:" + port
	pay := func(base, key string) string {
		status, body, header := postPayment(t, base, key)
		if _, code, ok := strings.Cut(body, `"code":"`); ok {
			code, _, _ = strings.Cut(code, `"`)
			return fmt.Sprint(status, " ", code)
		}
		return fmt.Sprint(status, " ", header.Get("Idempotency-Replayed"))
	}
	assert.Equal(t, pay(base, "kept"), "201 ", "a payment before the backup (%s)", log)
	marks := await(t, admin, "a mark", func(f figures) bool { return f[storeMarks] >= 1 })[storeMarks]
	s.backup()
	assert.Equal(t, pay(base, "lost"), "201 ", "a payment after the backup")
	before := await(t, admin, "two marks more", func(f figures) bool { return f[storeMarks] >= marks+2 })
	out, code := runToEnd(t, withSecret(t, oneSecret, "restore", "check", "--namespace", "app", "--store", s.store))
	assert.True(t, code == 0 && strings.Contains(out, "namespace app did not go back"), "check before: %d %s", code, out)
	s.restore()

	eventually(t, func() bool {
		status, text, _ := fetchURL(t, admin+"/readyz")
		return status == 200 && strings.Contains(text, "history: the store went back to an older state")
	}, "/readyz says that the store went back")
	_, late, _ := startGatewayIn(t, env, args...) // it has seen nothing of what is gone
	for _, base := range []string{base, late} {
		assert.Equal(t, pay(base, "lost"), "503 store-unavailable", "a retry of what is gone")
		assert.Equal(t, pay(base, "new"), "503 store-unavailable", "a new payment")
		assert.Equal(t, pay(base, "kept"), "201 true", "a retry of what the store has")
	}
	assert.Equal(t, effects("lost"), int64(1), "effects of what is gone")
	assert.Equal(t, effects("new"), int64(0), "effects of a new payment")
	assert.Equal(t, pay(quiet, "elsewhere"), "201 ", "a new payment at a gateway with serve_restored")
	after := await(t, admin, "the figure", func(f figures) bool { return f[storeWentBack] == 1 })
	assert.Contains(t, log.String(), "the store went back to an older state", "the log")

	testAcceptRestore(t, s.store)
	eventually(t, func() bool { return pay(base, "new") == "201 " || pay(base, "new") == "201 true" }, "new payments run")
	eventually(t, func() bool { return pay(late, "lost") == "201 " || pay(late, "lost") == "201 true" }, "what is gone runs again, since it was accepted")
	well := await(t, admin, "the figure", func(f figures) bool { return f[storeWentBack] == 0 })
	assert.True(t, well[storeMarks] > before[storeMarks], "marks: %v, then %v", before[storeMarks], well[storeMarks])
	_, text, _ := fetchURL(t, admin+"/readyz")
	assert.True(t, !strings.Contains(text, "history"), "/readyz: %s", text)
	after[storeMarks] = before[storeMarks] // the other half of the rule
	for name := range after {
		if strings.HasPrefix(name, "retrysafe_store_errors_total") {
			after[name] = before[name] // a Redis that is away for its restore is another alert
		}
	}
	requireAlerts(t, before, after, "RetrysafeStoreWentBack", "RetrysafeErrorBudget", "RetrysafeErrorBudgetSlow")
}

// testAcceptRestore accepts that a store went back.
func testAcceptRestore(t *testing.T, store string) {
	t.Helper()
	run := func(args ...string) (string, int) {
		return runToEnd(t, withSecret(t, oneSecret, append(args, "--namespace", "app", "--store", store)...))
	}
	out, code := run("restore", "check")
	assert.True(t, code == 1 && strings.Contains(out, "went back to an older state: what was recorded from 2"), "check: %d %s", code, out)
	_, lost, _ := strings.Cut(out, "recorded from ")
	from, lost, _ := strings.Cut(lost, " to ")
	until, _, _ := strings.Cut(lost, " may be gone")
	accept := func(from, until string, args ...string) (string, int) {
		return run(append([]string{"restore", "accept", "--lost-from", from, "--lost-until", until}, args...)...)
	}
	out, code = accept(from, until)
	assert.True(t, code == 2 && strings.Contains(out, "reason"), "accept without a reason: %d %s", code, out)
	out, code = run("restore", "accept", "--lost-from", from, "--by", "ann", "--reason", "the bank has been asked")
	assert.True(t, code == 2 && strings.Contains(out, "--lost-until"), "accept without a time: %d %s", code, out)
	out, code = accept(from, "2001-02-03T04:05:06Z", "--by", "ann", "--reason", "the bank has been asked")
	assert.True(t, code == 1 && strings.Contains(out, from+" to "+until) && strings.Contains(out, "nothing was changed"), "accept another time: %d %s", code, out)
	out, code = accept(from, until, "--by", "ann", "--reason", "the bank has been asked")
	assert.True(t, code == 0 && strings.Contains(out, "New keys run again within seconds"), "accept: %d %s", code, out)
	out, code = run("restore", "check")
	assert.True(t, code == 0, "check then: %d %s", code, out)
	out, code = accept(from, until, "--by", "ann", "--reason", "once more")
	assert.True(t, code == 0 && strings.Contains(out, "nothing was changed"), "accept once more: %d %s", code, out)
	out, code = run("keys", "list", "--layer", "audit", "--json")
	assert.True(t, code == 0 && strings.Count(out, `"layer":"audit"`) == 2, "the entry and its result, as entries of the audit log: %d %s", code, out)
}
