package h1server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// serveFastPath serves h with the fast path, or with net/http if direct is set. Times that are zero
// are long.
func serveFastPath(t *testing.T, h http.Handler, limits times, direct bool) (s *Server, addr string) {
	t.Helper()
	c := &Config{
		Handler: h, FastPath: func(*http.Request) bool { return true }, Header: 64 << 10, HeaderTime: cmp.Or(limits.head, time.Minute),
		IdleTime: cmp.Or(limits.idle, 2*time.Minute), WriteTime: limits.write, Connections: 20_000, Streams: 250, Log: slog.New(slog.DiscardHandler),
	}
	if direct {
		c.FastPath = nil
	}
	s = New(c)
	port, err := freeport.Get() // no other gets it after the server
	assert.NoError(t, err, "a free port")
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	assert.NoError(t, err, "listen")
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		_ = s.Close()
		assert.ErrorIs(t, <-ended, http.ErrServerClosed, "Serve")
	})
	return s, listener.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	assert.NoError(t, err, "dial")
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	return c
}

// ask returns a request of the kind that the fast path serves.
func ask(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// heard reads one answer, and returns all that a client sees of it.
func heard(in *bufio.Reader) string {
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
	if err != nil {
		return "no answer"
	}
	body, err := io.ReadAll(resp.Body)
	if date := resp.Header["Date"]; len(date) == 1 {
		resp.Header["Date"] = []string{"a date"}
	}
	if len(body) > 100 {
		body = fmt.Appendf(nil, "%d bytes", len(body))
	}
	return fmt.Sprintf("%d %v %q %v close %v trailer %v", resp.StatusCode, resp.Header, body, err, resp.Close, resp.Trailer)
}

// manners are what handlers do with an answer.
var manners = map[string]http.HandlerFunc{
	"nothing":  func(http.ResponseWriter, *http.Request) {},
	"a status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
	"a body":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>body") },
	"no content": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		_, _ = io.WriteString(w, "x")
	},
	"not modified": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", `"a"`)
		w.WriteHeader(http.StatusNotModified)
	},
	"a late field": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); w.Header().Set("X-Late", "1") },
	"two statuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.WriteHeader(500) },
	"no date, no type": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
		_, _ = io.WriteString(w, "x")
	},
	"an end": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "x")
	},
	"broken fields": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-Split"], w.Header()["X Bad"] = []string{"a\r\nX-Injected: 1"}, []string{"x"}
	},
	"a flush": func(w http.ResponseWriter, _ *http.Request) {
		for _, s := range []string{"one", "two"} {
			_, _ = io.WriteString(w, s)
			_ = http.NewResponseController(w).Flush()
		}
	},
	"a flush of nothing": func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
	"much": func(w http.ResponseWriter, _ *http.Request) {
		for range 300 {
			_, _ = w.Write(make([]byte, 1000))
		}
	},
	"much of a length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "300000")
		for range 300 {
			_, _ = w.Write(make([]byte, 1000))
		}
	},
	"too much": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		_, err := io.WriteString(w, "four")
		if !errors.Is(err, http.ErrContentLength) {
			panic("no error")
		}
		_, _ = io.WriteString(w, "one")
	},
	"too little": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "9")
		_, _ = io.WriteString(w, "x")
	},
	"a trailer": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum, X-None")
		_, _ = io.WriteString(w, "x")
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"X-More", "2")
	},
	"a trailer that nobody announced": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"X-More", "2")
	},
	"no content of a length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(http.StatusNoContent)
	},
	"not modified of a length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(http.StatusNotModified)
	},
	"no status at all": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(99) },
	"a trailer that is none": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-None")
		_, _ = io.WriteString(w, "x")
	},
	"a type in two writes": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<")
		_, _ = io.WriteString(w, "html>")
	},
	"an abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"a panic":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x"); panic("secret") },
	"an abort midway": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	},
	"a hint before it": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(200)
	},
	"what was asked": func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		_, hasAddr := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		fmt.Fprint(w, r.Method, r.URL, r.Host, r.Header, r.RequestURI, string(body), err, r.RemoteAddr != "", hasAddr, r.ProtoMajor, r.ProtoMinor)
	},
}

// TestFastPathAnswersLikeNetHTTP tests that a client cannot tell the servers apart, whatever a
// handler does. Each answer is requested three times on one connection.
func TestFastPathAnswersLikeNetHTTP(t *testing.T) {
	t.Parallel()
	for name, h := range manners {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said [2]string
			for i := range said {
				_, addr := serveFastPath(t, h, times{}, i == 1)
				c := dial(t, addr)
				in := bufio.NewReader(c)
				for _, text := range []string{ask("/a?b=c", "body"), ask("/a?b=c", "body"), "GET /a HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"} {
					_, _ = io.WriteString(c, text)
					said[i] += heard(in) + "\n"
				}
			}
			assert.Equal(t, said[0], said[1], "the fast path and net/http")
		})
	}
}

