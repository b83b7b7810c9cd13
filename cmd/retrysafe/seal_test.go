package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
)

// TestSealedGateway: a gateway keeps answers sealed. An operator sees them only with the keys, and
// can rotate them and forget a tenant while the gateway runs.
func TestSealedGateway(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		effects.Add(1)
		w.Header().Set("X-Account", "header-plaintext")
		_, _ = io.WriteString(w, "body-plaintext")
	}))
	t.Cleanup(up.Close)
	dir := t.TempDir()
	keys, config, store := filepath.Join(dir, "seal.json"), filepath.Join(dir, "gateway.yaml"), "sqlite:"+filepath.Join(dir, "r.db")
	run := func(want int, args ...string) string {
		t.Helper()
		out, code := runToEnd(t, newCommand(t, args...))
		assert.Equal(t, code, want, "%v: %s", args, out)
		return out
	}
	first := run(0, "seal", "keygen", "first")
	assert.NoError(t, os.WriteFile(keys, []byte(first), 0o600), "keys")
	assert.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "seal: {keys: %s, data_keys: %s, cache: 1ns}\nroutes: [{match: POST /orders, tenant: global}]\n", keys, filepath.Join(dir, "data")), 0o600), "configuration")
	process, base, log := startGateway(t, "--listen", "127.0.0.1:0", "--upstream", up.URL, "--store", store, "--config", config)
	answered := func(what string) {
		t.Helper()
		status, body, header := postPayment(t, base, "k")
		assert.Equal(t, fmt.Sprint(status, body, header.Get("X-Account")), "200body-plaintextheader-plaintext", "%s", what)
	}
	answered("the first")
	answered("a duplicate")
	for _, name := range []string{"r.db", "r.db-wal"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		assert.True(t, err == nil || os.IsNotExist(err), "%s: %v", name, err)
		assert.True(t, !strings.Contains(string(text), "plaintext"), "%s has a part of the answer", name)
	}
	name := "app/gw/global/POST%20%2Forders/k"
	sealed := []string{"--store", store, "--data-keys", filepath.Join(dir, "data"), "--seal-keys", keys}
	shown := run(0, "keys", "show", "--store", store, "--reveal", "--reason", "x", name)
	assert.True(t, strings.Contains(shown, "sealed; --seal-keys") && !strings.Contains(shown, "plaintext"), "without keys: %s", shown)
	shown = run(0, append([]string{"keys", "show", "--reveal", "--reason", "x", name}, sealed...)...)
	assert.True(t, strings.Contains(shown, "tenant      global\n") && strings.Contains(shown, "body-plaintext") && strings.Contains(shown, "header-plaintext"), "with keys: %s", shown)

	second := run(0, "seal", "keygen", "second")
	only := func(text string) string { return text[strings.Index(text, `    {"id"`):strings.Index(text, "\n  ]")] }
	both := strings.Replace(second, only(second), only(second)+",\n"+only(first), 1)
	assert.NoError(t, os.WriteFile(keys, []byte(both), 0o600), "keys")
	assert.Contains(t, run(0, append([]string{"seal", "rewrap"}, sealed...)...), "1 data keys", "rewrap")
	assert.Contains(t, run(0, append([]string{"seal", "rewrap"}, sealed...)...), "0 data keys", "rewrap again")
	status, body, _ := postPayment(t, base, "k")
	assert.True(t, status == 409 && strings.Contains(body, "answer-not-kept"), "the gateway does not have the new key yet: %d %s", status, body)
	assert.NoError(t, os.WriteFile(keys, []byte(second), 0o600), "keys")
	hangUp(t, process, log, "configuration reloaded")
	answered("with the new key alone")

	run(1, append([]string{"seal", "forget", "--namespace", "app", "--tenant", "globall", "--reason", "the customer asks"}, sealed...)...)
	run(0, append([]string{"seal", "forget", "--namespace", "app", "--tenant", "global", "--reason", "the customer asks"}, sealed...)...)
	status, body, _ = postPayment(t, base, "k")
	assert.True(t, status == 409 && strings.Contains(body, "answer-not-kept") && !strings.Contains(body, "plaintext"), "after it was forgotten: %d %s", status, body)
	shown = run(0, append([]string{"keys", "show", "--reveal", "--reason", "x", name}, sealed...)...)
	assert.True(t, strings.Contains(shown, "completed") && strings.Contains(shown, "forgotten") && !strings.Contains(shown, "plaintext"), "after it was forgotten: %s", shown)
	assert.Equal(t, effects.Load(), int64(1), "effects")
}

