package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
)

// startIDs starts a server, and returns its process and address once it listens.
func startIDs(tb testing.TB, args ...string) (process *exec.Cmd, base string) {
	tb.Helper()
	c := commandContext(tb.Context(), tb, append([]string{"ids", "serve", "--listen", "127.0.0.1:0"}, args...)...)
	log := new(output)
	c.Stderr = log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	assert.NoError(tb, err, "pipe")
	assert.NoError(tb, c.Start(), "start")
	tb.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), "ids: http://"); ok {
			addr, _, _ := strings.Cut(rest, ",")
			return c, "http://" + addr
		}
	}
	_ = c.Wait()
	tb.Fatalf("the server did not start:\n%s", log)
	return nil, ""
}

// fetchURL sends a GET request.
func fetchURL(t *testing.T, url string) (status int, body string, header http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	assert.NoError(t, err, "request")
	resp, err := testclient.HTTP.Do(req)
	assert.NoError(t, err, "GET %s", url)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "body of %s", url)
	return resp.StatusCode, string(text), resp.Header
}

// TestIDsServe: the answer of each path, over real HTTP.
func TestIDsServe(t *testing.T) {
	t.Parallel()
	c, base := startIDs(t, "--store", "sqlite:"+filepath.Join(t.TempDir(), "ids.db"), "--tag", "order", "--tag", "invoice:50:7001", "--layout", "fast")
	one := func(path string) idgen.ID {
		t.Helper()
		status, body, header := fetchURL(t, base+path)
		assert.Equal(t, status, 200, "%s: %s", path, body)
		assert.Equal(t, header.Get("Cache-Control"), "no-store", "caches")
		id, err := idgen.Parse(body)
		assert.NoError(t, err, "%s: %s", path, body)
		return id
	}
	some := func(path string) (ids []idgen.ID) {
		t.Helper()
		status, body, header := fetchURL(t, base+path)
		assert.Equal(t, status, 200, "%s: %s", path, body)
		assert.Equal(t, header.Get("Content-Type"), "application/json", "type")
		var texts []string
		assert.NoError(t, json.Unmarshal([]byte(body), &texts), "an array of strings: %s", body)
		assert.NoError(t, json.Unmarshal([]byte(body), &ids), "ids: %s", body)
		return ids
	}
	first, second := one("/api/snowflake/get/anything"), one("/api/snowflake/get/anything")
	assert.True(t, second > first, "%d follows %d", second, first)
	made := idgen.Fast().Split(first).Time
	assert.True(t, time.Since(made) < time.Minute && time.Since(made) > -time.Minute, "made at %v", made)
	assert.Equal(t, len(some("/api/snowflake/get/x?count=10000")), 10_000, "ids in one answer")
	assert.Equal(t, one("/api/segment/get/order"), 1, "the first")
	assert.Equal(t, fmt.Sprint(some("/api/segment/get/order?count=3")), "[2 3 4]", "the next")
	assert.Equal(t, one("/api/segment/get/invoice"), 7001, "the first of another tag")
	_, text, _ := fetchURL(t, base+"/api/time")
	ms, err := strconv.ParseInt(text, 10, 64)
	assert.NoError(t, err, "the time")
	off := time.Since(time.UnixMilli(ms))
	assert.True(t, off > -time.Minute && off < time.Minute, "it is %v off", off)

	for path, want := range map[string]string{
		"/api/segment/get/none":              "404 There is no such tag. Make it",
		"/api/segment/get/a%00b":             "400 This can be no tag",
		"/api/segment/get/order?count=0":     "400 No id was made: write ?count=N",
		"/api/segment/get/order?count=10001": "400 No id was made",
		"/api/snowflake/get/x?n=3":           "400 No id was made",
		"/api/snowflake/get/x?count=1&n=3":   "400 No id was made",
		"/api/snowflake/get/x?count=1%3B":    "400 No id was made",
		"/api/snowflake/get/":                "404 There is nothing here. Ask",
		"/":                                  "404 There is nothing here. Ask",
		"/healthz":                           "200 ok",
		"/readyz":                            "200 ok",
	} {
		status, body, _ := fetchURL(t, base+path)
		assert.True(t, strings.HasPrefix(fmt.Sprint(status, " ", body), want), "%s: %d %s, want %s", path, status, body, want)
	}
	resp, err := testclient.HTTP.Post(base+"/api/segment/get/order", "text/plain", nil)
	assert.NoError(t, err, "POST")
	resp.Body.Close()
	assert.Equal(t, resp.StatusCode, 405, "POST")
	_, metrics, _ := fetchURL(t, base+"/metrics")
	for _, line := range []string{
		`retrysafe_ids_total{kind="snowflake"} 10002`, `retrysafe_ids_total{kind="segment"} 5`, `retrysafe_ids_errors_total{kind="segment",reason="no-tag"} 1`,
		`retrysafe_ids_left{tag="order"} 996`, "retrysafe_ids_layout_left_seconds", "retrysafe_ids_worker ",
	} {
		assert.Contains(t, metrics, line, "metrics")
	}
	assert.NoError(t, c.Process.Signal(syscall.SIGTERM), "SIGTERM")
	assert.NoError(t, c.Wait(), "the end")
}

