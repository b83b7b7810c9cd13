package gateway_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestTLSUpstream tests that over TLS too, a request that was sent and not answered is in doubt,
// and one that was not sent is released.
func TestTLSUpstream(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	var broken atomic.Bool
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		effects.Add(1)
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	up.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	up.StartTLS()
	t.Cleanup(up.Close)
	trust := x509.NewCertPool()
	trust.AddCert(up.Certificate())
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{up.URL}, UpstreamCAs: trust})
	assert.Equal(t, told(t, base, "POST", "good", "x"), "201", "a good answer")
	broken.Store(true)
	for _, body := range []string{"x", ""} {
		before := effects.Load()
		assert.Equal(t, told(t, base, "POST", "k"+body, body), "502 outcome-unknown", "body %q: sent and not answered", body)
		assert.Equal(t, told(t, base, "POST", "k"+body, body), "409 outcome-unknown", "body %q: a repeat", body)
		assert.Equal(t, effects.Load(), before+1, "body %q: effects", body)
	}

	// its certificate has the same key, and not the name localhost
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	var connections atomic.Int64
	stranger.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	stranger.Config.ErrorLog = up.Config.ErrorLog
	stranger.StartTLS()
	t.Cleanup(stranger.Close)
	wrong := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}),
		&gateway.Options{Upstreams: []string{strings.Replace(stranger.URL, "127.0.0.1", "localhost", 1)}, UpstreamCAs: trust})
	assert.Equal(t, told(t, wrong, "POST", "k", "x"), "503 upstream-unreachable 1", "a handshake that fails: nothing was sent")
	assert.True(t, connections.Load() > 0, "there was a handshake")
}

// TestSlowClients tests that an answer that the client reads slowly is not a late answer.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), size))
	}))
	t.Cleanup(up.Close)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{up.URL}, TimeoutAnswer: 15 * time.Second})
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	assert.NoError(t, err, "dial")
	defer conn.Close()
	assert.NoError(t, conn.(*net.TCPConn).SetReadBuffer(64<<10), "a small buffer") //nolint:errcheck,forcetypeassert // it is TCP
	_, err = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer opaque\r\nIdempotency-Key: k\r\nContent-Length: 1\r\n\r\nx")
	assert.NoError(t, err, "request")
	time.Sleep(16 * time.Second) // the buffers in between are full, and the client does not read
	n, err := io.Copy(io.Discard, conn)
	assert.NoError(t, err, "the answer")
	assert.True(t, n > size, "the client gets it whole: %d bytes", n)
	assert.Equal(t, told(t, base, "POST", "k", "x"), "409 answer-not-kept", "a repeat")
}

// TestCutAnswersUnderReexecute tests that the lease has to expire, since the service may still be
// working.
func TestCutAnswersUnderReexecute(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"small": "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhalf",
		"large": "HTTP/1.1 201 Created\r\nContent-Length: 3000000\r\n\r\n" + strings.Repeat("x", 2000000),
	} {
		u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(c, text)
			return false
		})
		base := before(t, u, retrysafe.Policy{OnDoubt: retrysafe.Reexecute, Lease: time.Minute}, 0)
		_, body, _ := send(t, base, "POST", "k", "x")
		if name == "small" {
			assert.Contains(t, body, "A retry with the same key runs it again", "%s: advice", name)
		}
		assert.Contains(t, told(t, base, "POST", "k", "x"), "409 in-progress", "%s: at once", name)
		assert.Equal(t, u.effects.Load(), int64(1), "%s: effects", name)
	}
}

// TestFieldsThatAClientTakesAway tests that naming a field in Connection does not remove the
// gateway's own fields.
func TestFieldsThatAClientTakesAway(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		w.Header().Set("Idempotency-Outcome", "executed")
	}))
	t.Cleanup(up.Close)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{up.URL}})
	for _, key := range []string{"k", ""} {
		resp, _, err := send(t, base, "POST", key, "x", "Connection", "X-Forwarded-For, X-Forwarded-Proto, Idempotency-Key, Idempotency-Fence",
			"Forwarded", "for=10.0.0.9", "X-Forwarded-Proto", "gopher", "Expect", "100-continue", "Idempotency-Stored", "x", "Idempotency-Outcome", "executed")
		assert.NoError(t, err, "request")
		h := <-seen
		assert.Equal(t, h.Get("X-Forwarded-For"), "127.0.0.1", "key %q: X-Forwarded-For", key)
		assert.Equal(t, h.Get("X-Forwarded-Proto"), "http", "key %q: X-Forwarded-Proto", key)
		assert.Equal(t, h.Get("Forwarded")+h.Get("Idempotency-Stored")+h.Get("Idempotency-Outcome"), "", "key %q: what clients may not say", key)
		assert.Equal(t, resp.Header.Get("Idempotency-Outcome"), "", "key %q: what stays between service and gateway", key)
		if key != "" {
			assert.Equal(t, h.Get("Idempotency-Key"), key, "the key")
			assert.NotEqual(t, h.Get("Idempotency-Fence"), "", "the fence")
		}
	}
}

