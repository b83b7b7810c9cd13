package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// resting serves paths that answer at once, never, in part, or as a stream that pauses.
func resting(t *testing.T, rest time.Duration) string {
	t.Helper()
	u := newRawUpstream(t, func(c net.Conn, r *http.Request, _ int) bool {
		wait := func(d time.Duration) bool {
			select {
			case <-time.After(d):
				return true
			case <-t.Context().Done():
				return false
			}
		}
		switch r.URL.Path {
		case "/never":
			wait(time.Hour)
			return false
		case "/part":
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			wait(time.Hour)
			return false
		case "/stream":
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
			if !wait(rest) {
				return false
			}
			_, _ = io.WriteString(c, "4\r\nhalf\r\n0\r\n\r\n")
			return true
		}
		return ok(c)
	})
	return "http://" + u.addr
}

// TestQuietExchanges tests that an unguarded exchange that makes no progress is ended, and that a
// stream may pause for any time.
func TestQuietExchanges(t *testing.T) {
	t.Parallel()
	const quiet = 500 * time.Millisecond
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{
		Upstreams: []string{resting(t, 4*quiet)}, QuietTime: quiet, Guard: httpidem.Options{Limit: httpidem.LimitOptions{BodyTime: time.Minute}},
	})
	for _, http2 := range []bool{false, true} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(!http2)
		transport.Protocols.SetUnencryptedHTTP2(http2)
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport, Timeout: 2 * time.Minute}
		for path, want := range map[string]string{
			"/never": "504 The service did not answer.\n false", "/stream": "200 halfhalf false", "/at-once": "201 done false",
			"/part": "200 half true", // it never ends
		} {
			// On a slow machine any exchange may be quiet for that long before its answer begins.
			slow := []string{"504 The service did not answer.\n false", "200  true"}
			got := ""
			for end := time.Now().Add(2 * time.Minute); got == "" || got != want && slices.Contains(slow, got) && time.Now().Before(end); {
				resp, err := client.Get(base + path)
				assert.NoError(t, err, "%s, HTTP/2 %v", path, http2)
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				got = fmt.Sprint(resp.StatusCode, " ", string(body), " ", err != nil)
			}
			assert.Equal(t, got, want, "%s, HTTP/2 %v", path, http2)
		}
		resp, err := client.Post(base+"/never", "text/plain", strings.NewReader("a body"))
		assert.NoError(t, err, "a body that nobody reads")
		_ = resp.Body.Close()
		assert.Equal(t, resp.StatusCode, http.StatusGatewayTimeout, "a body that nobody reads")
	}
}

// TestSlowBodies tests that a slow body is refused, guarded or not, and that one that arrives fast
// enough is awaited.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	const bodyTime = 500 * time.Millisecond
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}))
	t.Cleanup(service.Close)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{
		Upstreams: []string{service.URL}, Guard: httpidem.Options{Limit: httpidem.LimitOptions{BodyTime: bodyTime}},
	})
	addr := strings.TrimPrefix(base, "http://")
	dial := func(head string) net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		assert.NoError(t, err, "dial")
		t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, "POST /x HTTP/1.1\r\nHost: x\r\n"+head+"\r\n\r\n")
		assert.NoError(t, err, "write")
		return c
	}
	answer := func(c net.Conn) string {
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err.Error()
		}
		body, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(body))
	}
	drip := dial("Content-Length: 100000")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			_, _ = io.WriteString(drip, "a")
			<-time.After(50 * time.Millisecond)
		}
	}()
	assert.Equal(t, answer(drip), "408 The request came too slowly. It may have reached the service in part.\n", "a drip")

	c := dial("Transfer-Encoding: chunked") // of unknown length: it may be a stream
	_, _ = io.WriteString(c, "1\r\na\r\n")
	<-time.After(3 * bodyTime)
	_, _ = io.WriteString(c, "1\r\na\r\n0\r\n\r\n")
	assert.Equal(t, answer(c), "200 2 <nil>", "a stream that rests")

	got := ""
	// A slow machine may need longer for the first byte.
	for end := time.Now().Add(2 * time.Minute); got == "" || strings.HasPrefix(got, "408 ") && time.Now().Before(end); {
		whole := dial("Content-Length: 600000")
		go func() { _, _ = io.WriteString(whole, strings.Repeat("a", 600000)) }()
		got = answer(whole)
	}
	assert.Equal(t, got, "200 600000 <nil>", "a body that comes")
}

// TestClientsThatDoNotRead tests that a client that requests much and reads nothing is cut off,
// also without a guard, and that one that reads gets everything.
func TestClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	cut := make(chan error, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		for sent := 0; sent < size && err == nil; sent += 32 << 10 {
			_, err = w.Write(make([]byte, 32<<10))
		}
		if r.URL.Path == "/left" {
			cut <- err
		}
	}))
	t.Cleanup(service.Close)
	front := func(clientTime time.Duration) string {
		return serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{
			Upstreams: []string{service.URL}, ClientTime: clientTime, Guard: httpidem.Options{Limit: httpidem.LimitOptions{BodyTime: time.Minute}},
		})
	}
	// the machine may stop the client that reads for a second
	base, patient := front(time.Second), front(time.Minute)
	for _, http2 := range []bool{false, true} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(!http2)
		transport.Protocols.SetUnencryptedHTTP2(http2)
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport, Timeout: 5 * time.Minute}
		resp, err := client.Get(base + "/left")
		assert.NoError(t, err, "the head")
		select {
		case err := <-cut:
			assert.True(t, err != nil, "HTTP/2 %v: the service wrote all", http2)
		case <-time.After(2 * time.Minute):
			t.Errorf("HTTP/2 %v: the service waits for a client that does not read", http2)
		}
		_ = resp.Body.Close()
		resp, err = client.Get(patient + "/read")
		assert.NoError(t, err, "the head")
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		assert.True(t, n == size && err == nil, "HTTP/2 %v: %d bytes, %v", http2, n, err)
	}
}
