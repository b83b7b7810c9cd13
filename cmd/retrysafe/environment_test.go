package main

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// TestStoreOfTheEnvironment: RETRYSAFE_STORE names the store of every command except those that
// make their own records. A flag takes precedence, and its value is never printed. Commands that
// only read print no warnings.
func TestStoreOfTheEnvironment(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(up.Close)
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "r.db")
	_, base, _ := startGateway(t, "--listen", "127.0.0.1:0", "--upstream", up.URL, "--store", store)
	_, _, _ = postPayment(t, base, "a-key-of-twenty-two-characters")
	run := func(args ...string) (out, errOut string, code int) {
		c := newCommand(t, args...)
		c.Dir = dir
		c.Env = append(c.Environ(), "RETRYSAFE_STORE="+store)
		var said, failed strings.Builder
		c.Stdout, c.Stderr = &said, &failed
		if err := c.Run(); err != nil {
			exit, ok := err.(*exec.ExitError) //nolint:errorlint // the error is not wrapped
			assert.True(t, ok, "%v: %v", args, err)
			code = exit.ExitCode()
		}
		return said.String(), failed.String(), code
	}
	for _, args := range [][]string{{"keys", "list"}, {"keys", "list", "--layer", "gw"}} {
		out, errOut, code := run(args...)
		assert.True(t, code == 0 && strings.Contains(out, "POST /orders"), "%v: %d %s%s", args, code, out, errOut)
		assert.Equal(t, withoutProgress(errOut), "", "%v: no warnings", args)
	}
	_, errOut, code := run("resume")
	assert.True(t, code == 0 && withoutProgress(errOut) == "", "resume: %d %s", code, errOut)
	_, errOut, code = run("keys", "list", "--store", "sqlite:"+filepath.Join(dir, "other.db"))
	assert.True(t, code == 1 && strings.Contains(errOut, "other.db"), "the flag comes first: %d %s", code, errOut)
	_, errOut, code = run("keys", "list", "--layer", "foo")
	assert.True(t, code == 1 && strings.Contains(errOut, `no record has the layer "foo"`) && strings.Contains(errOut, "nginx"), "a layer that is none: %d %s", code, errOut)
	for _, args := range [][]string{{"resume", "--layer", "foo"}, {"keys", "show", "0123456789abcdef", "--layer", "foo"}} {
		_, errOut, code = run(args...)
		assert.True(t, code == 1 && strings.Contains(errOut, `no record has the layer "foo"`), "%v: %d %s", args, code, errOut)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "r.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)")
	assert.NoError(t, err, "open the file")
	file, err := sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err, "open the store")
	e := retrysafe.New(file, &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler)}).Layer("billing")
	_, err = retrysafe.Do(t.Context(), e, retrysafe.Key{Operation: "bill", ID: "1"}, func(context.Context) (int, error) { return 1, nil })
	assert.NoError(t, err, "a record in a layer of the program's own")
	assert.NoError(t, e.Shutdown(t.Context()), "Shutdown")
	assert.NoError(t, db.Close(), "Close")
	out, errOut, code := run("keys", "list", "--layer", "billing", "--in-doubt")
	assert.True(t, code == 0 && withoutProgress(errOut) == "" && strings.Count(out, "\n") == 1, "nothing in doubt in a layer of the program's own: %d %s%s", code, out, errOut)
	out, _, code = run("keys", "list", "--layer", "billing")
	assert.True(t, code == 0 && strings.Count(out, "\n") == 2, "that layer: %d %s", code, out)
	out, _, code = run("keys", "list", "--layer", "tx")
	assert.True(t, code == 0 && strings.Count(out, "\n") == 1, "a layer without records: %s", out)
	for _, of := range [][]string{{"keys"}, {"resume"}, {"bench", "store"}, {"demo"}} {
		out, _, _ = run(append(of, "--help")...)
		assert.True(t, !strings.Contains(out, dir), "%v --help shows the environment's store", of)
	}
	_, errOut, code = run("bench", "store", "--store", "sqlite:"+filepath.Join(dir, "b.db"), "--duration", "10ms", "--workers", "1")
	assert.True(t, code == 0, "bench: %s", errOut)
	out, _, _ = run("keys", "list", "--namespace", "app")
	assert.True(t, strings.Contains(out, "POST /orders"), "keys: %s", out)
	c := newCommand(t, "keys", "list")
	c.Dir = t.TempDir()
	said, err := c.CombinedOutput()
	assert.True(t, err != nil && strings.Contains(string(said), "--store or RETRYSAFE_STORE"), "in the wrong directory: %s", said)
}

// TestTwoStores: a gateway whose environment overrides the store of its file says so, without the
// passwords. A flag is no surprise.
func TestTwoStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "gateway.yaml")
	used := "sqlite:" + filepath.Join(dir, "used.db")
	assert.NoError(t, os.WriteFile(file, []byte("upstream: http://127.0.0.1:9\nstore: redis://ann:pass-word@127.0.0.1:9\n"), 0o600), "file")
	_, _, log := startGatewayIn(t, []string{"RETRYSAFE_STORE=" + used}, "--config", file, "--listen", "127.0.0.1:0")
	for _, part := range []string{"level=WARN", "RETRYSAFE_STORE overrides store in the configuration file", "used=" + used, `file="redis 127.0.0.1:9"`} {
		assert.Contains(t, log.String(), part, "log")
	}
	assert.True(t, !strings.Contains(log.String(), "pass-word"), "log: %s", log)
	_, _, log = startGatewayIn(t, []string{"RETRYSAFE_STORE=" + used}, "--config", file, "--listen", "127.0.0.1:0", "--store", used)
	assert.True(t, !strings.Contains(log.String(), "overrides"), "with a flag: %s", log)
}

// withoutProgress removes the lines that a command writes if it takes longer than a second.
func withoutProgress(text string) string {
	var left strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "… ") {
			left.WriteString(line)
		}
	}
	return left.String()
}
