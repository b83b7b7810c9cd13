package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
)

// demoPage is a running demonstration, and its page without a browser.
type demoPage struct {
	process *exec.Cmd
	base    string
}

func startDemo(t *testing.T, tmp string, args ...string) *demoPage {
	t.Helper()
	c := newCommand(t, append([]string{"demo"}, args...)...)
	c.Env = append(c.Env, "TMPDIR="+tmp, "RETRYSAFE_SECRET=")            // a new user has no secret
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // it has files to remove
	out, err := c.StdoutPipe()
	assert.NoError(t, err, "pipe")
	assert.NoError(t, c.Start(), "start")
	t.Cleanup(func() { _ = c.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), "Open http://"); ok {
			addr, _, _ := strings.Cut(rest, " ")
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &demoPage{c, "http://" + addr}
		}
	}
	t.Fatalf("the demonstration did not say where its page is")
	return nil
}

// sendRequest sends what a browser would; fields override those that the page sends.
func (d *demoPage) sendRequest(t *testing.T, method, path, body string, fields map[string]string) (status int, text string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, d.base+path, strings.NewReader(body))
	assert.NoError(t, err, "request")
	r.Header.Set("Origin", d.base)
	for name, v := range fields {
		switch {
		case name == "Host":
			r.Host = v
		case v == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, v)
		}
	}
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(t, err, "%s %s", method, path)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "body")
	return resp.StatusCode, string(b), resp.Header
}

func (d *demoPage) sendPost(t *testing.T, path, body string) {
	t.Helper()
	status, text, _ := d.sendRequest(t, "POST", path, body, nil)
	assert.Equal(t, status, 202, "%s %s (%s)", path, body, text)
}

type demoSide struct {
	Payments []struct{ ID int64 }
	Presses  []struct {
		State, Code string
		Status      int
		Payment     int64
		Replayed    bool
	}
	Curl string
}

type demoState struct {
	Key, Console  string
	Gateway       struct{ Up bool }
	Without, With demoSide
	Record        struct{ State, List, Resolve string }
}

// lastPress returns the outcome of the side's last press.
func (s *demoSide) lastPress() (state, code string) {
	if len(s.Presses) == 0 {
		return "", ""
	}
	p := s.Presses[len(s.Presses)-1]
	return p.State, p.Code
}

func (d *demoPage) getState(t *testing.T) (s demoState) {
	t.Helper()
	status, text, _ := d.sendRequest(t, "GET", "/state", "", nil)
	assert.Equal(t, status, 200, "state (%s)", text)
	assert.NoError(t, json.Unmarshal([]byte(text), &s), "state %s", text)
	return s
}

// awaitState polls the state until ok returns true, or fails after a while.
func (d *demoPage) awaitState(t *testing.T, what string, ok func(demoState) bool) demoState {
	t.Helper()
	var s demoState
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if s = d.getState(t); ok(s) {
			return s
		}
	}
	t.Fatalf("%s did not come: %+v", what, s)
	return s
}

func allAnswered(s demoState) bool {
	for _, side := range []demoSide{s.Without, s.With} {
		for _, p := range side.Presses {
			if p.State == "sent" {
				return false
			}
		}
	}
	return true
}

const pay = `{"how":"pay","times":1}`

// TestDemoPage: the page shows what the shop has, before and after the gateway was killed.
func TestDemoPage(t *testing.T) {
	t.Parallel()
	d := startDemo(t, t.TempDir(), "--listen", "127.0.0.1:0")
	d.sendPost(t, "/press", pay)
	d.awaitState(t, "the first answer", allAnswered)
	d.sendPost(t, "/press", `{"how":"pay","times":10}`)
	d.sendPost(t, "/press", `{"how":"lost","times":1}`)
	s := d.awaitState(t, "all answers", func(s demoState) bool { return len(s.With.Presses) == 12 && allAnswered(s) })
	assert.Equal(t, len(s.Without.Payments), 12, "payments without protection")
	assert.Equal(t, len(s.With.Payments), 1, "payments with it")
	for i, p := range s.With.Presses[:11] {
		assert.Equal(t, p.Payment, s.With.Payments[0].ID, "press %d is told the one payment", i+1)
		assert.Equal(t, p.Replayed, i > 0, "press %d replayed", i+1)
	}
	state, _ := s.With.lastPress()
	assert.Equal(t, state, "lost", "an answer that did not arrive")
	assert.Equal(t, s.Record.State, "completed", "record")

	d.sendPost(t, "/gateway/kill", "")
	assert.True(t, !d.getState(t).Gateway.Up, "the gateway is down")
	d.sendPost(t, "/press", pay)
	s = d.awaitState(t, "presses while it is down", allAnswered)
	state, _ = s.With.lastPress()
	assert.Equal(t, state, "away", "a press while the gateway is down")
	assert.Equal(t, s.Record.State, "completed", "the record is there while the gateway is not")
	d.sendPost(t, "/gateway/start", "")
	d.sendPost(t, "/press", pay)
	s = d.awaitState(t, "the press after it", allAnswered)
	assert.True(t, s.Gateway.Up && s.With.Presses[13].Replayed && len(s.With.Payments) == 1, "after the restart: %+v", s.With)

	d.sendPost(t, "/new", "")
	after := d.getState(t)
	assert.NotEqual(t, after.Key, s.Key, "a new payment has a new key")
	assert.Equal(t, len(after.With.Presses)+len(after.With.Payments), 0, "and nothing happened to it yet")

	for range 2 {
		d.sendPost(t, "/press", `{"how":"failed","times":1}`)
		s = d.awaitState(t, "an error of the shop", allAnswered)
	}
	assert.Equal(t, s.With.Presses[0].Status, 500, "the shop fails after it has charged")
	assert.True(t, s.With.Presses[1].Status == 500 && s.With.Presses[1].Replayed, "the retry gets the stored answer: %+v", s.With)
	assert.Equal(t, len(s.With.Payments), 1, "payments with protection")
	assert.Equal(t, len(s.Without.Payments), 2, "payments without it")
}

