package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
)

// rawAsk sends text on a new connection.
func rawAsk(t *testing.T, addr, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(addr, "http://"))
	assert.NoError(t, err, "dial")
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	_, err = io.WriteString(c, text)
	assert.NoError(t, err, "write")
	return c, bufio.NewReader(c)
}

// plain is a request that has a key, and a method that is not guarded.
const plain = "PUT /a HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 1\r\n\r\nx"

// passing runs a gateway that guards POST and PATCH.
func passing(t *testing.T, u *rawUpstream) string {
	t.Helper()
	return serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{"http://" + u.addr}})
}

// TestCutAnswersStayCut tests that an answer to an unguarded request breaks off for the client as
// it did for the gateway, whichever server had the request.
func TestCutAnswersStayCut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{plain, strings.Replace(plain, "Idempotency-Key", "X-Other", 1)} {
		u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
			return false
		})
		_, in := rawAsk(t, passing(t, u), text)
		resp, err := http.ReadResponse(in, nil)
		if err == nil { // or it broke off even earlier
			_, err = io.ReadAll(resp.Body)
		}
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "%q", text)
	}
}

// TestPassedRequestsLeaveNothing tests that many requests on one connection leave no memory in use.
func TestPassedRequestsLeaveNothing(t *testing.T) {
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
	c, in := rawAsk(t, passing(t, u), "")
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // collect what the first request has put into pools
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	send := func(n int) {
		for range n {
			_, _ = io.WriteString(c, plain)
			resp, err := http.ReadResponse(in, nil)
			assert.NoError(t, err, "answer")
			_, _ = io.Copy(io.Discard, resp.Body)
		}
	}
	send(100)
	begun := heap()
	send(2000)
	assert.True(t, heap()-begun < 2000*500, "%d bytes are left of a request", (heap()-begun)/2000)
}

// TestKeptLinesRest tests that a connection to the service is reused after a pause.
func TestKeptLinesRest(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
	base := before(t, u, retrysafe.Policy{}, 0)
	u.shared(t, 3, func(i int) {
		time.Sleep(300 * time.Millisecond)
		assert.Equal(t, told(t, base, "POST", fmt.Sprint("k", i), "x"), "201", "a request")
	})
}

// TestHalfClosedTunnels tests a service that has sent everything, and still reads.
func TestHalfClosedTunnels(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfrom service")
		if tcp, is := c.(*net.TCPConn); is {
			_ = tcp.CloseWrite()
		}
		b, _ := io.ReadAll(c)
		got <- string(b)
		return false
	})
	c, in := rawAsk(t, before(t, u, retrysafe.Policy{}, 0), "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	resp, err := http.ReadResponse(in, nil)
	assert.NoError(t, err, "answer")
	assert.Equal(t, resp.StatusCode, http.StatusSwitchingProtocols, "answer")
	said, err := io.ReadAll(in)
	assert.Equal(t, fmt.Sprint(string(said), err), "from service<nil>", "what the service says, to its end")
	_, err = io.WriteString(c, "late words")
	assert.NoError(t, err, "late words")
	if tcp, is := c.(*net.TCPConn); is {
		_ = tcp.CloseWrite()
	}
	assert.Equal(t, <-got, "late words", "what the service hears")
}

// TestShutdown tests that idle connections end at once, and a running request is answered first.
func TestShutdown(t *testing.T) {
	t.Parallel()
	in, out := make(chan struct{}), make(chan struct{})
	u := newRawUpstream(t, func(c net.Conn, r *http.Request, _ int) bool {
		if r.URL.Path == "/slow" {
			close(in)
			<-out
		}
		return ok(c)
	})
	g, err := gateway.New(newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{
		Upstreams: []string{"http://" + u.addr}, Logger: slog.New(slog.DiscardHandler),
	})
	assert.NoError(t, err, "gateway")
	s := gateway.NewServer(g, &gateway.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); _ = g.Close() })
	c, idle := rawAsk(t, l.Addr().String(), "GET /g HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(idle, nil)
	assert.NoError(t, err, "answer")
	_, _ = io.Copy(io.Discard, resp.Body)
	_, slow := rawAsk(t, l.Addr().String(),
		"POST /slow HTTP/1.1\r\nHost: x\r\nIdempotency-Key: 0123456789abcdef0123456789abcdef\r\nContent-Length: 1\r\n\r\nx")
	<-in
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	_, err = idle.ReadByte()
	assert.ErrorIs(t, err, io.EOF, "the idle connection")
	_ = c.Close()
	close(out)
	resp, err = http.ReadResponse(slow, nil)
	assert.NoError(t, err, "the answer to the slow one")
	assert.Equal(t, fmt.Sprint(resp.StatusCode, resp.Close), "201 true", "the answer to the slow one")
	assert.NoError(t, <-ended, "shutdown")
}
