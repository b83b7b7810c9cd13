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
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestLateAnswersThatPanic tests that a hook that panics over an answer without a client puts the
// key in doubt, and ends nothing else.
func TestLateAnswersThatPanic(t *testing.T) {
	t.Parallel()
	u, answer := slow(t, "", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
	o := &gateway.Options{Upstreams: []string{"http://" + u.addr}, TimeoutAnswer: 2 * time.Second}
	o.Guard.Answer.Classify = func(int, http.Header) retrysafe.Outcome { panic("a hook") }
	log := new(lockedBuffer)
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
	assert.Equal(t, first(t, base, "k"), "504 outcome-unknown", "the first")
	close(answer)
	assert.Equal(t, becomes(t, base, "k"), "409 outcome-unknown", "a repeat")
	for end := time.Now().Add(3 * time.Minute); !strings.Contains(log.String(), "could not be kept"); <-time.After(time.Millisecond) {
		// the doubt is reported before
		assert.True(t, time.Now().Before(end), "the log: %s", log)
	}
}

// TestTimeoutsThatPanic tests that the attempt continues and ends if the answer to the client
// panics.
func TestTimeoutsThatPanic(t *testing.T) {
	t.Parallel()
	u, answer := slow(t, "", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
	var panicked atomic.Bool
	o := &gateway.Options{Upstreams: []string{"http://" + u.addr}, TimeoutAnswer: 2 * time.Second}
	o.Guard.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		if !panicked.Swap(true) {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusConflict)
	}
	e := newEngine(t, memstore.New(nil), retrysafe.Policy{})
	base := serve(t, e, o)
	for end := time.Now().Add(3 * time.Minute); u.effects.Load() == 0; {
		// a slow machine may not send in time
		panicked.Store(false)
		assert.Equal(t, told(t, base, "POST", "k", "x"), "error", "the first")
		assert.True(t, time.Now().Before(end), "the request is sent")
	}
	close(answer)
	for end := time.Now().Add(3 * time.Minute); told(t, base, "POST", "k", "x") != "201"; {
		assert.True(t, time.Now().Before(end), "the late answer is kept")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	assert.NoError(t, e.Shutdown(ctx), "nothing lives on")
}

// TestClientsCannotTakeUpstreamsOut tests that requests that net/http itself refuses do not count
// against the service, and that trailers of clients are not passed on.
func TestClientsCannotTakeUpstreamsOut(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 10)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen <- r.Trailer
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(up.Close)
	e := newEngine(t, memstore.New(nil), retrysafe.Policy{})
	g, base := serveGateway(t, e, &gateway.Options{Upstreams: []string{up.URL}})
	admin := gateway.Admin(gateway.NewLive(g), e, nil)
	for i, names := range []string{"a b", "Idempotency-Fence, X-User", "X-Sum"} {
		for _, key := range []string{"", fmt.Sprintf("Idempotency-Key: a-key-of-more-than-22-characters-%d\r\n", i)} {
			c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			assert.NoError(t, err, "dial")
			_, _ = io.WriteString(c, "POST /orders HTTP/1.1\r\nHost: x\r\n"+key+"Transfer-Encoding: chunked\r\nTrailer: "+names+
				"\r\n\r\n1\r\nx\r\n0\r\nIdempotency-Fence: 999\r\nX-User: root\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			assert.NoError(t, err, "answer")
			_ = c.Close()
			assert.Equal(t, resp.StatusCode, 201, "trailers %s, %q", names, key)
			assert.Equal(t, len(<-seen), 0, "trailers %s, %q at the service", names, key)
			status, said := ask(t, admin, "/readyz")
			assert.Equal(t, status, 200, "readyz: %s", said)
		}
	}
}

// TestTimeoutBeforeAnythingIsSent tests a service that accepts a connection and never completes the
// handshake: it has received nothing, so the key is free.
func TestTimeoutBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	t.Cleanup(func() { _ = l.Close() })
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{
		Upstreams: []string{"https://" + l.Addr().String()}, TimeoutAnswer: 300 * time.Millisecond,
	})
	for _, body := range []string{"", "x"} {
		for range 2 {
			assert.Equal(t, told(t, base, "POST", "k"+body, body), "503 upstream-unreachable 1", "body %q", body)
		}
	}
}

