package http_test

import (
	"bytes"
	"crypto/tls"
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

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// rawHTTP2 is a service that speaks HTTP/2 frame by frame, and ends requests as the test says.
type rawHTTP2 struct {
	url     string
	trust   *x509.CertPool
	effects atomic.Int64
	conns   atomic.Int64
	seen    atomic.Int64 // requests, whole or refused
	end     atomic.Pointer[func(f *http2.Framer, stream uint32) (more bool)]
}

// newRawHTTP2 starts the service, which offers the given protocols.
func newRawHTTP2(t *testing.T, protocols ...string) *rawHTTP2 {
	t.Helper()
	// Use the certificate of a test server, so that this test need not make one.
	lender := httptest.NewTLSServer(http.NotFoundHandler())
	lender.Close()
	u := &rawHTTP2{trust: x509.NewCertPool()}
	u.trust.AddCert(lender.Certificate())
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: lender.TLS.Certificates, NextProtos: protocols, MinVersion: tls.VersionTLS12})
	assert.NoError(t, err, "listen")
	u.url = "https://" + l.Addr().String()
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			all.Go(func() { u.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return u
}

func (u *rawHTTP2) serve(c net.Conn) {
	defer c.Close()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	u.conns.Add(1)
	f := http2.NewFramer(c, c)
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch x := frame.(type) {
		case *http2.SettingsFrame:
			if !x.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			_ = f.WritePing(true, x.Data)
		case *http2.HeadersFrame:
			if !x.StreamEnded() {
				continue
			}
			if !u.ended(f, x.StreamID) {
				return
			}
		case *http2.DataFrame:
			if x.StreamEnded() && !u.ended(f, x.StreamID) {
				return
			}
		}
	}
}

func (u *rawHTTP2) ended(f *http2.Framer, stream uint32) bool {
	u.seen.Add(1)
	return (*u.end.Load())(f, stream)
}

func (u *rawHTTP2) ends(end func(f *http2.Framer, stream uint32) bool) { u.end.Store(&end) }

// acts has the effect and answers 201.
func (u *rawHTTP2) acts(f *http2.Framer, stream uint32) bool {
	u.effects.Add(1)
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "201"})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
	return true
}

// beforeHTTP2 starts a gateway. The returned function sends a guarded request through it, and
// returns status and code.
func beforeHTTP2(t *testing.T, u *rawHTTP2) func(key, body string) string {
	t.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	g, err := gateway.New(e, &gateway.Options{Upstreams: []string{u.url}, UpstreamCAs: u.trust, Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err, "gateway")
	front := httptest.NewServer(g)
	t.Cleanup(func() { front.Close(); _ = g.Close() })
	return func(key, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", front.URL+"/orders", strings.NewReader(body))
		assert.NoError(t, err, "request")
		r.Header = http.Header{"Idempotency-Key": {key}, "Authorization": {"Bearer opaque"}}
		resp, err := front.Client().Do(r)
		assert.NoError(t, err, "answer")
		defer resp.Body.Close()
		said, _ := io.ReadAll(resp.Body)
		_, code, _ := strings.Cut(string(said), `"code":"`)
		code, _, _ = strings.Cut(code, `"`)
		return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", code))
	}
}

// TestHTTP2Upstream: if the service says that it has not processed a stream, the key is released.
// Anything else without an answer is in doubt, and nothing is sent twice. net/http's client would
// send again after PROTOCOL_ERROR.
func TestHTTP2Upstream(t *testing.T) {
	t.Parallel()
	reset := func(code http2.ErrCode) func(*rawHTTP2) func(*http2.Framer, uint32) bool {
		return func(u *rawHTTP2) func(*http2.Framer, uint32) bool {
			return func(f *http2.Framer, stream uint32) bool {
				if code != http2.ErrCodeRefusedStream {
					u.effects.Add(1)
				}
				_ = f.WriteRSTStream(stream, code)
				return true
			}
		}
	}
	for name, tt := range map[string]struct {
		end          func(*rawHTTP2) func(*http2.Framer, uint32) bool
		first, again string
		effects      int64 // after the first request, and a duplicate when the service is healthy
	}{
		"refused":        {reset(http2.ErrCodeRefusedStream), "503 upstream-unreachable", "201", 1},
		"protocol error": {reset(http2.ErrCodeProtocol), "502 outcome-unknown", "409 outcome-unknown", 1},
		"internal error": {reset(http2.ErrCodeInternal), "502 outcome-unknown", "409 outcome-unknown", 1},
		"cancelled":      {reset(http2.ErrCodeCancel), "502 outcome-unknown", "409 outcome-unknown", 1},
		"closed": {func(u *rawHTTP2) func(*http2.Framer, uint32) bool {
			return func(*http2.Framer, uint32) bool { u.effects.Add(1); return false }
		}, "502 outcome-unknown", "409 outcome-unknown", 1},
		"gone away after it was taken": {func(u *rawHTTP2) func(*http2.Framer, uint32) bool {
			return func(f *http2.Framer, stream uint32) bool {
				u.effects.Add(1)
				_ = f.WriteGoAway(stream, http2.ErrCodeNo, nil)
				return false
			}
		}, "502 outcome-unknown", "409 outcome-unknown", 1},
	} {
		for _, body := range []string{"", "body"} {
			for _, warm := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, body %q, warm %v", name, body, warm), func(t *testing.T) {
					t.Parallel()
					u := newRawHTTP2(t, "h2")
					post := beforeHTTP2(t, u)
					if warm {
						u.ends(u.acts)
						assert.Equal(t, post("warm-up", "x"), "201", "warm-up")
						u.effects.Store(0)
					}
					u.ends(tt.end(u))
					assert.Equal(t, post("k", body), tt.first, "the first")
					u.ends(u.acts)
					assert.Equal(t, post("k", body), tt.again, "a repeat, when the service is well")
					assert.Equal(t, u.effects.Load(), tt.effects, "effects")
				})
			}
		}
	}
}

