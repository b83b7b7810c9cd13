package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// newForgetfulService is an API that knows nothing of keys. It returns its address and its counts
// of effects and of all requests.
func newForgetfulService(t *testing.T) (base string, effects, requests *atomic.Int64) {
	t.Helper()
	effects, requests = new(atomic.Int64), new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"total":%d}`, effects.Load())
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d}`, effects.Add(1))
	}))
	t.Cleanup(s.Close)
	return s.URL, effects, requests
}

// runCheck runs check and returns its exit code and output.
func runCheck(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	c := newCommand(t, append([]string{"check"}, args...)...)
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func TestCheckBroken(t *testing.T) {
	t.Parallel()
	base, _, _ := newForgetfulService(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	code, out, errOut := runCheck(t, base+"/orders", "-d", `{"amount":500}`, "--count", "GET /effects | $.total",
		"--only", "sequential-duplicate,new-key", "--json", file("a.json"), "--junit", file("a.xml"), "--sarif", file("a.sarif"), "--html", file("a.html"))
	assert.Equal(t, code, 1, "exit code; it says %s %s", out, errOut)
	assert.Contains(t, out, "One operation took effect 4 times", "table")
	assert.Contains(t, out, "curl -i -X POST", "reproduction")
	var report struct {
		Results []struct{ ID, Verdict string }
	}
	text, err := os.ReadFile(file("a.json"))
	assert.NoError(t, err, "JSON")
	assert.NoError(t, json.Unmarshal(text, &report), "JSON")
	got := map[string]string{}
	for _, r := range report.Results {
		got[r.ID] = r.Verdict
	}
	assert.Equal(t, got["sequential-duplicate"], "broken", "verdict")
	assert.Equal(t, got["new-key"], "passed", "verdict")
	assert.Equal(t, got["fidelity"], "skipped", "verdict")
	for name, part := range map[string]string{"a.xml": "<testsuite", "a.sarif": `"2.1.0"`, "a.html": "<!doctype html>"} {
		text, err := os.ReadFile(file(name))
		assert.NoError(t, err, "read %s", name)
		assert.Contains(t, strings.ToLower(string(text)), part, "%s", name)
	}
}

// TestCheckGateway examines the same API through a gateway: nothing is broken.
func TestCheckGateway(t *testing.T) {
	t.Parallel()
	base, _, _ := newForgetfulService(t)
	_, gateway, _ := startGateway(t, "--upstream", base, "--listen", "127.0.0.1:0", "--store", "memory:")
	code, out, errOut := runCheck(t, gateway+"/orders", "-d", `{"amount":500}`, "-H", "Authorization: Bearer ann", "--other-caller", "Authorization: Bearer bob",
		"--other-route", "POST /refunds", "--count", "GET "+base+"/effects | $.total", "--rate", "1000", "--settle", "50ms")
	assert.Equal(t, code, 0, "exit code; it says %s %s", out, errOut)
	assert.Contains(t, out, "No fault found", "table")
}

// TestCheckProxy counts behind the gateway, and makes the service fail there.
func TestCheckProxy(t *testing.T) {
	t.Parallel()
	base, _, _ := newForgetfulService(t)
	port, err := freeport.Get()
	assert.NoError(t, err, "a free port")
	addr := "127.0.0.1:" + port
	_, gateway, _ := startGateway(t, "--upstream", "http://"+addr, "--listen", "127.0.0.1:0", "--store", "memory:")
	code, out, errOut := runCheck(t, gateway+"/orders", "-d", `{"amount":500}`, "--proxy", addr+"="+base, "--rate", "1000",
		"--only", "sequential-duplicate,after-client-error,after-too-many,after-server-error", "--json", "-")
	assert.Equal(t, code, 0, "exit code; it says %s %s", out, errOut)
	for _, id := range []string{"sequential-duplicate", "after-client-error", "after-too-many", "after-server-error"} {
		assert.True(t, !strings.Contains(textBetween(out, `"id": "`+id+`"`, `"summary"`), "undecided"), "%s is decided: %s", id, out)
	}
}

// textBetween returns the text from begin to the next end.
func textBetween(text, begin, end string) string {
	_, rest, _ := strings.Cut(text, begin)
	part, _, _ := strings.Cut(rest, end)
	return part
}

func TestCheckSendsNothing(t *testing.T) {
	t.Parallel()
	base, _, requests := newForgetfulService(t)
	for want, args := range map[string][]string{
		"At most":              {base + "/orders", "-d", `{"amount":1}`, "--plan", "--count", "GET /effects | $.total"},
		"name the request":     {"--plan"},
		"there is no check":    {base, "--only", "sequental-duplicate"},
		"changes nothing":      {base, "-X", "GET"},
		"write header:NAME":    {base, "--server-error", "500"},
		"in one way":           {base, "--count", "GET /x", "--count-command", "echo 1"},
		"'Name: value'":        {base, "-H", "nonsense"},
		"there is no contract": {base, "--contract", "paypal"},
		"192.0.2.1 is not an":  {"http://192.0.2.1/orders"},
	} {
		code, out, errOut := runCheck(t, args...)
		assert.Contains(t, out+errOut, want, "what it says")
		assert.Equal(t, code, map[bool]int{true: 0, false: 2}[want == "At most"], "exit code of %v: %s", args, errOut)
	}
	assert.Equal(t, requests.Load(), 0, "requests")
}

// TestCheckRestartInBackground: a command that starts the service and leaves it running ends.
func TestCheckRestartInBackground(t *testing.T) {
	t.Parallel()
	base, _, _ := newForgetfulService(t)
	dir := t.TempDir()
	restart := "sleep 120 & echo $! >> " + filepath.Join(dir, "pids")
	t.Cleanup(func() {
		pids, err := os.ReadFile(filepath.Join(dir, "pids"))
		assert.NoError(t, err, "pids")
		for pid := range strings.FieldsSeq(string(pids)) {
			_ = exec.Command("kill", pid).Run()
		}
	})
	start := time.Now()
	code, out, _ := runCheck(t, base+"/orders", "-d", `{"a":1}`, "--count", "GET /effects | $.total",
		"--only", "restart-after", "--restart", restart)
	assert.Equal(t, code, 1, "exit code; it says %s", out)
	assert.True(t, time.Since(start) < time.Minute, "it took %s, as long as the service ran", time.Since(start))
}

// TestCheckRestartFails: the error has what the command wrote.
func TestCheckRestartFails(t *testing.T) {
	t.Parallel()
	base, _, _ := newForgetfulService(t)
	_, out, _ := runCheck(t, base+"/orders", "-d", `{"a":1}`, "--only", "restart-after", "--restart", "echo no such service; exit 3")
	assert.Contains(t, out, "exit status 3: no such service", "table")
}

// TestCheckNoReport: an API that cannot be examined leaves no empty report.
func TestCheckNoReport(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "report.xml")
	code, _, _ := runCheck(t, "http://127.0.0.1:1/orders", "-d", `{"a":1}`, "--junit", name)
	assert.Equal(t, code, 2, "exit code")
	_, err := os.Stat(name)
	assert.ErrorIs(t, err, os.ErrNotExist, "the file")
}

// TestCheckFlagsBesideAFile: the method and the fields of flags replace those of a file.
func TestCheckFlagsBesideAFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "curl.txt")
	assert.NoError(t, os.WriteFile(name, []byte("curl http://127.0.0.1:1/a -d x=1 -H 'X-A: file'"), 0o600), "write")
	code, out, _ := runCheck(t, "--curl", name, "-X", "PUT", "-H", "X-A: one", "-H", "X-A: two", "--plan")
	assert.Equal(t, code, 0, "exit code")
	assert.Contains(t, out, "-X PUT http://127.0.0.1:1/a", "method")
	assert.True(t, !strings.Contains(out, "X-A: file"), "the field of the file is replaced: %s", out)
	assert.Contains(t, out, "'X-A: one' -H 'X-A: two'", "fields")
}

