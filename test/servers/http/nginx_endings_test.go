package http_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/notrun"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
)

// TestNginxEndings is H9: an answer that says that nothing was done releases the key, and every
// other answer is stored.
func TestNginxEndings(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{origin: func(w http.ResponseWriter, r *http.Request) {
		if outcome := r.Header.Get("X-Outcome"); outcome != "" {
			w.Header().Set("Idempotency-Outcome", outcome)
		}
		status, _ := strconv.Atoi(r.Header.Get("X-Status"))
		if to := r.Header.Get("X-Location"); to != "" {
			w.Header().Set("Location", to)
		}
		w.WriteHeader(status)
	}, replace: map[string]string{`transfers = guard:with {duplicate = "reject"}`: `transfers = guard:with {on_doubt = "reexecute"}
    seats = guard:with {not_run = {409, 503}}`, "    location /transfers {": "    location /seats { content_by_lua_block { seats:guard() } }\n    location /transfers {"}})
	leads := func(to, path, status, outcome string) int64 {
		before := f.starts.Load()
		for range 2 {
			r := f.sendRequest("POST", path, "x", "Idempotency-Key", status+outcome+to, "Authorization", "Bearer x", "X-Status", status, "X-Outcome", outcome, "X-Location", to)
			assert.Equal(t, fmt.Sprint(r.status, r.header["Idempotency-Outcome"]), status+" []", "answer")
		}
		return f.starts.Load() - before
	}
	runs := func(path, status, outcome string) int64 { return leads("", path, status, outcome) }
	for to, want := range map[string]int64{
		"/orders/": 2, "http://elsewhere.example/Orders": 2, "orders/": 2, "?a=b": 2, "/thanks": 1, "thanks": 1, "/orders/7": 1, "http://shop.example/": 1,
	} {
		assert.Equal(t, leads(to, "/orders", "307", ""), want, "runs of 307 to %s", to)
		assert.Equal(t, leads(to, "/orders", "308", "executed"), int64(1), "runs of 308 to %s that acted", to)
	}
	for _, row := range notrun.Always {
		if row.Status == 0 || row.SamePath {
			continue
		}
		status := strconv.Itoa(row.Status)
		assert.Equal(t, runs("/orders", status, ""), int64(2), "runs of %s", status)
		assert.Equal(t, runs("/orders", status, "executed"), int64(1), "runs of %s that acted", status)
	}
	for _, status := range []string{"200", "302", "303", "400", "402", "404", "409", "410", "412", "422", "423", "500", "501", "502", "503", "504"} {
		assert.Equal(t, runs("/orders", status, ""), int64(1), "runs of %s", status)
		assert.Equal(t, runs("/orders", status, "not-executed"), int64(2), "runs of %s that did nothing", status)
	}
	assert.Equal(t, runs("/transfers", "503", ""), int64(2), "runs of 503 under reexecute")
	assert.Equal(t, runs("/transfers", "404", ""), int64(1), "runs of 404 under reexecute")
	for _, row := range notrun.UnderReexecute {
		status := strconv.Itoa(row.Status)
		assert.Equal(t, runs("/transfers", status, ""), int64(2), "runs of %s under reexecute", status)
	}
	for status, want := range map[string]int64{"409": 2, "503": 2, "423": 1, "500": 1, "429": 2} {
		assert.Equal(t, runs("/seats", status, ""), want, "runs of %s where 409 and 503 are listed", status)
	}
	assert.Equal(t, runs("/seats", "503", "executed"), int64(1), "runs of a listed 503 that acted")
}

// startActing is a service that reads a request, acts, and then calls then with the connection. It
// returns its address.
func startActing(t *testing.T, effects *atomic.Int64, then func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for {
					r, err := http.ReadRequest(bufio.NewReader(c))
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					effects.Add(1)
					then(c)
				}
			}()
		}
	}()
	return l.Addr().String()
}

func writeText(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}
}

