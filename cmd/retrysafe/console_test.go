package main

import (
	"bufio"
	"database/sql"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/sqllock"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// startConsole starts retrysafe console, and returns its address once it listens.
func startConsole(t *testing.T, args ...string) (base string) {
	t.Helper()
	c := newCommand(t, append([]string{"console", "--listen", "127.0.0.1:0"}, args...)...)
	log := new(output)
	c.Stderr = log
	out, err := c.StdoutPipe()
	assert.NoError(t, err, "pipe")
	assert.NoError(t, c.Start(), "start")
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), "console: "); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return addr
		}
	}
	_ = c.Wait()
	t.Fatalf("the console did not start:\n%s", log)
	return ""
}

// lockFile makes a file with the tables of a store and of locks, and one lock that is held.
func lockFile(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "r.db")
	db, err := sql.Open("sqlite", "file:"+path)
	assert.NoError(t, err, "open")
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(db, sqlstore.SQLite, nil)
	assert.NoError(t, err, "store")
	assert.NoError(t, s.Migrate(t.Context()), "tables")
	locks, err := sqllock.NewTable(db, sqllock.SQLite, nil)
	assert.NoError(t, err, "locks")
	assert.NoError(t, locks.Migrate(t.Context()), "table of locks")
	_, err = locks.TryLock(t.Context(), lock.Request{Name: "account/secret-42", Owner: [16]byte{1}, Lease: time.Hour})
	assert.NoError(t, err, "TryLock")
	return path
}

// TestConsole: the console of a file shows what its caller may see, and no more.
func TestConsole(t *testing.T) {
	t.Parallel()
	path := lockFile(t)
	var said strings.Builder
	making := newCommand(t, "console", "token", "rex", "--roles", "reveal")
	making.Stderr = &said
	out, err := making.Output()
	assert.NoError(t, err, "token")
	tokens := filepath.Join(t.TempDir(), "tokens")
	assert.NoError(t, os.WriteFile(tokens, out, 0o600), "file of tokens")
	base := startConsole(t, "--store", "sqlite:"+path, "--locks", "sqlite:"+path, "--tokens", tokens)
	ask := func(path, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", base+"/api/v1"+path, nil)
		assert.NoError(t, err, "request")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := testclient.HTTP.Do(r)
		assert.NoError(t, err, "%s", path)
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, err, "body")
		_ = resp.Body.Close()
		return resp.StatusCode, string(body)
	}
	status, text := ask("/locks/locks", "")
	assert.Equal(t, status, 401, "with tokens, on this machine, without one: %s", text)
	_, token, _ := strings.Cut(said.String(), ":\n")
	token, _, _ = strings.Cut(token, "\n")
	status, text = ask("/locks/locks", token)
	assert.True(t, status == 200 && strings.Contains(text, `"lease_s":3`) && !strings.Contains(text, "secret"), "locks: %d %s", status, text)
	status, text = ask("/locks/locks/reveal", token)
	assert.Equal(t, status, 405, "revealed by an address: %s", text)
	status, text = ask("/me", "wrong")
	assert.Equal(t, status, 401, "a wrong token: %s", text)
}

func TestConsoleBadCalls(t *testing.T) {
	t.Parallel()
	path := lockFile(t)
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"locks in memory":   {[]string{"--locks", "memory:"}, "--locks names a server or a file"},
		"no such file":      {[]string{"--locks", "sqlite:" + path + "x"}, "no such file"},
		"no table of locks": {[]string{"--locks", "sqlite:" + os.DevNull}, "locks in sqlite:"},
		"no tokens":         {[]string{"--tokens", path + "x"}, "--tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"console", "--listen", "127.0.0.1:0", "--store", "sqlite:" + path}, tt.args...)
			out, err := newCommand(t, args...).CombinedOutput()
			_, failed := err.(*exec.ExitError) //nolint:errorlint // of Run
			assert.True(t, failed, "it ends with an error (%s)", out)
			assert.Contains(t, string(out), tt.want, "what it says")
		})
	}
}
