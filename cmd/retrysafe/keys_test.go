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

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
)

// TestKeys: an operator lists what is in doubt, and resolves it while the gateway runs.
func TestKeys(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	var effects atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		effects.Add(1)
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "first answer-secret")
	}))
	t.Cleanup(up.Close)
	store := "sqlite:" + filepath.Join(t.TempDir(), "r.db")
	_, base, _ := startGateway(t, "--listen", "127.0.0.1:0", "--upstream", up.URL, "--store", store)
	_, _, _ = postPayment(t, base, "key-secret-good")
	broken.Store(true)
	doubts := []string{"key-secret-a", "key-secret-b", "key-secret-c", "key-secret-d"}
	for _, key := range doubts {
		status, body, _ := postPayment(t, base, key)
		assert.Equal(t, status, 502, "%s (%s)", key, body)
	}
	broken.Store(false)
	keys := func(args ...string) (string, int) {
		return runToEnd(t, newCommand(t, append([]string{"keys", "--store", store}, args...)...))
	}
	type line struct {
		Hash, Layer, Operation, State, Cause string
		Fence                                uint64
	}
	list := func(args ...string) (lines []line) {
		out, err := newCommand(t, append([]string{"keys", "--store", store, "list", "--json"}, args...)...).Output()
		assert.NoError(t, err, "list")
		for text := range strings.Lines(string(out)) {
			var l line
			assert.NoError(t, json.Unmarshal([]byte(text), &l), "line %s", text)
			lines = append(lines, l)
		}
		return lines
	}
	all, open := list(), list("--in-doubt")
	assert.Equal(t, len(all), 5, "records")
	assert.Equal(t, len(open), 4, "records in doubt")
	assert.Equal(t, fmt.Sprint(open[0].Layer, open[0].Operation, open[0].State, open[0].Cause), "gwPOST /ordersin-doubtreset", "a record in doubt")
	assert.Equal(t, len(list("--operation", "POST /other")), 0, "another operation")
	assert.Equal(t, len(list("--state", "completed")), 1, "completed ones")
	assert.Equal(t, len(list("--limit", "2")), 2, "a limit")
	out, _ := keys("list")
	assert.True(t, strings.Count(out, "\n") >= 6 && !strings.Contains(out, "key-secret"), "the list names no key: %s", out)
	out, _ = keys("show", list("--state", "completed")[0].Hash)
	assert.True(t, strings.Contains(out, "completed") && !strings.Contains(out, "-secret"), "show hides key and body: %s", out)
	out, _ = keys("show", "--reveal", "--reason", "x", list("--state", "completed")[0].Hash)
	assert.True(t, strings.Contains(out, "key-secret-good") && strings.Contains(out, "first answer-secret"), "--reveal shows them: %s", out)

	body := filepath.Join(t.TempDir(), "body.json")
	assert.NoError(t, os.WriteFile(body, []byte(`{"order":7}`), 0o600), "body")
	fence := func(l line) string { return fmt.Sprint(l.Fence) }
	for i, args := range [][]string{
		{"resolve", open[0].Hash, "--fence", fence(open[0]), "--outcome", "done", "--status", "201", "--body", body, "--location", "/orders/7"},
		{"resolve", open[1].Hash, "--fence", fence(open[1]), "--outcome", "failed", "--failure", "the card was declined"},
		{"resolve", open[2].Hash, "--fence", fence(open[2]), "--outcome", "done"},
		{"release", open[3].Hash, "--fence", fence(open[3])},
	} {
		out, code := keys(args...)
		assert.True(t, code == 2 && strings.Contains(out, "--reason: a reason is needed"), "%d: without a reason: %s", i, out)
		args = append(args, "--reason", "seen in the list of orders")
		out, code = keys(args...)
		assert.Equal(t, code, 0, "%d: %s", i, out)
		out, code = keys(args...)
		assert.Equal(t, code, 1, "%d: the same again, with a fence of before (%s)", i, out)
		assert.Contains(t, out, "changed since it was read", "%d: the same again", i)
	}
	told := map[string]bool{}
	for _, key := range doubts {
		status, body, header := postPayment(t, base, key)
		_, code, _ := strings.Cut(body, `"code":"`)
		code, _, _ = strings.Cut(code, `"`)
		if code == "" {
			code = body
		}
		told[fmt.Sprint(status, " ", code, " ", header.Get("Location"), header.Get("Idempotency-Replayed"))] = true
	}
	assert.Equal(t, told, map[string]bool{
		`201 {"order":7} /orders/7true`: true, "409 resolved-failed ": true, "409 answer-not-kept ": true, "200 first answer-secret ": true,
	}, "what repeats are told")
	assert.Equal(t, effects.Load(), int64(6), "effects: five first requests, and one that was let run again")
	assert.Equal(t, len(list("--in-doubt")), 0, "nothing is in doubt any more")
}