// TestNginxSendsOnce is H7 and H15: whatever happens to the answer, the service acts once, and
// duplicates learn that the outcome is unknown.
func TestNginxSendsOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		then  func(net.Conn)
		told  int
		cause string
	}{
		"closes":     {func(c net.Conn) { _ = c.Close() }, 502, "reset"},
		"resets":     {func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }, 502, "reset"}, //nolint:forcetypeassert // it is TCP
		"silent":     {func(net.Conn) {}, 504, "timeout"},
		"half head":  {writeText("HTTP/1.1 200 OK\r\nContent-"), 502, "garbage"},
		"half body":  {writeText("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), 502, "truncated"},
		"no body":    {writeText("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"), 502, "truncated"},
		"half parts": {writeText("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"), 502, "truncated"},
		"stalls":     {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf") }, 502, "truncated"},
		"garbage":    {writeText("SSH-2.0-OpenSSH_9.2\r\n\r\n"), 502, "garbage"},
		"early":      {writeText("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 502, "garbage"},
		"switches":   {writeText("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), 502, "garbage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var effects atomic.Int64
			addr := startActing(t, &effects, tt.then)
			// the same address twice: nothing is sent to another
			s := nginxSetup{service: addr + "; server " + addr}
			if name == "silent" || name == "stalls" {
				s.replace = map[string]string{"proxy_read_timeout 20s": "proxy_read_timeout 500ms"}
			}
			f := startNginx(t, s)
			first := f.postOrder("k", "x", "Connection", "Upgrade", "Upgrade", "x")
			f.checkProblem(first, tt.told, "outcome-unknown", false)
			for range 3 {
				f.checkProblem(f.postOrder("k", "x"), 409, "outcome-unknown", false)
			}
			f.checkProblem(f.postOrder("k", "y"), 422, "payload-mismatch", false)
			assert.Equal(t, effects.Load(), int64(1), "effects")
			_, engine := f.records()
			rec := f.onlyRecord(engine)
			assert.Equal(t, rec.Cause, tt.cause, "cause")
		})
	}
}

// TestNginxReexecute: the lease of a request that may have acted expires, and then it runs again.
func TestNginxReexecute(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	f := startNginx(t, nginxSetup{
		service: startActing(t, &effects, func(c net.Conn) {
			if effects.Load() > 1 {
				writeText("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")(c)
			}
			_ = c.Close()
		}),
		replace: map[string]string{"      lease = 30,": "      lease = 3, on_doubt = 'reexecute',", "= 2 + 5 + 20": "= 0.9"},
	})
	begun := time.Now()
	f.checkProblem(f.postOrder("k", "x"), 502, "outcome-unknown", false)
	second := f.postOrder("k", "x")
	if time.Since(begun) < 3*time.Second { // else the lease may be over
		f.checkProblem(second, 409, "in-progress", true)
	}
	f.awaitTrue(func() bool { return f.postOrder("k", "x").status == 200 }, "the next run")
	assert.Equal(t, effects.Load(), int64(2), "effects")
}

// TestNginxNotSent: the key of a request for which no connection could be made is released.
func TestNginxNotSent(t *testing.T) {
	t.Parallel()
	addr := "127.0.0.1:" + servers.FreePort(t)
	f := startNginx(t, nginxSetup{service: addr + " max_fails=0"})
	for range 3 {
		f.checkProblem(f.postOrder("k", "x"), 503, "upstream-unreachable", true)
	}
	_, e := f.records()
	kept := f.onlyRecord(e)
	left := kept.Expires.Sub(kept.Now)
	assert.True(t, kept.State == retrysafe.StateReleased && left > time.Minute && left <= 5*time.Minute, "a released record is kept for minutes: %v, %v", kept.State, left)
	l, err := net.Listen("tcp", addr)
	assert.NoError(t, err, "listen again")
	up := &http.Server{Handler: answerOrders(), ReadHeaderTimeout: time.Minute}
	go func() { _ = up.Serve(l) }()
	t.Cleanup(func() { _ = up.Close() })
	r := f.postOrder("k", "x")
	assert.Equal(t, r.status, 201, "when the service is there")
	assert.Contains(t, r.body, `"attempt":["4"]`, "the attempt")
}

// TestNginxAnswersNotKept is H11.
func TestNginxAnswersNotKept(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("large", 1<<20)
	f := startNginx(t, nginxSetup{origin: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/\"1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, large)
	}})
	first := f.postOrder("k", "x")
	assert.True(t, first.status == 201 && first.body == large, "the first client gets it whole: %d, %d bytes", first.status, len(first.body))
	again := f.postOrder("k", "x")
	f.checkProblem(again, 409, "answer-not-kept", false)
	assert.Contains(t, again.body, fmt.Sprintf(`"answer_status":201,"answer_length":%d,"answer_sha256":"`, len(large)), "what is known")
	assert.Contains(t, again.body, `"location":"/orders/\"1"`, "what is known")
	f.checkStarts(1, "an answer that is too large")
}

// TestNginxWorkerKilled: the lease of a worker that dies expires, and then the outcome is unknown.
// There is one effect.
func TestNginxWorkerKilled(t *testing.T) {
	t.Parallel()
	begun, end := make(chan bool, 100), make(chan bool)
	f := startNginx(t, nginxSetup{origin: func(http.ResponseWriter, *http.Request) {
		begun <- true
		awaitEnd(end)
	}, replace: map[string]string{"      lease = 30,": "      lease = 3,", "= 2 + 5 + 20": "= 1", "worker_processes auto": "worker_processes 1"}})
	t.Cleanup(func() { close(end) })
	failed, begunAt := make(chan error), time.Now()
	go func() {
		_, err := f.trySend(t.Context(), "POST", "/orders?a=1", "x", "Idempotency-Key", "k", "Authorization", "Bearer opaque")
		failed <- err
	}()
	<-begun
	workers, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", f.cmd.Process.Pid))
	assert.NoError(t, err, "workers")
	for text := range strings.FieldsSeq(string(workers)) {
		pid, err := strconv.Atoi(text)
		assert.NoError(t, err, "pid")
		assert.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "kill")
	}
	assert.NotEqual(t, <-failed, nil, "the client sees no answer")
	second := f.postOrder("k", "x")
	if time.Since(begunAt) < 3*time.Second { // else the lease may be over
		f.checkProblem(second, 409, "in-progress", true)
	}
	f.awaitTrue(func() bool { return strings.Contains(f.postOrder("k", "x").body, "outcome-unknown") }, "the end of the lease")
	f.checkStarts(1, "a worker that was killed")
}