// TestDemoPageInDoubt: a payment is in flight when the gateway is killed. The commands that the
// page shows list and resolve it.
func TestDemoPageInDoubt(t *testing.T) {
	t.Parallel()
	doubtOnPage(t, startDemo(t, t.TempDir(), "--listen", "127.0.0.1:0"), "")
}

// TestDemoConsole: the page leads to the gateway's console, with a token that may resolve.
func TestDemoConsole(t *testing.T) {
	t.Parallel()
	d := startDemo(t, t.TempDir(), "--listen", "127.0.0.1:0")
	base, token, found := strings.Cut(d.getState(t).Console, "/#token=")
	assert.True(t, found, "a console: %s", base)
	r, err := http.NewRequestWithContext(t.Context(), "GET", base+"/api/v1/me", nil)
	assert.NoError(t, err, "request")
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(t, err, "me")
	defer resp.Body.Close()
	var me struct{ Roles []string }
	assert.NoError(t, json.NewDecoder(resp.Body).Decode(&me), "me")
	assert.Equal(t, strings.Join(me.Roles, ","), "view,reveal,resolve", "roles")
}

// doubtOnPage kills a gateway during a payment. password is the store's, which the page does not
// show.
func doubtOnPage(t *testing.T, d *demoPage, password string) {
	t.Helper()
	const lease = 6 * time.Second // of the page's gateway
	began := time.Now()
	d.sendPost(t, "/press", `{"how":"killed","times":1}`)
	s := d.awaitState(t, "the kill", func(s demoState) bool { return !s.Gateway.Up && allAnswered(s) })
	state, _ := s.With.lastPress()
	assert.Equal(t, state, "broken", "the press in flight")
	assert.Equal(t, len(s.With.Payments), 1, "the shop had charged")
	d.sendPost(t, "/gateway/start", "")
	d.sendPost(t, "/press", pay)
	_, code := d.awaitAnswer(t)
	// A busy machine may take longer than the lease.
	assert.True(t, code == "in-progress" || time.Since(began) > lease, "at once: %s", code)
	d.awaitState(t, "the doubt", func(s demoState) bool { return s.Record.State == "in-doubt" })
	d.sendPost(t, "/press", pay)
	s, code = d.awaitAnswer(t)
	assert.Equal(t, code, "outcome-unknown", "after the lease")
	shell := func(line string) string {
		assert.True(t, password == "" || !strings.Contains(line, password), "no password: %s", line)
		c := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line, "PASSWORD", password, 1))
		c.Env = append(os.Environ(), asCommand+"=1")
		out, err := c.CombinedOutput()
		assert.NoError(t, err, "%s: %s", line, out)
		return string(out)
	}
	assert.Contains(t, shell(s.Record.List), "in-doubt", "the list")
	assert.Contains(t, shell(s.Record.Resolve), "completed now", "the resolution")
	d.sendPost(t, "/press", pay)
	s, _ = d.awaitAnswer(t)
	last := s.With.Presses[len(s.With.Presses)-1]
	assert.Equal(t, last.Payment, s.With.Payments[0].ID, "what a repeat is told once it is settled")
	assert.True(t, last.Replayed && len(s.With.Payments) == 1, "one payment, replayed")
}

// awaitAnswer waits for all answers, and also returns the problem code of the last one.
func (d *demoPage) awaitAnswer(t *testing.T) (s demoState, code string) {
	t.Helper()
	s = d.awaitState(t, "all answers", allAnswered)
	_, code = s.With.lastPress()
	return s, code
}