// TestSealedAudit: a gateway that reads only sealed answers shows the entries of a command without
// the keys as such, and those of a command with them.
func TestSealedAudit(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(up.Close)
	dir := t.TempDir()
	keys, config, store := filepath.Join(dir, "seal.json"), filepath.Join(dir, "gateway.yaml"), "sqlite:"+filepath.Join(dir, "r.db")
	first, code := runToEnd(t, newCommand(t, "seal", "keygen", "first"))
	assert.Equal(t, code, 0, "keygen: %s", first)
	assert.NoError(t, os.WriteFile(keys, []byte(first), 0o600), "keys")
	assert.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "seal: {keys: %s, only_sealed: true}\noperators: {}\nroutes: [{match: POST /orders, tenant: global}]\n", keys), 0o600), "configuration")
	address := "127.0.0.1:" + freePorts(t, 1)[0]
	_, base, log := startGateway(t, "--listen", "127.0.0.1:0", "--admin", address, "--upstream", up.URL, "--store", store, "--config", config)
	for id, sealed := range map[string][]string{"plain": nil, "sealed": {"--seal-keys", keys}} {
		status, body, _ := postPayment(t, base, id)
		assert.Equal(t, status, 502, "%s: %s", id, body)
		shown, _ := runToEnd(t, newCommand(t, "keys", "show", "--store", store, id))
		_, fence, _ := strings.Cut(shown, "\nfence")
		args := append([]string{"keys", "release", id, "--store", store, "--by", id, "--reason", "x", "--fence", strings.Fields(fence)[0]}, sealed...)
		out, code := runToEnd(t, newCommand(t, args...))
		assert.Equal(t, code, 0, "release: %s", out)
	}
	got := map[string]int{}
	now := time.Now().UTC()
	for _, day := range []time.Time{now, now.AddDate(0, 0, -1)} { // midnight may have passed
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address+"/api/v1/audit?day="+day.Format(time.DateOnly), nil)
		assert.NoError(t, err, "request")
		resp, err := testclient.HTTP.Do(r)
		assert.NoError(t, err, "the log")
		var read struct{ Entries []admin.Entry }
		assert.NoError(t, errors.Join(json.NewDecoder(resp.Body).Decode(&read), resp.Body.Close()), "the log")
		for _, e := range read.Entries {
			got[e.Who+e.Unreadable+" "+e.Result]++
		}
	}
	assert.Equal(t, got, map[string]int{"sealed begun": 1, "sealed done": 1, "not-sealed ": 2}, "entries")
	eventually(t, func() bool { return strings.Contains(log.String(), "an entry of the audit log cannot be opened") }, "the gateway's log")
}

// TestSealBadCalls: what is missing is named.
func TestSealBadCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, file := filepath.Join(dir, "seal.json"), filepath.Join(dir, "r.db")
	out, err := newCommand(t, "seal", "keygen", "a").Output()
	assert.NoError(t, errors.Join(err, os.WriteFile(keys, out, 0o600)), "keys")
	out, err = newCommand(t, "migrate", "--store", "sqlite:"+file).CombinedOutput()
	assert.NoError(t, err, "migrate: %s", out)
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a bad id":         {[]string{"seal", "keygen", "a b"}, 2, "letters"},
		"no keys":          {[]string{"seal", "rewrap", "--store", "sqlite:" + file}, 2, "--seal-keys"},
		"no key file":      {[]string{"seal", "rewrap", "--store", "sqlite:" + file, "--seal-keys", "none.json"}, 2, "none.json"},
		"no reason":        {[]string{"seal", "forget", "--namespace", "app", "--tenant", "a", "--store", "sqlite:" + file, "--seal-keys", keys}, 2, "--reason: a reason is needed"},
		"the log's keys":   {[]string{"seal", "forget", "--namespace", "retrysafe-sealstore", "--tenant", "app", "--reason", "x", "--store", "sqlite:" + file, "--seal-keys", keys}, 2, "audit logs"},
		"a bad name":       {[]string{"seal", "rewrap", "--by", "a\nb", "--store", "sqlite:" + file, "--seal-keys", keys}, 2, "--by: "},
		"no namespace":     {[]string{"seal", "rewrap", "--store", "redis://127.0.0.1:1", "--seal-keys", keys}, 2, "namespace is missing"},
		"no tenant":        {[]string{"seal", "forget", "--store", "sqlite:" + file, "--seal-keys", keys}, 2, "--tenant"},
		"data keys alone":  {[]string{"keys", "list", "--store", "sqlite:" + file, "--data-keys", dir}, 2, "--seal-keys"},
		"no data keys":     {[]string{"keys", "list", "--store", "sqlite:" + file, "--seal-keys", keys, "--data-keys", filepath.Join(dir, "none")}, 1, "no such file"},
		"a gateway's file": {[]string{"gateway", "--check-config", "--config", keys}, 2, "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := newCommand(t, tt.args...).CombinedOutput()
			var exit *exec.ExitError
			assert.True(t, errors.As(err, &exit) && exit.ExitCode() == tt.code, "it ends with %d: %v (%s)", tt.code, err, out)
			assert.Contains(t, string(out), tt.want, "what it says")
		})
	}
	_, err = os.Stat(filepath.Join(dir, "none"))
	assert.True(t, os.IsNotExist(err), "looking makes no directory")
}
