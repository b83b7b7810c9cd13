package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/drivers"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
	"github.com/retrysafe/retrysafe/internal/testclient"
)

// The test binary is also the command, so that it can be killed as its own process.
const asCommand = "RETRYSAFE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "sqlite3" { // see TestBreakIt
		os.Exit(sqliteShell(os.Args[1], os.Stdin, os.Stderr))
	}
	if filepath.Base(os.Args[0]) == "retrysafe-advise" { // see TestAdvise
		os.Exit(asAdviser(os.Args[1:]))
	}
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Main(drivers.All(), os.Args[1:], os.Stdout, os.Stderr))
	}
	if os.Getenv(asBare) != "" {
		fmt.Fprintln(os.Stderr, serveBare())
		os.Exit(1)
	}
	_ = os.Setenv("RETRYSAFE_SECRET", "that of all gateways of these tests") // they share a store
	os.Exit(m.Run())
}

// sqliteShell implements the part of SQLite's shell that the page needs, so that the test does not
// need the program: statements, one a line. It rolls back a transaction that is open at the end of
// input.
func sqliteShell(path string, in io.Reader, errOut io.Writer) int {
	ctx := context.Background()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return 1
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	for lines := bufio.NewScanner(in); err == nil && lines.Scan(); {
		_, err = conn.ExecContext(ctx, lines.Text())
	}
	if err != nil {
		_, _ = io.WriteString(errOut, err.Error()+"\n")
		return 1
	}
	return 0
}

func newCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return commandContext(t.Context(), t, args...)
}

func commandContext(ctx context.Context, tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	self, err := os.Executable()
	assert.NoError(tb, err, "executable")
	c := exec.CommandContext(ctx, self, args...)
	c.Env = append(os.Environ(), asCommand+"=1")
	return c
}

// runToEnd runs a command to its end, and returns its output and exit code.
func runToEnd(tb testing.TB, c *exec.Cmd) (out string, code int) {
	tb.Helper()
	text, err := c.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(text), exit.ExitCode()
	}
	assert.NoError(tb, err, "run %q", c.Args)
	return string(text), 0
}

// output is the output of a process so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startGateway starts a gateway, and returns its process and address once it listens.
func startGateway(t *testing.T, args ...string) (process *exec.Cmd, base string, log *output) {
	t.Helper()
	return startGatewayIn(t, nil, args...)
}

// startGatewayIn starts a gateway with more variables of the environment.
func startGatewayIn(t *testing.T, env []string, args ...string) (process *exec.Cmd, base string, log *output) {
	t.Helper()
	c := newCommand(t, append([]string{"gateway", "--namespace", "app"}, args...)...)
	c.Env = append(c.Environ(), env...)
	log = new(output)
	c.Stderr = log
	out, err := c.StdoutPipe()
	assert.NoError(t, err, "pipe")
	assert.NoError(t, c.Start(), "start")
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(strings.Replace(lines.Text(), "https://", "http://", 1), "gateway: http://"); ok {
			addr, _, _ := strings.Cut(rest, " ")
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return c, "http://" + addr, log
		}
	}
	_ = c.Wait()
	t.Fatalf("the gateway did not start:\n%s", log)
	return nil, "", nil
}

func killProcess(c *exec.Cmd) {
	_ = c.Process.Kill()
	_ = c.Wait()
}

func postPayment(t *testing.T, base, key string) (status int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", base+"/orders", strings.NewReader("{}"))
	assert.NoError(t, err, "request")
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Authorization", "Bearer opaque")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "body")
	return resp.StatusCode, string(b), resp.Header
}

// patience is how long tests wait for something that happens soon. It is much longer than a busy
// machine needs, since a wait ends as soon as it has happened.
const patience = 3 * time.Minute