// TestIDsServers: two servers on one store give no id twice, also after one was killed and another
// one was started.
func TestIDsServers(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(t *testing.T) string{
		"redis": func(t *testing.T) string {
			t.Helper()
			return "redis://:pass-word@" + startRedis(t, "--appendfsync", "always")
		},
		"sqlite": func(t *testing.T) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "ids.db") },
		"postgres": func(t *testing.T) string {
			t.Helper()
			return "postgres://retrysafe:pass-word@" + startPostgres(t) + "/postgres?sslmode=disable"
		},
		"mysql": func(t *testing.T) string {
			t.Helper()
			return "mysql://retrysafe:pass-word@" + startMySQL(t) + "/app"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--store", store(t), "--tag", "order:500"}
			first, a := startIDs(t, args...)
			_, b := startIDs(t, args...)
			var mu sync.Mutex
			var ids [2][]string
			ask := func(bases ...string) {
				t.Helper()
				var all sync.WaitGroup
				for i := range 8 {
					all.Go(func() {
						for range 50 {
							for k, path := range []string{"/api/snowflake/get/x?count=20", "/api/segment/get/order?count=20"} {
								var some []string
								status, body, _ := fetchURL(t, bases[i%len(bases)]+path)
								assert.Equal(t, status, 200, "%s", body)
								assert.NoError(t, json.Unmarshal([]byte(body), &some), "ids")
								mu.Lock()
								ids[k] = append(ids[k], some...)
								mu.Unlock()
							}
						}
					})
				}
				all.Wait()
			}
			ask(a, b)
			killProcess(first)
			_, c := startIDs(t, args...)
			ask(b, c)
			for k, kind := range []string{"snowflake", "segment"} {
				assert.Equal(t, len(ids[k]), 16_000, "%s ids", kind)
				slices.Sort(ids[k])
				assert.Equal(t, len(slices.Compact(ids[k])), 16_000, "different %s ids", kind)
			}
		})
	}
}

// TestIDsRefuses: the calls with which a server does not start, and its errors.
func TestIDsRefuses(t *testing.T) {
	t.Parallel()
	file := "sqlite:" + filepath.Join(t.TempDir(), "ids.db")
	for want, args := range map[string][]string{
		"write twitter, fast":  {"--layout", "mine"},
		"NAME:STEP:FIRST":      {"--store", file, "--tag", "order:many"},
		"step of 1 to":         {"--store", file, "--tag", "order:0"},
		"a tag has 1 to 128":   {"--store", file, "--tag", ":5"},
		"goes straight into":   {"--store", file, "--tag", "a:1:1:1"},
		"is not known":         {"--store", "paper:"},
		"have tables":          {"--store", "memory:", "--table", "leaf_alloc"},
		"write it like 127":    {"--store", file, "--listen", "here"},
		"unknown command":      {"more"},
		"1 to 128 bytes":       {"--namespace", ""},
		"letters, digits and ": {"--store", file, "--table", "a b"},
		"--unsafe":             {"--store", "redis://:pass-word@" + startRedis(t)},
	} {
		call := append([]string{"ids", "serve", "--listen", "127.0.0.1:0"}, args...)
		if args[0] == "more" {
			call = []string{"ids", "more"}
		}
		out, err := newCommand(t, call...).CombinedOutput()
		assert.True(t, err != nil, "%v is refused", args)
		assert.Contains(t, string(out), want, "%v", args)
	}
}

// TestIDsServeConnection: one connection gives ids, errors and the pages for operators in turn, to
// clients of every kind, and SIGTERM closes it.
func TestIDsServeConnection(t *testing.T) {
	t.Parallel()
	process, base := startIDs(t, "--store", "memory:", "--tag", "order")
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	assert.NoError(t, err, "dial")
	defer conn.Close()
	assert.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)), "deadline")
	in := bufio.NewReader(conn)
	ask := func(method, path, fields, want string) {
		t.Helper()
		_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: ids.example\r\n%s\r\n", method, path, fields)
		assert.NoError(t, err, "%s %s", method, path)
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		assert.NoError(t, err, "the answer to %s %s", method, path)
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, err, "the body of %s %s", method, path)
		got := fmt.Sprint(resp.StatusCode, " ", resp.ContentLength, " ", string(body))
		assert.True(t, strings.HasPrefix(got, want), "%s %s: %s, want %s", method, path, got, want)
	}
	ask("GET", "/api/segment/get/order", "", "200 1 1")
	ask("GET", "/api/segment/get/order", "Connection: keep-alive\r\n", "200 1 2")
	ask("GET", "/api/segment/get/order?count=2", "", `200 9 ["3","4"]`)
	ask("GET", "/api/segment/get/none", "", "404 ")
	ask("GET", "/api/segment/get/%6Frder", "", "200 1 5") // percent-encoded: net/http from here on
	ask("HEAD", "/api/segment/get/order", "", "200 1 ")
	ask("GET", "/api/segment/get/order", "", "200 1 7")
	ask("POST", "/api/segment/get/order", "Content-Length: 0\r\n", "405 ")
	ask("GET", "/healthz", "", "200 3 ok")
	assert.NoError(t, process.Process.Signal(syscall.SIGTERM), "SIGTERM")
	assert.NoError(t, process.Wait(), "the end, with an idle connection open")
}
