package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// rawUpstream is a service that does things to its connections that no real service should do.
type rawUpstream struct {
	addr    string
	effects atomic.Int64
	conns   atomic.Int64

	mu   sync.Mutex
	open []net.Conn
	head []string // the first lines of each request
}

// exchange is called after a request has been read and has had its effect. n counts the requests of
// this connection from 1. It returns false to end the connection.
type exchange func(c net.Conn, r *http.Request, n int) bool

func newRawUpstream(t *testing.T, do exchange) *rawUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	u := &rawUpstream{addr: l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			u.conns.Add(1)
			u.mu.Lock()
			u.open = append(u.open, c)
			u.mu.Unlock()
			all.Go(func() { u.serve(c, do) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		u.hangUp()
		all.Wait()
	})
	return u
}

// newRawServer calls do for each connection to it, and returns its URL.
func newRawServer(t *testing.T, do func(c net.Conn)) string {
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
			go do(c)
		}
	}()
	return "http://" + l.Addr().String()
}

// hangUp closes all its connections.
func (u *rawUpstream) hangUp() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.open {
		_ = c.Close()
	}
}

func (u *rawUpstream) serve(c net.Conn, do exchange) {
	defer c.Close()
	var seen strings.Builder
	in := bufio.NewReader(io.TeeReader(c, &seen))
	for n := 1; ; n++ {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		u.effects.Add(1)
		u.mu.Lock()
		u.head = append(u.head, seen.String())
		u.mu.Unlock()
		seen.Reset()
		if !do(c, r, n) {
			return
		}
	}
}

// shared calls request n times with rising numbers, and checks that the requests share one
// connection. The gateway closes one that rests for a second and a half, so that a machine that
// stops for as long has another try.
func (u *rawUpstream) shared(t *testing.T, n int, request func(i int)) {
	t.Helper()
	for round := range 20 {
		made, last, longest := u.conns.Load(), time.Now(), time.Duration(0)
		for i := range n {
			request(n*round + i)
			longest = max(longest, time.Since(last))
			last = time.Now()
		}
		if u.conns.Load() <= made+1 {
			return
		}
		assert.True(t, longest > time.Second, "%d connections, and none had to rest for long", u.conns.Load()-made)
	}
	t.Fatal("no two requests share a connection")
}

// warms reports whether a request only opens a connection.
func warms(r *http.Request) bool { return r.Header.Get("Idempotency-Key") == "warm-up" }

// warmUp makes the gateway keep a connection to u.
func (u *rawUpstream) warmUp(t *testing.T, base string) {
	t.Helper()
	assert.Equal(t, becomes(t, base, "warm-up"), "201", "warm-up")
	u.effects.Store(0)
}

func ok(c net.Conn) bool {
	_, err := io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone")
	return err == nil
}

// reset ends a connection with RST instead of FIN.
func reset(c net.Conn) bool {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return false
}

// send sends one request to the gateway and retries nothing.
func send(t *testing.T, base, method, key, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, base+"/orders", strings.NewReader(body))
	assert.NoError(t, err, "request")
	if body == "" {
		r.Body = http.NoBody
	}
	r.GetBody = nil
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	r.Header.Set("Authorization", "Bearer opaque")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 3 * time.Minute}
	resp, err := client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// told returns the status and the problem code of an answer.
func told(t *testing.T, base, method, key, body string) string {
	t.Helper()
	resp, b, err := send(t, base, method, key, body)
	if err != nil {
		return "error"
	}
	_, code, _ := strings.Cut(b, `"code":"`)
	code, _, _ = strings.Cut(code, `"`)
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", resp.StatusCode, code, resp.Header.Get("Retry-After")))
}

// TestServiceIsDown: while the service is down, a client that keeps its connection gets an answer
// to each of its requests on it, whether their bodies were read or not, and the server does not
// panic.
func TestServiceIsDown(t *testing.T) {
	t.Parallel()
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{nobody(t)}})
	dials, closed := 0, 0
	keeping := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	defer keeping.CloseIdleConnections()
	for i := range 30 {
		r, err := http.NewRequestWithContext(t.Context(), "POST", base, strings.NewReader(strings.Repeat("x", 1+i*5000)))
		assert.NoError(t, err, "request")
		if i%3 == 2 {
			r.Header.Set("Idempotency-Key", fmt.Sprintf("a-long-key-of-a-client-%06d", i))
		}
		if i%3 == 1 {
			r.ContentLength = -1 // chunked
		}
		resp, err := keeping.RoundTrip(r)
		assert.NoError(t, err, "request %d", i)
		_, err = io.Copy(io.Discard, resp.Body)
		assert.NoError(t, err, "answer %d", i)
		if resp.Close {
			closed++
		}
		_ = resp.Body.Close()
		assert.True(t, resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusServiceUnavailable, "status %d", resp.StatusCode)
	}
	assert.Equal(t, dials, 1+closed, "connections of the client; a server that closes one says so")
}
