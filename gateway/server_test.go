package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
	"github.com/retrysafe/retrysafe/stores/memstore"
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

// plain is a request whose method is not guarded.
const plain = "PUT /a HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 1\r\n\r\nx"

// passing runs a gateway that guards POST and PATCH.
func passing(t *testing.T, u *rawUpstream) string {
	t.Helper()
	return serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{"http://" + u.addr}})
}

// TestCutAnswersStayCut tests that an answer to an unguarded request breaks off for the client as
// it did for the gateway.
func TestCutAnswersStayCut(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		return false
	})
	_, in := rawAsk(t, passing(t, u), plain)
	resp, err := http.ReadResponse(in, nil)
	if err == nil { // or it broke off even earlier
		_, err = io.ReadAll(resp.Body)
	}
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "the answer")
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

// serveHandler serves h. Options that are nil have long times and log nothing.
func serveHandler(t *testing.T, h http.HandlerFunc, o *gateway.ServerOptions) (*gateway.Server, string) {
	t.Helper()
	if o == nil {
		o = new(gateway.ServerOptions)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := gateway.NewServer(h, o)
	port, err := freeport.Get() // no other gets it after the server
	assert.NoError(t, err, "a free port")
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	assert.NoError(t, err, "listen")
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		assert.ErrorIs(t, <-ended, http.ErrServerClosed, "Serve")
	})
	return s, l.Addr().String()
}

// request returns a POST request.
func request(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// short returns the body of a successful answer, and else its status.
func short(in *bufio.Reader) string {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return "no answer"
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode)
	}
	return string(body)
}

// TestServerReads tests requests that arrive in one piece, in many, or several at once: each is
// answered, in order, and a malformed one ends the connection.
func TestServerReads(t *testing.T) {
	t.Parallel()
	one, large := request("/a", "body"), request("/large", strings.Repeat("x", 600_000))
	chunked := "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
	for name, tt := range map[string]struct {
		pieces []string
		want   string
	}{
		"one":                  {[]string{one}, "POST/a4"},
		"three at once":        {[]string{one + one + one}, "POST/a4 POST/a4 POST/a4"},
		"head and body":        {[]string{one[:len(one)-4], "bo", "dy"}, "POST/a4"},
		"a large one":          {[]string{large[:100], large[100:], one}, "POST/large600000 POST/a4"},
		"two, and a beginning": {[]string{one + one + one[:20], one[20:]}, "POST/a4 POST/a4 POST/a4"},
		"a byte at a time":     {strings.Split(one, ""), "POST/a4"},
		"chunks in between":    {[]string{one + chunked + one}, "POST/a4 POST/c2 POST/a4"},
		"another method":       {[]string{"OPTIONS /g HTTP/1.1\r\nHost: x\r\n\r\n", one}, "OPTIONS/g0 POST/a4"},
		"a malformed one":      {[]string{one, "nonsense of some length, since the server looks at 24 bytes\r\n\r\n" + one}, "POST/a4 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, addr := serveHandler(t, func(w http.ResponseWriter, r *http.Request) {
				n, _ := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, r.Method, r.URL.Path, n)
			}, nil)
			c, in := rawAsk(t, addr, "")
			for _, p := range tt.pieces {
				_, err := io.WriteString(c, p)
				assert.NoError(t, err, "write")
			}
			var got []string
			for range strings.Fields(tt.want) {
				got = append(got, short(in))
			}
			assert.Equal(t, strings.Join(got, " "), tt.want, "answers")
			if strings.HasSuffix(tt.want, "400") {
				_, err := in.ReadByte()
				assert.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "the connection ends: %v", err)
			}
		})
	}
}

// TestRequestsWithTwoReadings tests that a request that could be read in two ways is refused, and
// that nothing after it on its connection is read as a request.
func TestRequestsWithTwoReadings(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	service := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool {
		reached.Add(1)
		return ok(c)
	})
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{"http://" + service.addr}})
	for _, head := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a b\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nX-Control: \x01\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nX: a\rContent-Length: 9\r\n\r\n",
		"POST /a b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1 \r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/3.7\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
	} {
		for _, key := range []string{"", "Idempotency-Key: a-key-of-more-than-22-characters\r\n"} {
			text := strings.Replace(head, "HTTP/1.1\r\n", "HTTP/1.1\r\n"+key, 1) + "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
			_, in := rawAsk(t, base, text)
			status := short(in)
			assert.True(t, status == "400" || status == "501" || status == "505", "%q: %s", text, status)
			_, err := in.ReadByte()
			assert.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "%q: more is answered: %v", text, err)
		}
	}
	assert.Equal(t, reached.Load(), int64(0), "requests at the service")
}