// TestGatewayKilledInTheMiddle: at once 409 in-progress, after the lease 409 outcome-unknown, and
// one effect; earlier answers are still replayed byte for byte.
func TestGatewayKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	entered, hold := make(chan struct{}, 1), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := effects.Add(1)
		if r.Header.Get("Idempotency-Key") == "slow" {
			entered <- struct{}{}
			<-hold
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "effect %d", n)
	}))
	defer up.Close()
	defer close(hold)
	const lease = 5 * time.Second
	args := []string{"--listen", "127.0.0.1:0", "--upstream", up.URL, "--store", "sqlite:" + filepath.Join(t.TempDir(), "r.db"), "--lease", lease.String()}
	process, base, _ := startGateway(t, args...)
	firstStatus, firstBody, firstHeader := postPayment(t, base, "earlier")
	assert.Equal(t, firstStatus, 201, "the earlier request (%s)", firstBody)
	began := time.Now()
	go postPayment(t, base, "slow")
	<-entered
	killProcess(process)

	_, base, log := startGateway(t, args...)
	status, body, header := postPayment(t, base, "slow")
	for end := time.Now().Add(patience); !strings.Contains(body, `"code":"outcome-unknown"`); time.Sleep(50 * time.Millisecond) {
		// until the lease has passed
		assert.Equal(t, status, 409, "at once (%s; %s)", body, log)
		assert.Contains(t, body, `"code":"in-progress"`, "at once")
		assert.NotEqual(t, header.Get("Retry-After"), "", "Retry-After")
		assert.True(t, time.Now().Before(end), "the lease does not end")
		status, body, header = postPayment(t, base, "slow")
	}
	assert.True(t, time.Since(began) >= lease, "the lease was over after %v", time.Since(began))
	for range 2 {
		status, body, header = postPayment(t, base, "slow")
		assert.Equal(t, status, 409, "after the lease")
		assert.Contains(t, body, `"code":"outcome-unknown"`, "after the lease")
		assert.Equal(t, header.Get("Retry-After"), "", "Retry-After")
	}
	status, body, header = postPayment(t, base, "earlier")
	assert.Equal(t, fmt.Sprint(status, body), fmt.Sprint(firstStatus, firstBody), "the earlier answer")
	assert.Equal(t, header.Get("Date"), firstHeader.Get("Date"), "its Date")
	assert.Equal(t, header.Get("Idempotency-Replayed"), "true", "it is replayed")
	assert.Equal(t, effects.Load(), int64(2), "effects of two keys")
	assert.True(t, !strings.Contains(log.String(), "slow") && !strings.Contains(log.String(), "opaque"), "log: %s", log)
}

func TestGatewayStopsGracefully(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		time.Sleep(500 * time.Millisecond)
		w.WriteHeader(http.StatusCreated)
	}))
	defer up.Close()
	process, base, log := startGateway(t, "--listen", "127.0.0.1:0", "--upstream", up.URL, "--store", "memory:", "--admin", "127.0.0.1:0")
	got := make(chan int, 1)
	go func() {
		status, _, _ := postPayment(t, base, "k")
		got <- status
	}()
	<-entered
	assert.NoError(t, process.Process.Signal(syscall.SIGTERM), "signal")
	assert.Equal(t, <-got, 201, "what ran came to its end")
	assert.NoError(t, process.Wait(), "exit code (%s)", log)
}

