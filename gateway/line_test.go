package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestLinesAreKept tests that guarded requests share connections, with or without a body.
func TestLinesAreKept(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
	base := before(t, u, retrysafe.Policy{}, 0)
	u.shared(t, 10, func(i int) {
		assert.Equal(t, told(t, base, allMethods[i%4], fmt.Sprint("k", i), strings.Repeat("x", i%3)), "201", "request %d", i)
	})
}

// TestAnswersInPieces tests that an answer arrives whole, in whatever pieces and however slowly it
// comes, and that the connection can be reused.
func TestAnswersInPieces(t *testing.T) {
	t.Parallel()
	const pause = 250 * time.Millisecond
	large := "X-Large: " + strings.Repeat("x", 20<<10) + "\r\n"
	for name, pieces := range map[string][]string{
		"at once":                  {"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone"},
		"after a while":            {"", "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone"},
		"cut in the head":          {"HTTP/1.1 201 Cre", "ated\r\nContent-Le", "ngth: 4\r\n\r\ndone"},
		"cut before the body":      {"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\n", "done"},
		"cut in the body":          {"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndo", "n", "e"},
		"in chunks":                {"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ndo\r\n", "2\r\nne\r\n0\r\n\r\n"},
		"in chunks at once":        {"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndone\r\n0\r\n\r\n"},
		"with a large head":        {"HTTP/1.1 201 Created\r\n" + large + "Content-Length: 4\r\n\r\n", "done"},
		"after early hints":        {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone"},
		"after hints in one piece": {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool {
				for i, p := range pieces {
					if i > 0 {
						time.Sleep(pause)
					}
					if _, err := io.WriteString(c, p); err != nil {
						return false
					}
				}
				return true
			})
			base := before(t, u, retrysafe.Policy{}, 0)
			sent := int64(0)
			u.shared(t, 3, func(i int) {
				sent++
				for range 2 {
					resp, body, err := send(t, base, "POST", fmt.Sprint("k", i), "x")
					assert.NoError(t, err, "request")
					assert.Equal(t, fmt.Sprint(resp.StatusCode, " ", body), "201 done", "request %d", i)
				}
			})
			assert.Equal(t, u.effects.Load(), sent, "effects")
		})
	}
}

// TestAnswersThatEndTheConnection tests that such answers are stored, and that the next request
// uses another connection.
func TestAnswersThatEndTheConnection(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"said so":          "HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 4\r\n\r\ndone",
		"HTTP/1.0":         "HTTP/1.0 201 Created\r\nContent-Length: 4\r\n\r\ndone",
		"without a length": "HTTP/1.1 201 Created\r\nConnection: close\r\n\r\ndone",
	} {
		u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(c, answer)
			return false
		})
		base := before(t, u, retrysafe.Policy{}, 0)
		for i := range 4 {
			resp, body, err := send(t, base, "POST", fmt.Sprint("k", i), "x")
			assert.NoError(t, err, "%s: request", name)
			assert.Equal(t, fmt.Sprint(resp.StatusCode, " ", body), "201 done", "%s: request %d", name, i)
		}
		assert.Equal(t, u.conns.Load(), int64(4), "%s: connections", name)
	}
}

// TestWordsNobodyAskedFor tests that bytes that a service sends after an answer are not read as the
// answer to the next request.
func TestWordsNobodyAskedFor(t *testing.T) {
	t.Parallel()
	for name, stale := range map[string]string{
		"an answer": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale", "one without a body": "HTTP/1.1 204 No Content\r\n\r\n", "a byte": "H",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := make(chan struct{}, 100)
			u := newRawUpstream(t, func(c net.Conn, r *http.Request, _ int) bool {
				defer func() { said <- struct{}{} }()
				key := r.Header.Get("Idempotency-Key")
				_, _ = fmt.Fprintf(c, "HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(key), key)
				_, err := io.WriteString(c, stale)
				return err == nil
			})
			base := before(t, u, retrysafe.Policy{}, 0)
			for i := range 100 {
				key := fmt.Sprint("key-", i)
				resp, body, err := send(t, base, "POST", key, "x")
				assert.NoError(t, err, "request")
				assert.Equal(t, fmt.Sprint(resp.StatusCode, " ", body), "201 "+key, "request %d", i)
				<-said // the extra bytes have arrived before the next request
			}
		})
	}
}

// TestAnswersWithoutBodies tests that many answers without a body, whose connections are used again
// before their requests have ended, all reach their clients.
func TestAnswersWithoutBodies(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool {
		_, err := io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		return err == nil
	})
	base := before(t, u, retrysafe.Policy{}, 0)
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for n := range 50 {
				resp, body, err := send(t, base, "POST", fmt.Sprint("key-", i, "-", n), "x")
				if err != nil || resp.StatusCode != http.StatusNoContent {
					t.Errorf("an answer: %v %s", err, body)
					return
				}
			}
		})
	}
	all.Wait()
	assert.Equal(t, u.effects.Load(), int64(32*50), "effects")
}

// TestWhatTheServiceReads tests the request as it is sent, byte for byte.
func TestWhatTheServiceReads(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
	base := before(t, u, retrysafe.Policy{}, 0)
	resp, _, err := send(t, base, "PATCH", "k", "body", "X-Two", "a", "Content-Length", "999", "Transfer-Encoding", "chunked", "User-Agent", "")
	assert.NoError(t, err, "request")
	assert.Equal(t, resp.StatusCode, 201, "status")
	head := u.head[0]
	assert.True(t, strings.HasPrefix(head, "PATCH /orders HTTP/1.1\r\nHost: "+u.addr+"\r\n"), "the first lines: %q", head)
	for _, once := range []string{"\r\nContent-Length: 4\r\n", "\r\nX-Two: a\r\n", "\r\nIdempotency-Key: k\r\n", "\r\nIdempotency-Attempt: 1\r\n", "\r\nAccept-Encoding: identity\r\n", "\r\n\r\nbody"} {
		assert.Equal(t, strings.Count(head, once), 1, "%q in %q", once, head)
	}
	assert.Equal(t, strings.Count(head, "Content-Length"), 1, "one length")
	assert.True(t, !strings.Contains(head, "Transfer-Encoding") && !strings.Contains(head, "User-Agent"), "head: %q", head)
}

// TestServicesThatDoNotRead tests that the answer of a service that does not read a large request
// is read, and that a service that does nothing is given up in time.
func TestServicesThatDoNotRead(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	refuses := newRawServer(t, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 4<<10)) // the head, and a little of the body
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge")
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		<-never // a reset, since much is not read, could overtake the answer
		_ = c.Close()
	})
	o := &gateway.Options{Upstreams: []string{refuses}}
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
	for range 2 {
		resp, body, err := send(t, base, "POST", "k", large)
		assert.NoError(t, err, "request")
		assert.Equal(t, fmt.Sprint(resp.StatusCode, body), "413large", "an early answer")
	}
	deaf := newRawServer(t, func(c net.Conn) {
		<-never
		_ = c.Close()
	})
	o = &gateway.Options{Upstreams: []string{deaf}, TimeoutAnswer: 2 * time.Second}
	base = serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
	assert.Equal(t, told(t, base, "POST", "k", large), "504 outcome-unknown", "a service that is deaf")
}