// TestExpect tests that a client that waits for leave to send its body gets it, and that a request
// that is refused by its head gets the refusal instead.
func TestExpect(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{
		Upstreams: []string{"http://" + u.addr}, Guard: httpidem.Options{Limit: httpidem.LimitOptions{Body: 100}},
	})
	for key, length := range map[string]int{"": 4, "Idempotency-Key: a-key-of-more-than-22-characters\r\n": 4, "Idempotency-Key: another-key-of-22-characters\r\n": 101} {
		c, in := rawAsk(t, base, fmt.Sprintf("POST /a HTTP/1.1\r\nHost: x\r\n%sExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", key, length))
		resp, err := http.ReadResponse(in, nil)
		assert.NoError(t, err, "the first answer, %q", key)
		if length > 100 {
			assert.Equal(t, resp.StatusCode, http.StatusRequestEntityTooLarge, "a body that is too large")
			continue
		}
		assert.Equal(t, resp.StatusCode, http.StatusContinue, "leave, %q", key)
		_, err = io.WriteString(c, "body")
		assert.NoError(t, err, "the body")
		assert.Equal(t, short(in), "201", "the answer, %q", key)
	}
	assert.Equal(t, u.effects.Load(), int64(2), "effects")
}

// TestBodiesThatNeverCome tests that a connection is not held by a body that was announced, that
// no one needs for the answer, and that does not come.
func TestBodiesThatNeverCome(t *testing.T) {
	t.Parallel()
	_, addr := serveHandler(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		&gateway.ServerOptions{HeaderTime: time.Second})
	for name, head := range map[string]string{"a length": "Content-Length: 100", "chunks": "Transfer-Encoding: chunked"} {
		in, said := (*bufio.Reader)(nil), "no answer"
		for begun := time.Now(); said == "no answer" && time.Since(begun) < time.Minute; {
			// a slow machine may need longer than the time for a head
			_, in = rawAsk(t, addr, "POST / HTTP/1.1\r\nHost: x\r\n"+head+"\r\n\r\n")
			said = short(in)
		}
		assert.Equal(t, said, "403", "%s: the answer", name)
		_, err := in.ReadByte()
		assert.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "%s: the connection ends: %v", name, err)
	}
}

// TestRestsOfBodies tests that what is left of the body of an unguarded request after its answer is
// never read as a request, and does not hold the connection.
func TestRestsOfBodies(t *testing.T) {
	t.Parallel()
	const rest, limit = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", time.Second
	for name, tt := range map[string]struct{ answer, want string }{
		"an early answer of a length":    {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "403"},
		"an early answer without one":    {"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "403"},
		"a service that does not answer": {"", "504"},
	} {
		for _, sends := range []string{"nothing more", "a byte", "all of it"} {
			t.Run(name+", the client sends "+sends, func(t *testing.T) {
				t.Parallel()
				service := newRawServer(t, func(c net.Conn) {
					in := bufio.NewReader(c)
					if _, err := http.ReadRequest(in); err != nil {
						return // an answer before a request is no answer
					}
					_, _ = io.WriteString(c, tt.answer)
					if sends == "a byte" && tt.answer != "" { // which cannot be passed on
						_ = c.Close()
						return
					}
					_, _ = io.Copy(io.Discard, in)
				})
				o := &gateway.Options{Upstreams: []string{service}, Guard: httpidem.Options{Limit: httpidem.LimitOptions{BodyTime: limit}}}
				if tt.want == "504" {
					o.QuietTime, o.Guard.Limit.BodyTime = limit, time.Minute
				}
				base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
				c, in := rawAsk(t, base, fmt.Sprintf("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nx", 1+len(rest)))
				said := short(in)
				// a slow machine
				assert.True(t, said == tt.want || said == "408" || said == "504", "the answer: %s", said)
				switch sends {
				case "a byte":
					_, _ = io.WriteString(c, rest[:1])
				case "all of it":
					<-time.After(3 * limit)
					_, _ = io.WriteString(c, rest)
				}
				more, err := io.ReadAll(in)
				assert.Equal(t, string(more), "", "after the answer")
				assert.True(t, !errors.Is(err, os.ErrDeadlineExceeded), "the connection is held")
			})
		}
	}
}

// TestServerTimes tests that connections that are idle, or that send nothing at all, are closed in
// time.
func TestServerTimes(t *testing.T) {
	t.Parallel()
	_, addr := serveHandler(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") },
		&gateway.ServerOptions{HeaderTime: 2 * time.Second, IdleTime: 3 * time.Second})
	_, silent := rawAsk(t, addr, "")
	var (
		in    *bufio.Reader
		begun time.Time
		said  string
	)
	for n := 0; n < 20 && said != "x"; n++ {
		// a slow machine may need longer than the time for a head
		begun = time.Now()
		_, in = rawAsk(t, addr, request("/", ""))
		said = short(in)
	}
	assert.Equal(t, said, "x", "an answer")
	_, err := silent.ReadByte()
	assert.ErrorIs(t, err, io.EOF, "the silent one")
	_, err = in.ReadByte()
	assert.ErrorIs(t, err, io.EOF, "the idle one")
	assert.True(t, time.Since(begun) >= 2900*time.Millisecond, "the idle one was closed after %v", time.Since(begun))
}

// TestHalfClosedClients tests that a client that ends its side while its request runs gets the
// answer and then the end of the connection. One that ends it sooner may get none, as with any
// server of net/http: then nothing was done.
func TestHalfClosedClients(t *testing.T) {
	t.Parallel()
	u, answer := slow(t, "", "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone")
	base := before(t, u, retrysafe.Policy{}, 0)
	c, in := rawAsk(t, base, "POST /a HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nAuthorization: Bearer opaque\r\nContent-Length: 1\r\n\r\nx")
	for end := time.Now().Add(time.Minute); u.effects.Load() == 0; <-time.After(time.Millisecond) {
		assert.True(t, time.Now().Before(end), "the service gets the request")
	}
	half, is := c.(*net.TCPConn)
	assert.True(t, is, "a TCP connection")
	assert.NoError(t, half.CloseWrite(), "CloseWrite")
	close(answer)
	assert.Equal(t, short(in), "201", "the answer")
	_, err := in.ReadByte()
	assert.ErrorIs(t, err, io.EOF, "the end")
}

// TestServerShutdown tests that idle connections end, that running requests finish with an answer
// that closes the connection, and that nothing new is accepted.
func TestServerShutdown(t *testing.T) {
	t.Parallel()
	in, out := make(chan struct{}), make(chan struct{})
	s, addr := serveHandler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			in <- struct{}{}
			<-out
		}
		fmt.Fprint(w, "done")
	}, nil)
	_, idle := rawAsk(t, addr, request("/", ""))
	assert.Equal(t, short(idle), "done", "an answer")
	_, busy := rawAsk(t, addr, request("/slow", ""))
	<-in
	given, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, s.Shutdown(given), context.Canceled, "a shutdown without patience")
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(t.Context()) }()
	_, err := idle.ReadByte()
	assert.ErrorIs(t, err, io.EOF, "the idle connection")
	close(out)
	resp, err := http.ReadResponse(busy, nil)
	assert.NoError(t, err, "the running request")
	body, err := io.ReadAll(resp.Body)
	assert.Equal(t, fmt.Sprint(string(body), err, resp.Close), "done<nil> true", "the running request")
	assert.NoError(t, <-ended, "shutdown")
	_, err = net.Dial("tcp", addr)
	assert.True(t, err != nil, "nobody listens")
}