func TestHealthz(t *testing.T) {
	t.Parallel()
	port, err := freeport.Get() // no other gets it when the gateway is gone
	assert.NoError(t, err, "a free port")
	c := newCommand(t, "gateway", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1", "--store", "memory:", "--admin", "127.0.0.1:"+port)
	out, err := c.StdoutPipe()
	assert.NoError(t, err, "pipe")
	assert.NoError(t, c.Start(), "start")
	defer killProcess(c)
	lines := bufio.NewScanner(out)
	assert.True(t, lines.Scan(), "a first line")
	_, addr, _ := strings.Cut(lines.Text(), "http://")
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/healthz", nil)
	assert.NoError(t, err, "request")
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(t, err, "healthz")
	defer resp.Body.Close()
	assert.Equal(t, resp.StatusCode, 200, "status")

	alive := func(admin string) int {
		c := newCommand(t, "gateway", "--upstream", "http://127.0.0.1:1", "--admin", admin, "--alive")
		_ = c.Run()
		return c.ProcessState.ExitCode()
	}
	assert.Equal(t, fmt.Sprint(alive(addr), alive(":"+port), alive("0.0.0.0:"+port), alive("")), "0 0 0 2", "--alive while it runs, and without an address")
	killProcess(c)
	assert.Equal(t, alive(addr), 1, "--alive when it is gone")
}

func TestBadCalls(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	t.Cleanup(func() { _ = busy.Close() }) // the subtests run after this function
	notDB := filepath.Join(t.TempDir(), "not.db")
	assert.NoError(t, os.WriteFile(notDB, bytes.Repeat([]byte("no database "), 1000), 0o600), "file")
	const up = "http://127.0.0.1:9"
	for name, tt := range map[string]struct {
		args []string
		env  string
		code int
		want string
	}{
		"no upstream":           {args: []string{"gateway"}, code: 2, want: "no upstream is given"},
		"bad upstream":          {args: []string{"gateway", "--upstream", "x"}, code: 2, want: "write it like http://127.0.0.1:9000"},
		"unknown flag":          {args: []string{"gateway", "--nope"}, code: 2, want: "unknown flag: --nope"},
		"bad wait":              {args: []string{"gateway", "--upstream", up, "--in-progress", "wait soon"}, code: 2, want: `"wait 5s"`},
		"bad doubt":             {args: []string{"gateway", "--upstream", up, "--on-doubt", "maybe"}, code: 2, want: "write refuse or reexecute"},
		"bad lease":             {args: []string{"gateway", "--upstream", up, "--lease", "1ms"}, code: 2, want: "Lease is 1ms"},
		"short retention":       {args: []string{"gateway", "--upstream", up, "--retention", "1s"}, code: 2, want: "shorter than Lease"},
		"unknown store":         {args: []string{"gateway", "--upstream", up, "--listen", "127.0.0.1:0", "--store", "floppy:a"}, code: 2, want: "write memory:, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE"},
		"no namespace":          {args: []string{"gateway", "--upstream", up, "--store", "redis://127.0.0.1:1"}, code: 2, want: "--namespace shop"},
		"no secret":             {args: []string{"gateway", "--upstream", up, "--store", "redis://127.0.0.1:1", "--namespace", "shop"}, env: "RETRYSAFE_SECRET=", code: 2, want: "openssl rand -hex 32"},
		"no namespace, workers": {args: []string{"resume", "--operation", "o", "--exec", "true", "--store", "postgres://127.0.0.1:1/x"}, code: 2, want: "--namespace shop"},
		"sqlite, no path":       {args: []string{"gateway", "--upstream", up, "--listen", "127.0.0.1:0", "--store", "sqlite:"}, code: 2, want: "needs a path"},
		"not a database":        {args: []string{"gateway", "--upstream", up, "--listen", "127.0.0.1:0", "--store", "sqlite:" + notDB}, code: 1, want: "not"},
		"no such folder":        {args: []string{"gateway", "--upstream", up, "--listen", "127.0.0.1:0", "--store", "sqlite:/no/such/folder/r.db"}, code: 1, want: "/no/such/folder/r.db"},
		"bad address":           {args: []string{"gateway", "--upstream", up, "--listen", "127.0.0.1:http:x"}, code: 2, want: "choose another --listen"},
		"address in use":        {args: []string{"gateway", "--upstream", up, "--listen", busy.Addr().String()}, code: 1, want: "choose another --listen"},
		"short secret":          {args: []string{"gateway", "--upstream", up}, env: "RETRYSAFE_SECRET=short", code: 2, want: "at least 16"},
		"unknown command":       {args: []string{"frobnicate"}, code: 2, want: "unknown command"},
		"page for all":          {args: []string{"demo", "--listen", "0.0.0.0:0"}, code: 2, want: "loopback only"},
		"no page address":       {args: []string{"demo", "--listen", "8484"}, code: 2, want: "write it like 127.0.0.1:8484"},
		"page in use":           {args: []string{"demo", "--listen", busy.Addr().String()}, code: 1, want: "choose another --listen"},
		"demo in memory":        {args: []string{"demo", "--store", "memory:"}, code: 2, want: "use sqlite:PATH, redis://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE"},
		"demo, no store":        {args: []string{"demo", "--store", "floppy:a"}, code: 2, want: "write memory:, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE"},
		"demo, no server":       {args: []string{"demo", "--store", "redis://127.0.0.1:1"}, code: 1, want: "cannot connect"},
		"too many words":        {args: []string{"demo", "twice"}, code: 2, want: "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c := commandContext(ctx, t, tt.args...)
			c.Dir = t.TempDir()
			if tt.env != "" {
				c.Env = append(c.Env, tt.env)
			}
			out, err := c.CombinedOutput()
			var exit *exec.ExitError
			assert.True(t, errors.As(err, &exit) && ctx.Err() == nil, "it ends with an error: %v", err)
			assert.Equal(t, exit.ExitCode(), tt.code, "exit code (%s)", out)
			assert.Contains(t, string(out), tt.want, "what it says")
			assert.True(t, !strings.Contains(string(out), "goroutine"), "no panic: %s", out)
		})
	}
}

