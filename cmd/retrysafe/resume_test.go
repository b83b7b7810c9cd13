package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// depot is a store with calls that were abandoned after a step.
type depot struct {
	t     *testing.T
	name  string
	store *sqlstore.Store
	db    *sql.DB
	now   retrysafe.Policy
}

type box struct{ To string }

func newDepot(t *testing.T) *depot {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)")
	assert.NoError(t, err, "open")
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err, "store")
	assert.NoError(t, s.Migrate(t.Context()), "migrate")
	return &depot{t, "sqlite:" + path, s, db, retrysafe.Policy{Lease: time.Minute, OnDoubt: retrysafe.Reexecute}}
}

// abandonCall leaves a call half-done: it is released after its first step.
func (d *depot) abandonCall(id string, opts ...retrysafe.StepOption) {
	d.t.Helper()
	_, err := d.runCall(id, func(ctx context.Context, in box) (string, error) {
		_, err := retrysafe.Step(ctx, "pay", func(context.Context) (string, error) { return "paid-secret", nil })
		assert.NoError(d.t, err, "step")
		_, err = retrysafe.Step(ctx, "pack", func(context.Context) (string, error) { return "", errors.New("no boxes") }, opts...)
		return "", err
	})
	assert.True(d.t, err != nil, "a call that is abandoned")
}