// TestFastPathReads tests requests that arrive in one piece, in many, or several at once, and what
// the fast path hands over in between.
func TestFastPathReads(t *testing.T) {
	t.Parallel()
	one, big := ask("/a", "body"), ask("/big", strings.Repeat("x", 60_000))
	chunked := "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
	for name, tt := range map[string]struct {
		pieces []string
		want   string
		fast   []bool // nil: it depends on how the pieces arrive
	}{
		"one":                  {[]string{one}, "POST/a4", []bool{true}},
		"three at once":        {[]string{one + one + one}, "POST/a4 POST/a4 POST/a4", []bool{true, true, true}},
		"head and body":        {[]string{one[:len(one)-4], "bo", "dy"}, "POST/a4", nil},
		"a large one":          {[]string{big[:100], big[100:], one}, "POST/big60000 POST/a4", nil},
		"two, and a beginning": {[]string{one + one + one[:20], one[20:]}, "POST/a4 POST/a4 POST/a4", nil},
		"a drop at a time":     {strings.Split(one, ""), "POST/a4", nil},
		"chunks in between":    {[]string{one + chunked + one}, "POST/a4 POST/c2 POST/a4", []bool{true, false, false}},
		"another method":       {[]string{"OPTIONS /g HTTP/1.1\r\nHost: x\r\n\r\n", one}, "OPTIONS/g0 POST/a4", []bool{false, false}},
		"too large":            {[]string{ask("/l", strings.Repeat("x", mostBody+1))}, "POST/l65537", []bool{false}},
		"a bad one behind":     {[]string{one, "nonsense of some length, for net/http looks at 24 bytes\r\n\r\n"}, "POST/a4 400", []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var fast []bool // for each request, whether the fast path served it
			_, addr := serveFastPath(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, _ := io.Copy(io.Discard, r.Body)
				mu.Lock()
				_, isFast := w.(*response)
				fast = append(fast, isFast)
				mu.Unlock()
				fmt.Fprint(w, r.Method, r.URL.Path, n)
			}), times{}, false)
			c := dial(t, addr)
			in := bufio.NewReader(c)
			got, sent := []string{}, 0
			for _, p := range tt.pieces {
				_, err := io.WriteString(c, p)
				assert.NoError(t, err, "write")
				if sent++; strings.HasSuffix(p, "body") && sent < len(tt.pieces) || strings.HasPrefix(p, "OPTIONS") {
					got = append(got, short(in)) // the next piece is sent when this one is answered
				}
			}
			for len(got) < len(strings.Fields(tt.want)) {
				got = append(got, short(in))
			}
			assert.Equal(t, strings.Join(got, " "), tt.want, "answers")
			mu.Lock()
			defer mu.Unlock()
			assert.True(t, tt.fast == nil || slices.Equal(fast, tt.fast), "who served: %v", fast)
		})
	}
}

// TestLargeRequestsHaveABound tests that the fast path leaves large requests to net/http once those
// that it has take all the memory that they may, and takes them again afterwards.
func TestLargeRequestsHaveABound(t *testing.T) {
	t.Parallel()
	const most = mostLarge / mostBody // a bit more than fit, with their heads
	var fast atomic.Int64
	in, out := make(chan bool, most+1), make(chan struct{})
	_, addr := serveFastPath(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, isFast := w.(*response)
		if isFast {
			fast.Add(1)
		}
		n, err := io.Copy(io.Discard, r.Body)
		in <- isFast
		<-out
		fmt.Fprint(w, n, err)
	}), times{}, false)
	request := ask("/", strings.Repeat("x", mostBody))
	var readers []*bufio.Reader
	for range most + 1 {
		c := dial(t, addr)
		_, err := io.WriteString(c, request)
		assert.NoError(t, err, "write")
		readers = append(readers, bufio.NewReader(c))
		<-in
	}
	assert.True(t, fast.Load() < most+1, "the fast path has all requests")
	close(out)
	for _, in := range readers {
		assert.Equal(t, short(in), "65536 <nil>", "an answer")
	}
	again := dial(t, addr)
	for range 3 {
		_, _ = io.WriteString(again, ask("/", strings.Repeat("x", mostBody-1)))
		assert.Equal(t, short(bufio.NewReader(again)), "65535 <nil>", "an answer when there is room")
	}
}

// short returns the body of a successful answer, and else its status.
func short(in *bufio.Reader) string {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return "error"
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode)
	}
	return string(body)
}