// TestCheckPlanOfNothing: a plan of what cannot be examined is an error.
func TestCheckPlanOfNothing(t *testing.T) {
	t.Parallel()
	code, _, errOut := runCheck(t, "http://127.0.0.1:1/a", "-d", "{}", "--only", "no-such-check", "--plan")
	assert.Equal(t, code, 2, "exit code")
	assert.Contains(t, errOut, "no-such-check", "error")
}

// TestCheckNothingDecided: an examination that decided nothing is no success, and says what to
// give.
func TestCheckNothingDecided(t *testing.T) {
	t.Parallel()
	base, _, _ := newForgetfulService(t)
	name := filepath.Join(t.TempDir(), "report.json")
	code, out, errOut := runCheck(t, base+"/orders", "-d", `{"a":1}`, "--only", "expiry,restart-after", "--json", name)
	assert.Equal(t, code, 2, "exit code; it says %s", out)
	assert.Contains(t, errOut, "no check could be decided", "error")
	assert.Contains(t, errOut, "--kept", "what to give")
	assert.Contains(t, errOut, "--restart", "what to give")
	assert.Contains(t, out, "Nothing was decided", "headline")
	text, err := os.ReadFile(name)
	assert.NoError(t, err, "the report is written all the same")
	assert.Contains(t, string(text), `"verdict": "undecided"`, "JSON")
}

// TestCheckInterrupted: after an interrupt the report has what was examined, and says that it ended
// early.
func TestCheckInterrupted(t *testing.T) {
	t.Parallel()
	base, _, _ := newForgetfulService(t)
	c := newCommand(t, "check", base+"/orders", "-d", `{"a":1}`, "--count", "GET /effects | $.total",
		"--only", "missing-key,restart-after", "--restart", "sleep 60")
	var out strings.Builder
	c.Stdout = &out
	progress, err := c.StderrPipe()
	assert.NoError(t, err, "standard error")
	assert.NoError(t, c.Start(), "start")
	errOut := ""
	for lines := bufio.NewScanner(progress); lines.Scan(); errOut += lines.Text() + "\n" {
		if strings.Contains(lines.Text(), " expiry ") { // the next check is restart-after
			assert.NoError(t, c.Process.Signal(os.Interrupt), "interrupt")
		}
	}
	assert.True(t, c.Wait() != nil, "exit code")
	assert.Equal(t, c.ProcessState.ExitCode(), 2, "exit code; it says %s", errOut)
	assert.Contains(t, errOut, "interrupted", "error")
	assert.True(t, !strings.Contains(errOut, "context"), "error: %s", errOut)
	assert.Contains(t, out.String(), "missing-key", "what was examined")
	assert.Contains(t, out.String(), "Interrupted", "headline")
}
