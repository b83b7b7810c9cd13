package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// BenchmarkIDsServe asks a server in a process of its own over connections that stay open, each with one request on its way. The client writes and reads
// bytes, so that most of the processor time is the server's.
func BenchmarkIDsServe(b *testing.B) {
	for _, path := range []string{"/api/snowflake/get/x", "/api/segment/get/order"} {
		for _, conns := range []int{16, 128} {
			b.Run(fmt.Sprint(strings.Split(path, "/")[2], "/", conns), func(b *testing.B) {
				_, base := startIDs(b, "--store", "sqlite:"+b.TempDir()+"/ids.db", "--layout", "fast", "--tag", "order:100000")
				took := make([][]time.Duration, conns)
				clients := make([]*rawClient, conns)
				for i := range clients {
					clients[i] = newRawClient(b, base, path)
					_, err := clients[i].get()
					assert.NoError(b, err, "the first request")
				}
				b.ResetTimer()
				var all sync.WaitGroup
				for i, c := range clients {
					all.Go(func() {
						for range b.N/conns + 1 {
							begun := time.Now()
							if _, err := c.get(); err != nil {
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
				b.ReportMetric(float64(len(every))/b.Elapsed().Seconds(), "req/s")
				b.ReportMetric(float64(every[len(every)/2].Microseconds()), "µs-p50")
				b.ReportMetric(float64(every[len(every)*999/1000].Microseconds()), "µs-p99.9")
			})
		}
	}
}

// rawClient makes one request again and again.
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

// get returns the body, which is good until the next call.
func (c *rawClient) get() (string, error) {
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