// TestFastPathTimes tests that connections that are idle, or that send nothing at all, are closed
// in time.
func TestFastPathTimes(t *testing.T) {
	t.Parallel()
	_, addr := serveFastPath(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") }),
		times{head: 2 * time.Second, idle: 3 * time.Second}, false)
	silent := dial(t, addr)
	var (
		in    *bufio.Reader
		begun time.Time
		said  string
	)
	for range 20 { // a slow machine may need longer than the time for a head
		begun = time.Now()
		idle := dial(t, addr)
		_, _ = io.WriteString(idle, ask("/", ""))
		in = bufio.NewReader(idle)
		if said = short(in); said == "x" {
			break
		}
	}
	assert.Equal(t, said, "x", "an answer")
	_, err := silent.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF, "the silent one")
	_, err = in.ReadByte()
	assert.ErrorIs(t, err, io.EOF, "the idle one")
	assert.True(t, time.Since(begun) >= 2900*time.Millisecond, "the idle one was closed after %v", time.Since(begun))
}

// TestFastPathHalfClosed tests that a client that ends its side with its last request gets the
// answer and then the end of the connection, not only once that was idle for long. The request and
// the end arrive while the fast path is busy, so it hears of both at once.
func TestFastPathHalfClosed(t *testing.T) {
	t.Parallel()
	in, out := make(chan struct{}, 2), make(chan struct{})
	_, addr := serveFastPath(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		in <- struct{}{}
		<-out
		fmt.Fprint(w, "x")
	}), times{idle: time.Hour}, false)
	c := dial(t, addr)
	_, _ = io.WriteString(c, ask("/", ""))
	<-in
	_, _ = io.WriteString(c, ask("/", ""))
	half, ok := c.(*net.TCPConn)
	assert.True(t, ok, "a TCP connection")
	assert.NoError(t, half.CloseWrite(), "CloseWrite")
	close(out)
	reader := bufio.NewReader(c)
	assert.Equal(t, short(reader)+short(reader), "xx", "the answers")
	_, err := reader.ReadByte()
	assert.ErrorIs(t, err, io.EOF, "the end")
}

// TestFastPathShutdown tests that idle connections end, that running requests finish with an answer
// that closes the connection, and that nothing new is accepted.
func TestFastPathShutdown(t *testing.T) {
	t.Parallel()
	in, out := make(chan struct{}), make(chan struct{})
	s, addr := serveFastPath(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			in <- struct{}{}
			<-out
		}
		fmt.Fprint(w, "done")
	}), times{}, false)
	idle, busy := dial(t, addr), dial(t, addr)
	_, _ = io.WriteString(idle, ask("/", ""))
	reader := bufio.NewReader(idle)
	assert.Equal(t, short(reader), "done", "an answer")
	_, _ = io.WriteString(busy, ask("/slow", ""))
	<-in
	given, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, s.Shutdown(given), context.Canceled, "a shutdown without patience")
	_, err := reader.ReadByte()
	assert.ErrorIs(t, err, io.EOF, "the idle connection")
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(t.Context()) }()
	close(out)
	assert.True(t, strings.Contains(heard(bufio.NewReader(busy)), `"done" <nil> close true`), "the running request")
	assert.NoError(t, <-ended, "shutdown")
	_, err = net.Dial("tcp", addr)
	assert.True(t, err != nil, "nobody listens")
}

// TestFastPathHangUp tests that a handler learns that its client has gone.
func TestFastPathHangUp(t *testing.T) {
	t.Parallel()
	in, gone := make(chan struct{}), make(chan error, 1)
	_, addr := serveFastPath(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(in)
		<-r.Context().Done()
		gone <- r.Context().Err()
	}), times{}, false)
	c := dial(t, addr)
	_, _ = io.WriteString(c, ask("/", ""))
	<-in
	_ = c.Close()
	select {
	case err := <-gone:
		assert.ErrorIs(t, err, context.Canceled, "the request's context")
	case <-time.After(3 * time.Minute):
		t.Fatal("the handler waits for ever")
	}
}

// TestFastPathSlowReader tests that a client that does not read its answer is cut off: at the
// deadline of the handler, and else at that of the server.
func TestFastPathSlowReader(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]times{"handler": {}, "server": {write: 100 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, failed := make(chan struct{}), make(chan error, 1)
			s, addr := serveFastPath(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if limits.write == 0 {
					_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
				}
				close(begun)
				var err error
				for err == nil {
					_, err = w.Write(make([]byte, 1<<20))
				}
				failed <- err
			}), limits, false)
			_, _ = io.WriteString(dial(t, addr), ask("/", ""))
			<-begun
			// Shutdown does not end the watch over running requests
			go func() { _ = s.Shutdown(t.Context()) }()
			select {
			case err := <-failed:
				assert.ErrorIs(t, err, errClientGone, "a write")
			case <-time.After(3 * time.Minute):
				t.Fatal("the handler writes for ever")
			}
		})
	}
}