// TestStreamsBothWays tests that an unguarded request passes while it is being sent, over HTTP/2 on
// both sides.
func TestStreamsBothWays(t *testing.T) {
	t.Parallel()
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		rc := http.NewResponseController(w)
		_ = rc.Flush()
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(w, "echo "+line)
			_ = rc.Flush()
		}
	}))
	up.EnableHTTP2 = true
	up.StartTLS()
	t.Cleanup(up.Close)
	pool := up.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:errcheck,forcetypeassert // httptest makes it
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{up.URL}, UpstreamCAs: pool})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	body, say := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", base+"/stream", body)
	assert.NoError(t, err, "request")
	resp, err := transport.RoundTrip(r)
	assert.NoError(t, err, "answer")
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for i := range 3 {
		_, _ = fmt.Fprintf(say, "line %d\n", i)
		line, err := in.ReadString('\n')
		assert.Equal(t, fmt.Sprint(line, err), fmt.Sprintf("echo line %d\n<nil>", i), "what came back")
	}
	_ = say.Close()
	_, err = in.ReadString('\n')
	assert.ErrorIs(t, err, io.EOF, "the end")
}

// TestAttemptsOfOthers tests a gateway inside another middleware: it proxies what it does not
// guard, and does not treat the outer attempt as its own.
func TestAttemptsOfOthers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	e := newEngine(t, memstore.New(nil), retrysafe.Policy{})
	o := &gateway.Options{Upstreams: []string{n.URL}, Logger: slog.New(slog.DiscardHandler), Guard: httpidem.Options{Key: httpidem.Off}}
	g, err := gateway.New(e, o)
	assert.NoError(t, err, "gateway")
	t.Cleanup(func() { _ = g.Close() })
	outer := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.ServeHTTP(w, r)
		a, _ := retrysafe.AttemptFrom(r.Context())
		assert.True(t, !a.Ended(), "the outer attempt lives")
	}))
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/orders", strings.NewReader("x"))
	r.Header.Set("Idempotency-Key", "k")
	outer.ServeHTTP(w, r)
	assert.Equal(t, w.Code, 201, "answer")
}

// TestChunkedEndsTheConnection tests that after a request with Transfer-Encoding, with or without a
// Content-Length, nothing more is read from its connection, guarded or not, and that the stored
// answer does not close the connections of others.
func TestChunkedEndsTheConnection(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(service.Close)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{service.URL}})
	const key = "Idempotency-Key: \"a-key-of-22-characters\"\r\n"
	for _, fields := range []string{"", "Content-Length: 5\r\n", key, key + "Content-Length: 5\r\n"} {
		before := seen.Load()
		c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		assert.NoError(t, err, "dial")
		_, err = io.WriteString(c, "POST /s HTTP/1.1\r\nHost: x\r\n"+fields+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
		assert.NoError(t, err, "write")
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
		got, err := io.ReadAll(c)
		assert.True(t, err == nil || !errors.Is(err, os.ErrDeadlineExceeded), "the connection stays open after %q", fields)
		assert.Equal(t, strings.Count(string(got), "HTTP/1.1 "), 1, "answers to %q: %s", fields, got)
		assert.True(t, seen.Load() <= before+1, "the service has seen what was smuggled")
		_ = c.Close()
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/s", nil)
	assert.NoError(t, err, "request")
	r.Header.Set("Idempotency-Key", `"a-key-of-22-characters"`)
	resp, err := http.DefaultClient.Do(r)
	assert.NoError(t, err, "a repeat")
	_ = resp.Body.Close()
	assert.Equal(t, fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Idempotency-Replayed"), " ", resp.Close), "201 true false", "a repeat without chunks")
}

// TestMethodsThatAreNoTokens tests that a method with spaces, which clients of HTTP/2 can send,
// does not reach a service of HTTP/1.1: it would read another request than the guard.
func TestMethodsThatAreNoTokens(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
	g, err := gateway.New(newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{"http://" + u.addr}})
	assert.NoError(t, err, "gateway")
	t.Cleanup(func() { _ = g.Close() })
	for _, method := range []string{"POST /PAY HTTP/1.1", "POST\t/PAY", "POST ", "TRACE ", "CONNECT H:443", "(POST)"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/orders", strings.NewReader("x"))
		r.Method = method
		g.ServeHTTP(w, r)
		assert.Equal(t, w.Code, 400, "%q", method)
	}
	assert.Equal(t, u.conns.Load(), int64(0), "connections to the service")
}