// lockedBuffer is a log that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestLogsShowNoSecrets tests that logs contain no secrets, whatever the upstream and the client
// send.
func TestLogsShowNoSecrets(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, n int) bool {
		_, _ = io.WriteString(c, `{"card":"upstream-secret"}`+"\r\n\r\n")
		return false
	})
	log := new(lockedBuffer)
	o := &gateway.Options{Upstreams: []string{"http://" + u.addr}, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
	for _, key := range []string{"key-secret", ""} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", base+"/orders?q=query-secret", strings.NewReader("body-secret"))
		assert.NoError(t, err, "request")
		r.Header.Set("Authorization", "Bearer token-secret")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		resp, err := testclient.HTTP.Do(r)
		assert.NoError(t, err, "answer")
		_ = resp.Body.Close()
	}
	assert.True(t, strings.Count(log.String(), "\n") >= 2, "both are logged: %s", log)
	assert.True(t, !strings.Contains(log.String(), "secret"), "log: %s", log)
}

func TestOwnProblems(t *testing.T) {
	t.Parallel()
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{
		Upstreams: []string{"http://127.0.0.1:1"}, Guard: httpidem.Options{Docs: "https://docs.example/"},
	})
	_, body, err := send(t, base, "POST", "k", "x")
	assert.NoError(t, err, "request")
	assert.Contains(t, body, "https://docs.example/upstream-unreachable.md", "the page")
}

func TestTimesThatDoNotFit(t *testing.T) {
	t.Parallel()
	o := &gateway.Options{Upstreams: []string{"http://x"}, TimeoutAnswer: time.Minute, Guard: httpidem.Options{Policy: retrysafe.Policy{Lease: 2 * time.Second}}}
	err := o.Validate(retrysafe.Policy{})
	assert.True(t, err != nil && strings.Contains(err.Error(), "MaxRun"), "a request cannot wait longer than it may run: %v", err)
	err = (&gateway.Options{Upstreams: []string{"http://user:secret@x:1"}}).Validate(retrysafe.Policy{})
	assert.True(t, err != nil && !strings.Contains(err.Error(), "secret"), "the error shows no password: %v", err)
}

// TestQuietStreams tests that events with long pauses reach their client, over both versions of
// HTTP, as does a long answer that is not guarded.
func TestQuietStreams(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(2500 * time.Millisecond)
		}
	}))
	t.Cleanup(up.Close)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{
		Upstreams: []string{up.URL}, ClientTime: 2 * time.Second,
	})
	for _, http2 := range []bool{false, true} {
		for _, key := range []string{"", "k"} {
			t.Run(fmt.Sprintf("HTTP2 %v, key %q", http2, key), func(t *testing.T) {
				t.Parallel()
				transport := &http.Transport{Protocols: new(http.Protocols)}
				transport.Protocols.SetHTTP1(!http2)
				transport.Protocols.SetUnencryptedHTTP2(http2)
				r, err := http.NewRequestWithContext(t.Context(), "POST", base+"/orders", strings.NewReader("x"))
				assert.NoError(t, err, "request")
				r.Header.Set("Authorization", "Bearer opaque")
				if key != "" {
					r.Header.Set("Idempotency-Key", fmt.Sprint(key, http2))
				}
				resp, err := (&http.Client{Transport: transport}).Do(r)
				assert.NoError(t, err, "answer")
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				transport.CloseIdleConnections()
				assert.Equal(t, fmt.Sprint(strings.Count(string(body), "data"), err), "3 <nil>", "HTTP/2 %v, key %q", http2, key)
			})
		}
	}
}
