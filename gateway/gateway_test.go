package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for upstream, want := range map[string]string{
		"127.0.0.1:9000": "no http", "ftp://x": "no http", "http://": "with a host", "http://x/?a=b": "leave out", "http://u:p@x": "leave out", "http://%zz": "no http",
	} {
		err := (&gateway.Options{Upstreams: []string{upstream}}).Validate(retrysafe.Policy{})
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "upstream %q: %v", upstream, err)
	}
	assert.NoError(t, (&gateway.Options{Upstreams: []string{"https://x:1/base", "http://y"}}).Validate(retrysafe.Policy{}), "good ones")
	err := new(gateway.Options).Validate(retrysafe.Policy{})
	assert.True(t, err != nil && strings.Contains(err.Error(), "no upstream is given"), "none: %v", err)
	err = (&gateway.Options{Upstreams: []string{"http://x"}, Health: gateway.Health{Path: "health"}}).Validate(retrysafe.Policy{})
	assert.True(t, err != nil && strings.Contains(err.Error(), "begins with a slash"), "a health path: %v", err)
	_, err = gateway.New(retrysafe.New(memstore.New(nil), nil), &gateway.Options{Upstreams: []string{"http://x"}, TimeoutAnswer: -1})
	assert.True(t, err != nil, "a negative time")
}

// TestWhatTheUpstreamSees tests what the upstream gets of a guarded request and of one that is not
// guarded.
func TestWhatTheUpstreamSees(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		seen <- r
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header().Set("X-End", "1")
	}))
	defer up.Close()
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{up.URL + "/base"}})
	for _, key := range []string{`"quoted key";p=1`, ""} {
		resp, _, err := send(t, base, "POST", key, "body", "Idempotency-Attempt", "7", "Idempotency-Fence", "9", "Idempotency-Replayed", "true",
			"X-Forwarded-For", "10.0.0.1", "Connection", "X-Mine", "X-Mine", "hop", "X-Other", "kept")
		assert.NoError(t, err, "request")
		r := <-seen
		assert.Equal(t, r.URL.Path, "/base/orders", "path")
		assert.Equal(t, r.Host, strings.TrimPrefix(up.URL, "http://"), "host")
		assert.Equal(t, r.Header.Get("X-Forwarded-Host"), strings.TrimPrefix(base, "http://"), "the client's host")
		assert.Equal(t, r.Header.Get("Idempotency-Key"), key, "the key, as the client sent it")
		assert.Equal(t, r.Header.Get("Authorization"), "Bearer opaque", "credential")
		assert.Equal(t, r.Header.Get("X-Other"), "kept", "an end-to-end field")
		assert.Equal(t, r.Header.Get("X-Mine"), "", "a field of the client's connection")
		assert.Equal(t, r.Header.Get("X-Forwarded-For"), "10.0.0.1, 127.0.0.1", "X-Forwarded-For")
		assert.Equal(t, r.Header.Get("Idempotency-Replayed"), "", "what only the gateway may say")
		assert.Equal(t, resp.Header.Get("X-End")+resp.Header.Get("X-Hop"), "1", "fields of the answer")
		if key == "" {
			assert.Equal(t, r.Header.Get("Idempotency-Attempt")+r.Header.Get("Idempotency-Fence"), "", "an unguarded request has no attempt")
			continue
		}
		assert.Equal(t, r.Header.Get("Idempotency-Attempt"), "1", "attempt")
		fence, err := strconv.ParseUint(r.Header.Get("Idempotency-Fence"), 10, 64)
		assert.True(t, err == nil && fence > 1e15, "fence: %d, %v", fence, err)
		assert.Equal(t, r.ContentLength, int64(4), "length")
	}
}

// TestNotGuarded tests that everything else passes as through any proxy.
func TestNotGuarded(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stream":
			rc := http.NewResponseController(w)
			_, _ = io.WriteString(w, "first\n")
			_ = rc.Flush()
			<-r.Context().Done()
		case "/upgrade":
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = buf.Flush()
			line, _ := buf.ReadString('\n')
			_, _ = buf.WriteString("echo " + line)
			_ = buf.Flush()
		default:
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %s %d", r.Method, r.URL.RequestURI(), len(body))
		}
	}))
	t.Cleanup(up.Close)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{up.URL}, Upgrades: []string{"echo"}})

	t.Run("large bodies", func(t *testing.T) {
		t.Parallel()
		resp, body, err := send(t, base, "PUT", "", strings.Repeat("x", 5<<20))
		assert.NoError(t, err, "request")
		assert.Equal(t, fmt.Sprint(resp.StatusCode, body), fmt.Sprint(200, "PUT /orders ", 5<<20), "answer")
	})
	t.Run("streams", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "GET", base+"/stream", nil)
		resp, err := testclient.HTTP.Do(r)
		assert.NoError(t, err, "request")
		defer resp.Body.Close()
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		assert.NoError(t, err, "read")
		assert.Equal(t, line, "first\n", "it comes before the end")
	})
	t.Run("upgrades", func(t *testing.T) {
		t.Parallel()
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		assert.NoError(t, err, "dial")
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		assert.NoError(t, err, "answer")
		defer resp.Body.Close()
		assert.Equal(t, resp.StatusCode, 101, "status")
		_, _ = io.WriteString(conn, "hello\n")
		line, _ := in.ReadString('\n')
		assert.Equal(t, line, "echo hello\n", "what came back")
	})
}

func TestNotGuardedWithoutUpstream(t *testing.T) {
	t.Parallel()
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{"http://127.0.0.1:1"}})
	resp, body, err := send(t, base, "PUT", "", "x")
	assert.NoError(t, err, "request")
	assert.Equal(t, resp.StatusCode, 502, "status (%s)", body)
}

// TestTargetsThatAreNoPath tests that a request line that the service would read differently from
// the gateway is not passed on.
func TestTargetsThatAreNoPath(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
	base := before(t, u, retrysafe.Policy{}, 0)
	for target, want := range map[string]int{"http:orders/1": 400, "http://x/orders": 201} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		assert.NoError(t, err, "dial")
		_, err = io.WriteString(conn, "POST "+target+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer opaque\r\nIdempotency-Key: k\r\nContent-Length: 1\r\n\r\nx")
		assert.NoError(t, err, "request")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		assert.NoError(t, err, "answer")
		_ = resp.Body.Close()
		_ = conn.Close()
		assert.Equal(t, resp.StatusCode, want, "target %s", target)
	}
	assert.Equal(t, u.effects.Load(), int64(1), "effects")
}
