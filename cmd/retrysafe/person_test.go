package main

import (
	"encoding/json"
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

// people is a service behind a gateway, with callers who use one key.
type people struct {
	t       *testing.T
	base    string
	store   string
	secret  string
	stdin   string // of the commands
	effects atomic.Int64
	broken  atomic.Bool
}

// newPeople starts the service and a gateway on a store.
func newPeople(t *testing.T, store string, args ...string) *people {
	t.Helper()
	p := &people{t: t, store: store, secret: oneSecret}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := p.effects.Add(1)
		if p.broken.Load() {
			panic(http.ErrAbortHandler)
		}
		who, _, _ := r.BasicAuth()
		w.Header().Set("Location", fmt.Sprint("/payments/", n))
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"payment":"pay_%d","of":"%s"}`, n, who)
	}))
	t.Cleanup(up.Close)
	args = append([]string{"--upstream", up.URL, "--store", store, "--listen", "127.0.0.1:0"}, args...)
	_, p.base, _ = startGatewayIn(t, []string{"RETRYSAFE_SECRET=" + oneSecret}, args...)
	return p
}

// pay makes a payment for a caller.
func (p *people) pay(who, path, key string) (status int, body string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.base+path, strings.NewReader("{}"))
	assert.NoError(p.t, err, "request")
	r.Header.Set("Idempotency-Key", key)
	r.SetBasicAuth(who, "password-of-"+who)
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(p.t, err, "answer")
	defer resp.Body.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(resp.Body)
	assert.NoError(p.t, err, "body")
	return resp.StatusCode, string(text)
}

// keys runs a command on the store. out has what it wrote to stdout, and said the rest.
func (p *people) keys(code int, args ...string) (out, said string) {
	p.t.Helper()
	c := withSecret(p.t, p.secret, append([]string{"keys", "--store", p.store}, args...)...)
	var stderr strings.Builder
	c.Stdin, c.Stderr = strings.NewReader(p.stdin), &stderr
	text, err := c.Output()
	got := 0
	if exit := (*exec.ExitError)(nil); err != nil && !asExit(err, &exit) {
		p.t.Fatalf("%v: %v", args, err)
	} else if exit != nil {
		got = exit.ExitCode()
	}
	assert.Equal(p.t, got, code, "%v: %s%s", args, text, stderr.String())
	return string(text), stderr.String()
}

// asExit is errors.As for the exit of a command.
func asExit(err error, exit **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError) //nolint:errorlint // Output wraps nothing
	*exit = e
	return ok
}

// TestKeysOfAPerson: an operator finds the payment of one of two callers who used the same key, by
// the caller's name, by the time and by what the answer says, and sees nothing of other answers.
func TestKeysOfAPerson(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "sqlite:"+filepath.Join(t.TempDir(), "r.db"))
	for _, who := range []string{"ann", "bob"} {
		status, body := p.pay(who, "/payments", "order-17")
		assert.Equal(t, status, 201, "%s", body)
	}
	status, body := p.pay("ann", "/refunds", "order-17")
	assert.Equal(t, status, 201, "%s", body)

	out, said := p.keys(1, "show", "order-17")
	assert.Equal(t, out, "", "what show prints of an ambiguous key")
	for _, want := range []string{"HASH", "POST /payments", "POST /refunds", "completed", "several records have this key", "retrysafe keys show "} {
		assert.Contains(t, said, want, "show of an ambiguous key")
	}
	assert.Equal(t, strings.Count(said, "POST /payments"), 2, "candidates: %s", said)
	for _, args := range [][]string{{"release", "order-17", "--fence", "1", "--reason", "x"}, {"resolve", "order-17", "--fence", "1", "--outcome", "not-done", "--reason", "x"}} {
		_, said := p.keys(1, args...)
		assert.Contains(t, said, "nothing was done. Name one by its hash", "%v", args)
	}

	shown, _ := p.keys(0, "show", "order-17", "--user", "basic:ann", "--operation", "POST /payments", "--reveal", "--reason", "she asks")
	assert.Contains(t, shown, `"of":"ann"`, "the payment of ann")
	shown, _ = p.keys(0, "show", "order-17", "--user", "bob", "--reveal", "--reason", "he asks")
	assert.Contains(t, shown, `"of":"bob"`, "the payment of bob")
	_, said = p.keys(1, "show", "order-17", "--user", "carl")
	assert.Contains(t, said, "found only with the RETRYSAFE_SECRET of the gateway", "a caller without records")
	list := func(args ...string) (lines int, said string) {
		t.Helper()
		out, said := p.keys(0, append([]string{"list", "--json"}, args...)...)
		assert.True(t, !strings.Contains(out+said, "pay_") && !strings.Contains(out+said, "ann"), "list shows nothing of answers and callers: %s%s", out, said)
		return strings.Count(out, "\n"), said
	}
	for want, args := range map[int][][]string{
		3: {{}, {"--since", "24h"}, {"--since", "2001-01-01", "--until", "2100-01-01 12:00"}},
		2: {{"--user", "basic:ann"}, {"--operation", "POST /payments"}},
		1: {{"--user", "basic:ann", "--operation", "POST /refunds"}, {"--user", "basic:bob"}},
		0: {{"--until", "24h"}, {"--since", "2100-01-01T00:00:00Z"}, {"--user", "header:ann"}, {"--user", "basic:carl"}},
	} {
		for _, one := range args {
			got, _ := list(one...)
			assert.Equal(t, got, want, "list %v", one)
		}
	}
	// the whole credential, from a file and from standard input
	credential := filepath.Join(t.TempDir(), "credential")
	assert.NoError(t, os.WriteFile(credential, []byte("basic YW5uOmFueQ==\n"), 0o600), "credential")
	got, _ := list("--user", "credential:@"+credential)
	assert.Equal(t, got, 2, "list of a credential")
	p.stdin = "basic YW5uOmFueQ==\r\n"
	got, _ = list("--user", "credential:@-")
	assert.Equal(t, got, 2, "list of a credential from standard input")
	p.stdin = strings.Repeat("x", 1<<20)
	_, said = p.keys(2, "list", "--user", "credential:@-")
	assert.Contains(t, said, "the credential has more than", "a credential without end")
	p.stdin = ""
	for _, bad := range [][]string{{"--user", "bearer:token-in-the-arguments"}, {"--user", "user:ann"}, {"--user", "ann", "--tenant", "x"}, {"--since", "yesterday"}, {"--user", "cookie:@/nowhere"}, {"--answer-text", "pay", "--reason", "x"}} {
		_, said := p.keys(2, append([]string{"list"}, bad...)...)
		assert.True(t, !strings.Contains(said, "token-in"), "list %v: %s", bad, said)
	}

	// by what the answer says
	_, said = p.keys(2, "list", "--answer-location", "/payments/1")
	assert.Contains(t, said, "a reason is needed", "a search without a reason")
	got, said = list("--answer-location", "/payments/1", "--reason", "a ticket")
	assert.True(t, got == 1 && strings.Contains(said, "looked at 3 answers"), "the location: %d %s", got, said)
	got, said = list("--answer-text", "pay_2", "--user", "basic:bob", "--reason", "a ticket")
	assert.True(t, got == 1 && strings.Contains(said, "looked at 1 answers"), "the id: %d %s", got, said)
	got, _ = list("--answer-text", "pay_2", "--user", "basic:ann", "--reason", "a ticket")
	assert.Equal(t, got, 0, "the id among the answers of another")
	_, said = p.keys(1, "list", "--answer-text", "pay_9", "--max-answers", "2", "--reason", "a ticket")
	assert.Contains(t, said, "stopped after 2 answers", "a bounded search")
	log, _ := p.keys(0, "list", "--layer", "audit")
	assert.True(t, strings.Count(log, "completed") >= 8, "the audit log: %s", log)

	p.secret = otherSecret
	_, said = p.keys(1, "show", "order-17", "--user", "basic:ann")
	assert.Contains(t, said, "was used with another secret", "with another secret")
}

// TestForgetAPerson: what is stored about a caller is exported and removed, the records stay, and
// nothing runs again. What is not finished stays, and other callers' records too.
func TestForgetAPerson(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) string{
		"SQLite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "r.db") },
		"Redis":  func(t *testing.T) string { return "redis://:pass-word@" + startRedis(t) },
		"PostgreSQL": func(t *testing.T) string {
			store := "postgres://retrysafe:pass-word@" + startPostgres(t) + "/postgres?sslmode=disable"
			out, err := newCommand(t, "migrate", "--store", store).CombinedOutput()
			assert.NoError(t, err, "migrate: %s", out)
			return store
		},
		"MariaDB": func(t *testing.T) string {
			store := "mysql://retrysafe:pass-word@" + startMySQL(t) + "/app"
			out, err := newCommand(t, "migrate", "--store", store).CombinedOutput()
			assert.NoError(t, err, "migrate: %s", out)
			return store
		},
	} {
		for _, sealed := range []bool{false, true} {
			if sealed {
				name += "Sealed"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				forgetAPerson(t, open(t), sealed)
			})
		}
	}
}

func forgetAPerson(t *testing.T, store string, sealed bool) {
	t.Helper()
	var config, keys []string
	if sealed {
		file := filepath.Join(t.TempDir(), "seal.json")
		text, code := runToEnd(t, newCommand(t, "seal", "keygen", "first"))
		assert.Equal(t, code, 0, "keygen")
		assert.NoError(t, os.WriteFile(file, []byte(text), 0o600), "keys")
		gateway := filepath.Join(t.TempDir(), "gateway.yaml")
		assert.NoError(t, os.WriteFile(gateway, fmt.Appendf(nil, "seal: {keys: %s, cache: 1ns}\n", file), 0o600), "configuration")
		config, keys = []string{"--config", gateway}, []string{"--seal-keys", file}
	}
	p := newPeople(t, store, config...)
	paid := map[string]string{}
	for _, who := range []string{"ann", "bob"} {
		for _, key := range []string{"order-1", "order-2"} {
			status, body := p.pay(who, "/payments", key)
			assert.Equal(t, status, 201, "%s", body)
			paid[who+key] = body
		}
	}
	p.broken.Store(true)
	status, _ := p.pay("ann", "/payments", "order-3")
	assert.Equal(t, status, 502, "a payment in doubt")
	p.broken.Store(false)
	did := p.effects.Load()

	of := append([]string{"--namespace", "app", "--user", "basic:ann"}, keys...)
	out, _ := p.keys(0, append([]string{"export", "--reason", "she asks"}, of...)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	assert.Equal(t, len(lines), 3, "records of ann: %s", out)
	found := map[string]string{}
	for _, line := range lines {
		var r struct {
			Key, State string
			Answer     struct {
				Status int
				JSON   json.RawMessage
			}
		}
		assert.NoError(t, json.Unmarshal([]byte(line), &r), "line %s", line)
		found[r.Key] = fmt.Sprint(r.State, " ", r.Answer.Status, " ", string(r.Answer.JSON))
	}
	assert.Equal(t, found, map[string]string{"order-1": "completed 201 " + paid["annorder-1"], "order-2": "completed 201 " + paid["annorder-2"], "order-3": "in-doubt 0 "}, "the export")

	out, _ = p.keys(0, append([]string{"forget", "--dry-run"}, of...)...)
	assert.Contains(t, out, "2 records would be forgotten, 0 were before, 1 would be left; nothing was changed", "a dry run")
	assert.Contains(t, out, "resolve it with keys resolve", "a dry run")
	_, body := p.pay("ann", "/payments", "order-1")
	assert.Equal(t, body, paid["annorder-1"], "after the dry run")
	_, said := p.keys(2, append([]string{"forget"}, of...)...)
	assert.Contains(t, said, "a reason is needed", "without a reason")
	_, said = p.keys(2, "forget", "--namespace", "app", "--user", "ann", "--reason", "x")
	assert.Contains(t, said, "can name two callers", "a name without a kind")
	_, said = p.keys(1, append([]string{"forget", "--reason", "x", "--namespace", "app", "--user", "basic:carl"}, keys...)...)
	assert.Contains(t, said, "no record of namespace app is of this caller", "another caller")
	p.secret = otherSecret
	_, said = p.keys(2, append([]string{"forget", "--reason", "x"}, of...)...)
	assert.Contains(t, said, "was used with another secret", "another secret")
	p.secret = oneSecret

	out, _ = p.keys(0, append([]string{"forget", "--reason", "she asks"}, of...)...)
	assert.Contains(t, out, "2 records forgotten, 0 before, 1 left", "forget")
	assert.Equal(t, strings.Contains(out, "the data key of the caller stays"), sealed, "forget: %s", out)
	out, _ = p.keys(0, append([]string{"forget", "--reason", "she asks again"}, of...)...)
	assert.Contains(t, out, "0 records forgotten, 2 before, 1 left", "forget again")
	for _, key := range []string{"order-1", "order-2"} {
		status, body := p.pay("ann", "/payments", key)
		assert.True(t, status == 409 && strings.Contains(body, "answer-not-kept") && !strings.Contains(body, "pay_"), "a duplicate of %s: %d %s", key, status, body)
		_, body = p.pay("bob", "/payments", key)
		assert.Equal(t, body, paid["bob"+key], "bob's payment")
	}
	out, _ = p.keys(0, append([]string{"export", "--reason", "to see what is left"}, of...)...)
	assert.True(t, strings.Count(out, "the answer is not stored") == 2 && !strings.Contains(out, "pay_"), "the export afterwards: %s", out)
	assert.Equal(t, p.effects.Load(), did, "effects: nothing ran again")

	shown, _ := p.keys(0, "show", "order-3", "--namespace", "app", "--user", "basic:ann")
	_, fence, _ := strings.Cut(shown, "\nfence")
	p.keys(0, append([]string{"resolve", "order-3", "--fence", strings.Fields(fence)[0], "--outcome", "done", "--reason", "x"}, of...)...)
	out, _ = p.keys(0, append([]string{"forget", "--reason", "the rest"}, of...)...)
	assert.Contains(t, out, "1 records forgotten, 2 before, 0 left", "forget the rest")
	assert.Equal(t, strings.Contains(out, "the data key of the caller is destroyed"), sealed, "forget the rest: %s", out)
	status, _ = p.pay("ann", "/payments", "order-3")
	assert.Equal(t, fmt.Sprint(status, p.effects.Load()), fmt.Sprint(409, did), "the payment that was resolved")
}