// TestKeysOfTokens: a doubt about a request with a token is resolved with an answer like any other.
func TestKeysOfTokens(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(up.Close)
	dir := t.TempDir()
	store, config := "sqlite:"+filepath.Join(dir, "r.db"), filepath.Join(dir, "gateway.yaml")
	assert.NoError(t, os.WriteFile(config, []byte("routes: [{match: POST /orders, key: token}]\n"), 0o600), "configuration")
	_, base, _ := startGateway(t, "--listen", "127.0.0.1:0", "--upstream", up.URL, "--store", store, "--config", config)
	r, err := http.NewRequestWithContext(t.Context(), "POST", base+"/.retrysafe/tokens", nil)
	assert.NoError(t, err, "request")
	r.Header.Set("Authorization", "Bearer opaque")
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(t, err, "token")
	var given struct{ Token string }
	assert.NoError(t, errors.Join(json.NewDecoder(resp.Body).Decode(&given), resp.Body.Close()), "token")
	status, body, _ := postPayment(t, base, given.Token)
	assert.Equal(t, status, 502, "the first (%s)", body)
	var line struct {
		Hash, Layer string
		Fence       uint64
	}
	out, err := newCommand(t, "keys", "--store", store, "list", "--json", "--in-doubt").Output()
	assert.NoError(t, errors.Join(err, json.Unmarshal(out, &line)), "list: %s", out)
	assert.Equal(t, line.Layer, "token", "layer")
	out, err = newCommand(t, "keys", "--store", store, "resolve", line.Hash, "--fence", fmt.Sprint(line.Fence), "--outcome", "done", "--status", "201", "--reason", "x").CombinedOutput()
	assert.NoError(t, err, "resolve: %s", out)
	status, body, header := postPayment(t, base, given.Token)
	assert.Equal(t, fmt.Sprint(status, header.Get("Idempotency-Replayed")), "201true", "a repeat (%s)", body)
}

func TestKeysBadCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	strange := filepath.Join(dir, "strange.db")
	assert.NoError(t, os.WriteFile(strange, nil, 0o600), "an empty file is a database without tables")
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no such store":   {[]string{"list", "--store", "sqlite:" + filepath.Join(dir, "none.db")}, 1, "no such file"},
		"bad state":       {[]string{"list", "--store", "memory:", "--state", "lost"}, 2, "use issued, in-progress"},
		"bad name":        {[]string{"show", "--store", "memory:", "no hash"}, 1, "keys list shows the hashes"},
		"unknown hash":    {[]string{"show", "--store", "memory:", "0123456789abcdef"}, 1, "RETRYSAFE_SECRET"},
		"unknown key":     {[]string{"show", "--store", "memory:", "app/gw/t/o/i"}, 1, "no such record"},
		"no caller":       {[]string{"export", "--store", "memory:", "--reason", "x"}, 2, "--user is needed"},
		"two callers":     {[]string{"forget", "--store", "memory:", "--user", "ann", "--dry-run"}, 2, "basic:ann or header:ann"},
		"no reason":       {[]string{"forget", "--store", "memory:", "--user", "basic:ann"}, 2, "a reason is needed"},
		"a credential":    {[]string{"quota", "--store", "memory:", "--user", "secret:x"}, 2, "secret:@FILE"},
		"no caller there": {[]string{"forget", "--store", "memory:", "--user", "basic:ann", "--reason", "x"}, 1, "no record of namespace app"},
		"no namespace":    {[]string{"forget", "--store", "redis://127.0.0.1:1", "--user", "basic:ann", "--reason", "x"}, 2, "namespace is missing"},
		"no fence":        {[]string{"release", "--store", "memory:", "0123456789abcdef"}, 2, "fence"},
		"bad outcome":     {[]string{"resolve", "--store", "memory:", "0123456789abcdef", "--fence", "1", "--outcome", "maybe"}, 2, "done, failed or not-done"},
		"no words":        {[]string{"resolve", "--store", "memory:", "0123456789abcdef", "--fence", "1", "--outcome", "failed"}, 2, "--failure"},
		"bad status":      {[]string{"resolve", "--store", "memory:", "0123456789abcdef", "--fence", "1", "--outcome", "done", "--status", "99"}, 2, "use 200 to 599"},
		"unknown verb":    {[]string{"lst"}, 2, "unknown command"},
		"body, no status": {[]string{"resolve", "--store", "memory:", "0123456789abcdef", "--fence", "1", "--outcome", "done", "--body", "x"}, 2, "--status"},
		"204 and a body":  {[]string{"resolve", "--store", "memory:", "0123456789abcdef", "--fence", "1", "--outcome", "done", "--status", "204", "--body", strange}, 2, "has no body"},
		"304 and a body":  {[]string{"resolve", "--store", "memory:", "0123456789abcdef", "--fence", "1", "--outcome", "done", "--status", "304", "--body", strange}, 2, "has no body"},
		"401 is not done": {[]string{"resolve", "--store", "memory:", "0123456789abcdef", "--fence", "1", "--outcome", "done", "--status", "401", "--reason", "x"}, 2, "--outcome not-done"},
		"429 is not done": {[]string{"resolve", "--store", "memory:", "0123456789abcdef", "--fence", "1", "--outcome", "done", "--status", "429", "--reason", "x"}, 2, "--outcome not-done"},
		"a strange file":  {[]string{"list", "--store", "sqlite:" + strange}, 1, "Migrate"},
		"307 is not done": {[]string{"resolve", "--store", "memory:", "0123456789abcdef", "--fence", "1", "--outcome", "done", "--status", "307", "--reason", "x"}, 2, "--outcome not-done"},
		"no body file":    {[]string{"resolve", "--store", "memory:", "0123456789abcdef", "--fence", "1", "--outcome", "done", "--status", "200", "--body", filepath.Join(dir, "none")}, 1, "--body"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := newCommand(t, append([]string{"keys"}, tt.args...)...).CombinedOutput()
			var exit *exec.ExitError
			assert.True(t, errors.As(err, &exit), "it ends with an error (%s)", out)
			assert.Equal(t, exit.ExitCode(), tt.code, "exit code (%s)", out)
			assert.Contains(t, string(out), tt.want, "what it says")
		})
	}
	_, err := os.Stat(filepath.Join(dir, "none.db"))
	assert.True(t, os.IsNotExist(err), "looking makes no file")
	t.Cleanup(func() { // after the subtests
		text, err := os.ReadFile(strange)
		assert.True(t, err == nil && len(text) == 0, "looking makes no tables: %d bytes", len(text))
	})
}