// TestDemoPageKeepsOthersOut: other web sites in the same browser can neither pay nor kill.
func TestDemoPageKeepsOthersOut(t *testing.T) {
	t.Parallel()
	d := startDemo(t, t.TempDir(), "--listen", "127.0.0.1:0")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(d.base, "http://"))
	assert.NoError(t, err, "port")
	for name, tt := range map[string]struct {
		method, path, body string
		fields             map[string]string
		status             int
	}{
		"another site's name":    {"GET", "/state", "", map[string]string{"Host": "evil.example:" + port}, 403},
		"it looks like ours":     {"GET", "/", "", map[string]string{"Host": "127.0.0.1.evil.example"}, 403},
		"no name":                {"GET", "/events", "", map[string]string{"Host": "[]"}, 403},
		"rebound, own origin":    {"POST", "/gateway/kill", "", map[string]string{"Host": "evil.example", "Origin": "http://evil.example"}, 403},
		"kill from elsewhere":    {"POST", "/gateway/kill", "", map[string]string{"Origin": "https://evil.example"}, 403},
		"examine from elsewhere": {"POST", "/examine", "", map[string]string{"Origin": "https://evil.example"}, 403},
		"examine by a link":      {"GET", "/examine", "", nil, 404},
		"no report yet":          {"GET", "/examined/with", "", nil, 404},
		"pay from elsewhere":     {"POST", "/press", pay, map[string]string{"Origin": "http://127.0.0.1:1"}, 403},
		"pay from a file":        {"POST", "/press", pay, map[string]string{"Origin": "null"}, 403},
		"pay without an origin":  {"POST", "/press", pay, map[string]string{"Origin": ""}, 403},
		"kill by a link":         {"GET", "/gateway/kill", "", nil, 404},
		"too often":              {"POST", "/press", `{"how":"pay","times":11}`, nil, 400},
		"in no known way":        {"POST", "/press", `{"how":"free","times":1}`, nil, 400},
		"no order":               {"POST", "/press", `x`, nil, 400},
		"a long order":           {"POST", "/press", `{"how":"` + strings.Repeat("x", 2000), nil, 400},
		"the shop behind it":     {"POST", "/payments", "{}", nil, 405},
		"another file":           {"GET", "/../demo.go", "", nil, 404},
		"by another own name":    {"GET", "/state", "", map[string]string{"Host": "localhost:" + port}, 200},
	} {
		status, text, header := d.sendRequest(t, tt.method, tt.path, tt.body, tt.fields)
		assert.Equal(t, status, tt.status, "%s (%s)", name, text)
		assert.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'", "%s", name)
	}
	s := d.getState(t)
	assert.True(t, s.Gateway.Up && len(s.With.Presses)+len(s.Without.Payments) == 0, "nothing of all this did anything: %+v", s)
	_, text, _ := d.sendRequest(t, "GET", "/", "", nil)
	for _, inline := range []string{"<style", "style=", "onclick", "https://", "<script>"} {
		assert.True(t, !strings.Contains(text, inline), "the policy forbids %s in the page", inline)
	}
}

// TestDemoEnds: nothing remains, however the demonstration ends.
func TestDemoEnds(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:8484")
	if err == nil { // or another process has it, which is as good
		defer taken.Close()
	}
	tmp := t.TempDir()
	d := startDemo(t, tmp)
	assert.True(t, !strings.HasSuffix(d.base, ":8484"), "a free port in place of one that is taken")
	// A browser with an open page must not delay the end.
	events, err := testclient.HTTP.Get(d.base + "/events")
	assert.NoError(t, err, "events")
	defer events.Body.Close()
	first, err := bufio.NewReader(events.Body).ReadString('\n')
	assert.NoError(t, err, "first event")
	assert.Contains(t, first, `data: {"number":1`, "first event")
	assert.NoError(t, d.process.Process.Signal(os.Interrupt), "interrupt")
	assert.NoError(t, d.process.Wait(), "exit code")
	left, err := os.ReadDir(tmp)
	assert.NoError(t, err, "temporary directory")
	assert.Equal(t, len(left), 0, "temporary files: %v", left)
	if runtime.GOOS != "linux" {
		return // elsewhere a child does not notice that its parent was killed
	}
	d = startDemo(t, tmp, "--listen", "127.0.0.1:0")
	s := d.getState(t)
	killProcess(d.process)
	for _, curl := range []string{s.With.Curl, s.Without.Curl} {
		addr, _, _ := strings.Cut(strings.TrimPrefix(curl, "curl -i http://"), "/")
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				break
			}
			_ = conn.Close()
			assert.True(t, time.Now().Before(end), "%s lives on", addr)
		}
	}
}