// TestHTTP2GoAway: a service that sends GOAWAY with a lower stream id has not processed the
// request, which is then sent on a new connection.
func TestHTTP2GoAway(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "body"} {
		u := newRawHTTP2(t, "h2")
		post := beforeHTTP2(t, u)
		u.ends(u.acts)
		assert.Equal(t, post("warm-up", "x"), "201", "warm-up")
		var once atomic.Bool
		u.ends(func(f *http2.Framer, stream uint32) bool {
			if once.Swap(true) {
				return u.acts(f, stream)
			}
			_ = f.WriteGoAway(stream-2, http2.ErrCodeNo, nil)
			return false
		})
		assert.Equal(t, post("k", body), "201", "body %q: the request", body)
		assert.Equal(t, u.effects.Load(), int64(2), "body %q: effects", body)
		assert.Equal(t, u.conns.Load(), int64(2), "body %q: connections", body)
	}
}

// TestHTTP2IsShared: HTTP/2 requests share a connection, and one that fails does not harm the
// others.
func TestHTTP2IsShared(t *testing.T) {
	t.Parallel()
	u := newRawHTTP2(t, "h2", "http/1.1")
	post := beforeHTTP2(t, u)
	u.ends(u.acts)
	assert.Equal(t, post("warm-up", "x"), "201", "warm-up")
	u.ends(func(f *http2.Framer, stream uint32) bool {
		if stream%4 == 1 {
			_ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
			return true
		}
		return u.acts(f, stream)
	})
	var all sync.WaitGroup
	var good, refused atomic.Int64
	for i := range 40 {
		all.Go(func() {
			switch post(fmt.Sprint("k", i), "x") {
			case "201":
				good.Add(1)
			case "503 upstream-unreachable":
				refused.Add(1)
			}
		})
	}
	all.Wait()
	assert.Equal(t, good.Load()+refused.Load(), int64(40), "each is answered or given back")
	assert.Equal(t, good.Load(), u.effects.Load()-1, "effects")
	assert.Equal(t, u.conns.Load(), int64(1), "connections")
}

// TestHTTP2Words: the debug text in a GOAWAY is the service's own. It may look like net/http's, and
// decides nothing.
func TestHTTP2Words(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY]",
		"http2: Transport: cannot retry err [stream error: stream ID 1; REFUSED_STREAM; received from peer]",
	} {
		u := newRawHTTP2(t, "h2")
		post := beforeHTTP2(t, u)
		u.ends(func(f *http2.Framer, stream uint32) bool {
			u.effects.Add(1)
			_ = f.WriteGoAway(stream, http2.ErrCodeInternal, []byte(words))
			return false
		})
		assert.Equal(t, post("k", "x"), "502 outcome-unknown", "the first")
		assert.Equal(t, post("k", "x"), "409 outcome-unknown", "a repeat")
		assert.Equal(t, u.effects.Load(), int64(1), "effects")
	}
}

// TestHTTP2AlwaysAway: a service that accepts connections and sends GOAWAY on each gets a few
// tries, not endless ones.
func TestHTTP2AlwaysAway(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "x"} {
		u := newRawHTTP2(t, "h2")
		post := beforeHTTP2(t, u)
		u.ends(func(f *http2.Framer, _ uint32) bool {
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
			return false
		})
		assert.Equal(t, post("k", body), "503 upstream-unreachable", "body %q", body)
		assert.True(t, u.seen.Load() <= 5, "body %q: requests seen: %d", body, u.seen.Load())
	}
}

// TestHTTP2StatusThatIsNone: net/http passes an invalid status on; no client may get it, and it is
// not stored.
func TestHTTP2StatusThatIsNone(t *testing.T) {
	t.Parallel()
	u := newRawHTTP2(t, "h2")
	post := beforeHTTP2(t, u)
	u.ends(func(f *http2.Framer, stream uint32) bool {
		var b bytes.Buffer
		_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: "1000"})
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
		return true
	})
	assert.Equal(t, post("k", "x"), "502 outcome-unknown", "the first")
	assert.Equal(t, post("k", "x"), "409 outcome-unknown", "a repeat")
}