// TestConfiguration: a configuration file is checked and used; flags override its addresses.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	t.Cleanup(up.Close)
	good := filepath.Join(t.TempDir(), "gateway.yaml")
	text := "upstream: " + up.URL + "\nstore: memory\nroutes:\n  - {match: \"POST /orders\", key: required}\n"
	assert.NoError(t, os.WriteFile(good, []byte(text), 0o600), "file")
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	assert.NoError(t, os.WriteFile(bad, []byte("upstream: "+up.URL+"\nstoer: memory\n"), 0o600), "file")
	run := func(args ...string) (string, int) {
		return runToEnd(t, newCommand(t, append([]string{"gateway"}, args...)...))
	}
	out, code := run("--config", good, "--check-config")
	assert.Equal(t, code, 0, "a good file (%s)", out)
	assert.Contains(t, out, "1 route\n", "a good file")
	out, code = run("--config", bad, "--check-config")
	assert.Equal(t, code, 2, "a bad file (%s)", out)
	assert.Contains(t, out, `bad.yaml:2:1: unknown field "stoer"; did you mean "store"?`, "a bad file")
	out, code = run("--config", good, "--lease", "3s")
	assert.Equal(t, code, 2, "a setting in two places (%s)", out)

	_, base, _ := startGateway(t, "--config", good, "--listen", "127.0.0.1:0")
	r, err := http.NewRequestWithContext(t.Context(), "POST", base+"/orders", nil)
	assert.NoError(t, err, "request")
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(t, err, "answer")
	_ = resp.Body.Close()
	assert.Equal(t, resp.StatusCode, 400, "a route that requires a key")
	status, _, _ := postPayment(t, base, "k")
	assert.Equal(t, status, 201, "a request with a key")
}

// TestDemo runs every scene.
func TestDemo(t *testing.T) {
	t.Parallel()
	playDemo(t)
}

// playDemo runs every scene, without the page.
func playDemo(t *testing.T, args ...string) {
	t.Helper()
	out, err := newCommand(t, append([]string{"demo", "--once", "--json"}, args...)...).Output()
	assert.NoError(t, err, "demo (%s)", out)
	var rows []struct {
		Scene   string `json:"scene"`
		Without string `json:"effects_without"`
		With    string `json:"effects_with"`
		OK      bool   `json:"ok"`
	}
	assert.NoError(t, json.Unmarshal(out, &rows), "JSON")
	assert.Equal(t, len(rows), 9, "scenes")
	for _, r := range rows {
		assert.True(t, r.OK, "scene %s", r.Scene)
	}
	assert.Equal(t, rows[0].Without+", "+rows[0].With, "50 orders, 1 order", "fifty at once")
}