// TestClientsThatHangUp tests that a handler learns that its client has gone.
func TestClientsThatHangUp(t *testing.T) {
	t.Parallel()
	in, gone := make(chan struct{}), make(chan error, 1)
	_, addr := serveHandler(t, func(_ http.ResponseWriter, r *http.Request) {
		close(in)
		<-r.Context().Done()
		gone <- r.Context().Err()
	}, nil)
	c, _ := rawAsk(t, addr, request("/", ""))
	<-in
	_ = c.Close()
	select {
	case err := <-gone:
		assert.ErrorIs(t, err, context.Canceled, "the request's context")
	case <-time.After(3 * time.Minute):
		t.Fatal("the handler waits for ever")
	}
}

// TestServerCutsSlowReaders tests that a client that does not read its answer is cut off: at the
// deadline of the handler, and else at that of the server.
func TestServerCutsSlowReaders(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"handler": 0, "server": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, failed := make(chan struct{}), make(chan error, 1)
			s, addr := serveHandler(t, func(w http.ResponseWriter, _ *http.Request) {
				if limit == 0 {
					_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
				}
				close(begun)
				var err error
				for err == nil {
					_, err = w.Write(make([]byte, 1<<20))
				}
				failed <- err
			}, &gateway.ServerOptions{WriteTime: limit})
			rawAsk(t, addr, request("/", ""))
			<-begun
			// Shutdown does not end the watch over running requests
			go func() { _ = s.Shutdown(t.Context()) }()
			select {
			case err := <-failed:
				assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "a write")
			case <-time.After(3 * time.Minute):
				t.Fatal("the handler writes for ever")
			}
		})
	}
}

// TestPanicsInTheLog tests that a panic of a handler cuts its connection and no other, and is
// logged without its value, which may be of a request. One that only cuts the connection is not
// logged.
func TestPanicsInTheLog(t *testing.T) {
	t.Parallel()
	log := new(lockedBuffer)
	_, addr := serveHandler(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic("a secret of " + r.URL.RawQuery)
		case "/cut":
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "done")
	}, &gateway.ServerOptions{Logger: slog.New(slog.NewTextHandler(log, nil))})
	for path, want := range map[string]string{"/panic?secret": "no answer", "/cut": "no answer", "/": "done"} {
		_, in := rawAsk(t, addr, request(path, "x"))
		assert.Equal(t, short(in), want, "%s", path)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(log.String(), "a handler panicked"); <-time.After(time.Millisecond) {
		assert.True(t, time.Now().Before(end), "the log: %s", log)
	}
	assert.Equal(t, strings.Count(log.String(), "\n"), 1, "lines: %s", log)
	assert.Contains(t, log.String(), "TestPanicsInTheLog", "where it was")
	assert.True(t, !strings.Contains(log.String(), "secret"), "the log: %s", log)
}