func (d *depot) runCall(id string, work func(context.Context, box) (string, error)) (retrysafe.Result[string], error) {
	e := retrysafe.New(d.store, &retrysafe.Options{Namespace: "app", Policy: d.now, Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	defer func() { _ = e.Shutdown(context.Background()) }()
	return retrysafe.NewOperation(e, "send", work, nil).Resumable().Do(d.t.Context(), "ann", id, box{To: id})
}

// storedAnswer returns what a duplicate of a finished call gets.
func (d *depot) storedAnswer(id string) string {
	d.t.Helper()
	res, err := d.runCall(id, func(context.Context, box) (string, error) { return "", errors.New("it is not finished") })
	assert.NoError(d.t, err, "the repeat of a finished call")
	return res.Value
}

func (d *depot) lookupRecord(id string) retrysafe.Record {
	d.t.Helper()
	rec, err := d.store.Lookup(d.t.Context(), storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: retrysafe.Key{Tenant: "ann", Operation: "send", ID: id}})
	assert.NoError(d.t, err, "lookup")
	return rec
}

// runResume runs the command, and returns its output and exit code.
func (d *depot) runResume(args ...string) (string, int) {
	d.t.Helper()
	c := newCommand(d.t, append(args, "--store", d.name)...)
	c.Env = append(c.Env, "RETRYSAFE_SECRET=a secret of tests")
	return runToEnd(d.t, c)
}

func (d *depot) finishAll(args ...string) string {
	d.t.Helper()
	out, code := d.runResume(append([]string{"resume", "--operation", "send", "--once", "--backoff", "1ms"}, args...)...)
	assert.Equal(d.t, code, 0, "exit code of resume %v: %s", args, out)
	return out
}

// TestResumeShows: an operator sees the abandoned calls and their progress, without their secrets.
func TestResumeShows(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	d.abandonCall("key-secret-a")
	d.abandonCall("key-secret-b", retrysafe.AtMostOnce())
	out, code := d.runResume("resume")
	assert.True(t, code == 0 && strings.Count(out, "\n") == 3 && strings.Contains(out, "pay; begun: pack") && !strings.Contains(out, "-secret"), "the list: %s", out)
	out, _ = d.runResume("resume", "--json")
	assert.True(t, strings.Contains(out, `"steps":["pay"],"begun":["pack"],"input":true`), "in JSON: %s", out)
	_, hash, _ := strings.Cut(out, `"hash":"`)
	hash, _, _ = strings.Cut(hash, `"`)
	out, _ = d.runResume("keys", "show", hash)
	assert.True(t, strings.Contains(out, "steps done  pay") && !strings.Contains(out, "-secret"), "keys show: %s", out)
	out, _ = d.runResume("keys", "show", "--reveal", "--reason", "x", hash)
	assert.True(t, strings.Contains(out, "step pay\n  \"paid-secret\"") && strings.Contains(out, `{"To":"key-secret-`), "what --reveal shows: %s", out)
	out, _ = d.runResume("resume", "--operation", "other")
	assert.Equal(t, strings.Count(out, "\n"), 1, "lines for another operation")
}

// TestResumeExec: a command finishes calls, and its exit code gives the outcome.
func TestResumeExec(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	told := filepath.Join(t.TempDir(), "told")
	d.abandonCall("bob")
	out := d.finishAll("--exec", `cat > `+told+`; echo "$RETRYSAFE_KEY $RETRYSAFE_TENANT $RETRYSAFE_OPERATION $RETRYSAFE_ATTEMPT $RETRYSAFE_STEPS [$RETRYSAFE_SECRET]" >> `+told+`; echo '"sent"'`)
	assert.True(t, strings.Contains(out, "executed attempt 2") && strings.Contains(out, "found 1: finished 1,"), "what it says: %s", out)
	text, err := os.ReadFile(told)
	assert.NoError(t, err, "what the command was told")
	assert.Equal(t, string(text), `{"To":"bob"}bob ann send 2 ["pay"] []`+"\n", "what the command was told")
	assert.Equal(t, d.storedAnswer("bob"), "sent", "what a repeat gets")
	for _, c := range []struct {
		id, command string
		state       retrysafe.State
		doubt       bool
	}{
		{"not done", "exit 75", retrysafe.StateReleased, false},
		{"unknown outcome", "exit 3", retrysafe.StateInProgress, true},
		{"killed", "kill -9 $$", retrysafe.StateInProgress, true},
		{"too slow", "sleep 60", retrysafe.StateInProgress, true},
	} {
		d := newDepot(t)
		d.abandonCall(c.id)
		timeout := "20s"
		if c.id == "too slow" {
			timeout = "1s"
		}
		out := d.finishAll("--exec", c.command, "--lease", "30s", "--timeout", timeout)
		rec := d.lookupRecord(c.id)
		assert.True(t, rec.State == c.state && rec.InDoubt() == c.doubt, "%s: the record is %v; %s", c.id, rec, out)
		p, err := retrysafe.ProgressOf(&rec)
		assert.True(t, err == nil && len(p.Steps) == 1 && p.Input.Kept, "%s: what was done stays: %+v %v", c.id, p, err)
		out = d.finishAll("--exec", "exit 75", "--max-attempts", "2")
		assert.Contains(t, out, "given up 1", "a second pass")
		assert.Equal(t, d.lookupRecord(c.id).Cause, "attempts", "%s: cause in the end", c.id)
		assert.Contains(t, d.finishAll("--exec", "exit 75", "--max-attempts", "2"), "found 0", "a third pass")
	}
}

// TestResumeAudit: each call that the program gets, and each that is given up, is in the audit log
// with the operator's name. If the log cannot be written, the program does not run.
func TestResumeAudit(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	d.abandonCall("done")
	touched := filepath.Join(t.TempDir(), "touched")
	d.finishAll("--exec", `echo '"sent"'`, "--by", "ann", "--reason", "the bank is back")
	d.abandonCall("not done")
	d.finishAll("--exec", "exit 75", "--by", "ann")
	d.finishAll("--exec", "exit 3", "--by", "ann")
	d.finishAll("--exec", "touch "+touched, "--by", "bob", "--max-attempts", "3")
	want := []string{
		"bob resume attempt 4: given up, in-doubt: done", "bob resume attempt 4: given up, in-doubt: begun",
		"ann resume attempt 3: in-doubt: done", "ann resume attempt 3, by --exec: begun",
		"ann resume attempt 2: released: done", "ann resume attempt 2, by --exec: begun",
		"ann resume attempt 2: completed: done (the bank is back)", "ann resume attempt 2, by --exec: begun (the bank is back)",
	}
	assertAudited(t, d.store, "app", want...)
	entries := auditEntries(t, d.store, "app", 1)
	rec := d.lookupRecord("not done")
	assert.Equal(t, rec.Cause, "attempts", "cause of the one that was given up")
	out, _ := d.runResume("keys", "show", "not done")
	assert.Contains(t, out, entries[0].Object, "the hash in the log")
	out, code := d.runResume("resume", "--operation", "send", "--once", "--exec", "true", "--by", "a\nb")
	assert.Equal(t, code, 2, "a name with a line break: %s", out)

	d.abandonCall("no log")
	_, err := d.db.ExecContext(t.Context(), `CREATE TRIGGER no_log BEFORE INSERT ON retrysafe_records BEGIN SELECT RAISE(ABORT, 'no room'); END`)
	assert.NoError(t, err, "trigger")
	out = d.finishAll("--exec", "touch "+touched, "--by", "bob")
	assert.Contains(t, out, "unfinished 1", "a pass without a log")
	_, err = os.Stat(touched)
	assert.ErrorIs(t, err, os.ErrNotExist, "the command was not run")
	assert.Equal(t, d.lookupRecord("no log").State, retrysafe.StateReleased, "state")
	assertAudited(t, d.store, "app", want...)
	out, _ = d.runResume("resume")
	assert.Contains(t, out, "pay", "the list needs no log")
}

// TestResumeAtMostOnce: if a step that may run at most once has begun, no caller can continue.
func TestResumeAtMostOnce(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	d.abandonCall("bob", retrysafe.AtMostOnce())
	touched := filepath.Join(t.TempDir(), "touched")
	d.finishAll("--exec", "touch "+touched)
	_, err := os.Stat(touched)
	assert.ErrorIs(t, err, os.ErrNotExist, "the command was not run")
	rec := d.lookupRecord("bob")
	assert.True(t, rec.InDoubt(), "somebody has to look: %v", rec)
}

// TestResumeEnds: an interrupt ends the command after its running child has ended.
func TestResumeEnds(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	d.abandonCall("bob")
	d.abandonCall("cy")
	out, code := d.runResume("resume", "--operation", "send", "--backoff", "1ms", "--every", "10ms", "--parallel", "1", "--exec", `kill -TERM $PPID; cat; sleep 0.1`)
	assert.True(t, code == 0 && strings.Count(out, "executed attempt 2") == 1, "exit code %d: %s", code, out)
	states := map[retrysafe.State]int{}
	for _, id := range []string{"bob", "cy"} {
		states[d.lookupRecord(id).State]++
	}
	assert.Equal(t, states, map[retrysafe.State]int{retrysafe.StateCompleted: 1, retrysafe.StateReleased: 1}, "states")
}

// TestResumePost: a service finishes calls.
func TestResumePost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		state  retrysafe.State
		doubt  bool
	}{
		"done":         {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `"sent"`) }, retrysafe.StateCompleted, false},
		"done, silent": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, retrysafe.StateCompleted, false},
		"busy":         {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, retrysafe.StateReleased, false},
		"not executed": {func(w http.ResponseWriter) {
			w.Header().Set("Idempotency-Outcome", "not-executed")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, retrysafe.StateReleased, false},
		"forbidden": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, retrysafe.StateReleased, false},
		"executed": {func(w http.ResponseWriter) {
			w.Header().Set("Idempotency-Outcome", "executed")
			w.WriteHeader(http.StatusTooManyRequests)
		}, retrysafe.StateInProgress, true},
		"the same place": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTemporaryRedirect) }, retrysafe.StateInProgress, true},
		"conflict":       {func(w http.ResponseWriter) { w.WriteHeader(http.StatusConflict) }, retrysafe.StateInProgress, true},
		"broken":         {func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, retrysafe.StateInProgress, true},
		"moved":          {func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(http.StatusFound) }, retrysafe.StateInProgress, true},
		"cut off":        {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, retrysafe.StateInProgress, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDepot(t)
			d.abandonCall("bob")
			requests := 0
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				body, _ := io.ReadAll(r.Body)
				got := fmt.Sprintln(string(body), r.Header.Get("Idempotency-Key"), r.Header.Get("Idempotency-Attempt"), r.Header.Get("Retrysafe-Steps"))
				assert.Equal(t, got, `{"To":"bob"} "bob" 2 ["pay"]`+"\n", "what the service is told")
				c.answer(w)
			}))
			t.Cleanup(up.Close)
			d.finishAll("--post", up.URL)
			rec := d.lookupRecord("bob")
			assert.True(t, rec.State == c.state && rec.InDoubt() == c.doubt, "the record is %v", rec)
			assert.Equal(t, requests, 1, "requests")
		})
	}
	d := newDepot(t)
	d.abandonCall("bob")
	d.finishAll("--post", "http://127.0.0.1:1/")
	assert.Equal(t, d.lookupRecord("bob").State, retrysafe.StateReleased, "state where nobody listens")
}

// TestResumeMistakes: calls that make no sense are errors that say why.
func TestResumeMistakes(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	for _, args := range [][]string{
		{"--exec", "true"},
		{"--exec", "true", "--post", "http://x", "--operation", "send"},
		{"--exec", "true", "--operation", "send", "--tenant", "ann"},
		{"--rate", "-1"},
		{"--exec", "true", "--operation", "send", "--lease", "1ms"},
	} {
		out, code := d.runResume(append([]string{"resume"}, args...)...)
		assert.True(t, code == 2, "%v: exit code %d: %s", args, code, out)
	}
}
