package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// BenchmarkIDsServe sends requests to a server in its own process, over connections that stay open,
// each with one request in flight. The client writes and reads raw bytes, so that most of the CPU
// time is the server's. For comparison there is a net/http handler that writes the same bytes and
// does nothing else.
func BenchmarkIDsServe(b *testing.B) {
	for _, of := range []struct{ name, path string }{
		{"snowflake", "/api/snowflake/get/x"}, {"segment", "/api/segment/get/order"}, {"count=1000", "/api/segment/get/order?count=1000"}, {"net_http", "/"},
	} {
		for _, conns := range []int{16, 128} {
			b.Run(fmt.Sprint(of.name, "/", conns), func(b *testing.B) {
				server, base := startIDs(b, "--store", "sqlite:"+b.TempDir()+"/ids.db", "--layout", "fast", "--tag", "order:100000")
				if of.path == "/" {
					server, base = startBare(b)
				}
				took := make([][]time.Duration, conns)
				clients := make([]*rawClient, conns)
				for i := range clients {
					clients[i] = newRawClient(b, base, of.path)
					_, err := clients[i].getID()
					assert.NoError(b, err, "the first request")
				}
				before := processorTime(b, server.Process.Pid)
				b.ResetTimer()
				var all sync.WaitGroup
				for i, c := range clients {
					all.Go(func() {
						for range b.N/conns + 1 {
							begun := time.Now()
							if _, err := c.getID(); err != nil {
								b.Error(err)
								return
							}
							took[i] = append(took[i], time.Since(begun))
						}
					})
				}
				all.Wait()
				b.StopTimer()
				every := slices.Concat(took...)
				slices.Sort(every)
				used := processorTime(b, server.Process.Pid) - before
				b.ReportMetric(float64(used.Nanoseconds())/float64(len(every))/1000, "µs-server-cpu")
				b.ReportMetric(float64(len(every))/b.Elapsed().Seconds(), "req/s")
				b.ReportMetric(float64(every[len(every)/2].Microseconds()), "µs-p50")
				b.ReportMetric(float64(every[len(every)*999/1000].Microseconds()), "µs-p99.9")
			})
		}
	}
}

// asBare makes the test binary that handler.
const asBare = "RETRYSAFE_TEST_AS_BARE_HTTP"

func serveBare() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"], w.Header()["Cache-Control"] = []string{"text/plain; charset=utf-8"}, []string{"no-store"}
		_, _ = io.WriteString(w, "1234567890123456789")
	})}
	return server.Serve(l)
}

func startBare(b *testing.B) (*exec.Cmd, string) {
	b.Helper()
	c := commandContext(b.Context(), b)
	c.Env = append(os.Environ(), asBare+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	assert.NoError(b, err, "pipe")
	assert.NoError(b, c.Start(), "start")
	b.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	lines := bufio.NewScanner(out)
	assert.True(b, lines.Scan(), "an address")
	return c, "http://" + lines.Text()
}

// processorTime returns the CPU time of a process, by the kernel's accounting in ticks of 10 ms.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	assert.NoError(b, err, "the process")
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		assert.NoError(b, err, "ticks")
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// rawClient sends the same request again and again.
type rawClient struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
}

func newRawClient(tb testing.TB, base, path string) *rawClient {
	tb.Helper()
	addr := strings.TrimPrefix(base, "http://")
	conn, err := net.Dial("tcp", addr)
	assert.NoError(tb, err, "connect")
	tb.Cleanup(func() { _ = conn.Close() })
	return &rawClient{conn, bufio.NewReader(conn), []byte("GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n")}
}

// getID returns the body, which is valid until the next call.
func (c *rawClient) getID() (string, error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return "", err
	}
	size := 0
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		switch {
		case first && string(line) != "HTTP/1.1 200 OK\r\n":
			return "", fmt.Errorf("the answer is %q", line)
		case len(line) == 2:
			body := make([]byte, size)
			_, err := io.ReadFull(c.in, body)
			return string(body), err
		case strings.HasPrefix(string(line), "Content-Length: "):
			for _, d := range line[len("Content-Length: ") : len(line)-2] {
				size = size*10 + int(d-'0')
			}
		}
	}
}
