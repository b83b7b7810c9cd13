package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var allMethods = []string{"POST", "PATCH", "PUT", "DELETE"}

func before(t *testing.T, u *rawUpstream, p retrysafe.Policy, timeout time.Duration) string {
	t.Helper()
	return serve(t, newEngine(t, memstore.New(nil), p), &gateway.Options{
		Upstreams: []string{"http://" + u.addr}, TimeoutAnswer: timeout, Guard: httpidem.Options{Request: httpidem.RequestOptions{Methods: allMethods}},
	})
}

// TestSentAtMostOnce is the main test of H15: the upstream acts and then closes the connection, a
// new or a reused one. net/http's Transport would send the request again and report success.
func TestSentAtMostOnce(t *testing.T) {
	t.Parallel()
	for _, method := range allMethods {
		for _, body := range []string{"", "a body"} {
			for _, end := range []string{"close", "reset"} {
				for _, conn := range []string{"fresh", "reused"} {
					t.Run(fmt.Sprintf("%s body %q %s %s", method, body, end, conn), func(t *testing.T) {
						t.Parallel()
						u := newRawUpstream(t, func(c net.Conn, r *http.Request, _ int) bool {
							if r.Header.Get("Idempotency-Key") == "warm-up" {
								return ok(c)
							}
							return end == "reset" && reset(c)
						})
						base := before(t, u, retrysafe.Policy{}, 0)
						if conn == "reused" {
							resp, _, err := send(t, base, "POST", "warm-up", "x")
							assert.NoError(t, err, "warm-up")
							assert.Equal(t, resp.StatusCode, 201, "warm-up")
							u.effects.Store(0)
						}
						assert.Equal(t, told(t, base, method, "k", body), "502 outcome-unknown", "the first")
						assert.Equal(t, told(t, base, method, "k", body), "409 outcome-unknown", "a repeat")
						assert.Equal(t, u.effects.Load(), int64(1), "effects")
					})
				}
			}
		}
	}
}

// TestReuse tests that requests with a body use kept connections; otherwise the tests above would
// prove little.
func TestReuse(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
	base := before(t, u, retrysafe.Policy{}, 0)
	u.shared(t, 5, func(i int) {
		assert.Equal(t, told(t, base, "POST", fmt.Sprint("k", i), "x"), "201", "request %d", i)
	})
}

// TestEmptyBodiesHaveALength tests the Content-Length, since old servers reject an empty body in
// chunks.
func TestEmptyBodiesHaveALength(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
	base := before(t, u, retrysafe.Policy{}, 0)
	for _, m := range []string{"POST", "PATCH", "PUT"} {
		assert.Equal(t, told(t, base, m, "k", ""), "201", "%s", m)
	}
	for _, head := range u.head {
		assert.Contains(t, head, "\r\nContent-Length: 0\r\n", "request")
		assert.True(t, !strings.Contains(head, "chunked"), "request: %s", head)
	}
}

// TestStrangeUpstreams tests the exact answer for each upstream, and that there is one effect
// whatever the client does next.
func TestStrangeUpstreams(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n"
	say := func(text string) exchange {
		return func(c net.Conn, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(c, text)
			return false
		}
	}
	for name, tt := range map[string]struct {
		do    exchange
		first string
	}{
		"garbage":               {say("I am no HTTP server\r\n\r\n"), "502 outcome-unknown"},
		"a status that is none": {say("HTTP/1.1 abc Created\r\n\r\n"), "502 outcome-unknown"},
		"a bad field":           {say("HTTP/1.1 201 Created\r\nno colon\r\n\r\n"), "502 outcome-unknown"},
		"two lengths":           {say("HTTP/1.1 201 Created\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), "502 outcome-unknown"},
		"a head without end":    {say("HTTP/1.1 201 Created\r\nX: " + strings.Repeat("x", 300<<10)), "502 outcome-unknown"},
		"nothing, then closed":  {say(""), "502 outcome-unknown"},
		"half a head":           {say("HTTP/1.1 201 Cre"), "502 outcome-unknown"},
		"half a body":           {say(head + "half"), "502 outcome-unknown"},
		"half a chunk":          {say("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf"), "502 outcome-unknown"},
		"no last chunk":         {say("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"), "502 outcome-unknown"},
		"chunks of nonsense":    {say("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "502 outcome-unknown"},
		"resets in the body": {func(c net.Conn, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(c, head+"half")
			time.Sleep(50 * time.Millisecond)
			return reset(c)
		}, "502 outcome-unknown"},
		"a large answer is cut":   {say("HTTP/1.1 201 Created\r\nContent-Length: 3000000\r\n\r\n" + strings.Repeat("x", 2000000)), "error"},
		"events that break off":   {say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ndata: 1\r\n"), "error"},
		"an upgrade nobody asked": {say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), "502 outcome-unknown"},
	} {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, kept connection %t", name, kept), func(t *testing.T) {
				t.Parallel()
				u := newRawUpstream(t, func(c net.Conn, r *http.Request, n int) bool { return warms(r) && ok(c) || !warms(r) && tt.do(c, r, n) })
				base := before(t, u, retrysafe.Policy{}, 30*time.Second)
				if kept {
					u.warmUp(t, base)
				}
				assert.Equal(t, told(t, base, "POST", "k", "x"), tt.first, "the first")
				for range 2 {
					assert.Equal(t, told(t, base, "POST", "k", "x"), "409 outcome-unknown", "a repeat")
				}
				assert.Equal(t, u.effects.Load(), int64(1), "effects")
			})
		}
	}
}

// TestNotSent tests that a request that was not sent is released, and that the retry runs.
func TestNotSent(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{"http://" + addr}})
	for _, body := range []string{"x", ""} {
		for range 2 {
			assert.Equal(t, told(t, base, "POST", "k"+body, body), "503 upstream-unreachable 1", "while nobody listens")
		}
	}
	back, err := net.Listen("tcp", addr)
	assert.NoError(t, err, "listen again")
	defer back.Close()
	go func() {
		_ = http.Serve(back, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	}()
	for _, body := range []string{"x", ""} {
		assert.Equal(t, told(t, base, "POST", "k"+body, body), "201", "when the service is back")
	}
}

// TestStaleConnections tests an upstream that has closed a kept connection: if the gateway can tell
// that nothing was sent, it sends on another.
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 100)
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool {
		ok(c)
		_ = c.Close()
		closed <- struct{}{}
		return false
	})
	base := before(t, u, retrysafe.Policy{}, 0)
	for i := range 10 {
		answer := told(t, base, "POST", fmt.Sprint("k", i), "x")
		assert.True(t, answer == "201" || answer == "502 outcome-unknown" || answer == "503 upstream-unreachable 1", "answer: %s", answer)
		if answer == "201" {
			<-closed // the end of the connection can be noticed now
		}
	}
	assert.True(t, u.effects.Load() >= 9, "effects: %d", u.effects.Load())
}

// TestReexecuteIsLeftToLapse tests that no second run starts before the lease has expired, since
// the service may still be working.
func TestReexecuteIsLeftToLapse(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, n int) bool { return false })
	const lease = 4 * time.Second
	base := before(t, u, retrysafe.Policy{OnDoubt: retrysafe.Reexecute, Lease: lease}, 0)
	begun := time.Now()
	assert.Equal(t, first(t, base, "k"), "502 outcome-unknown", "the first")
	assert.Equal(t, becomes(t, base, "k"), "502 outcome-unknown", "after the lease it is sent again")
	assert.True(t, time.Since(begun) >= lease, "the lease was left to lapse: %v", time.Since(begun))
	assert.Equal(t, u.effects.Load(), int64(2), "effects")
}
