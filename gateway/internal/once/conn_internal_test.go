package once

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// limit is how long a test waits for what comes at once on a machine that is not busy.
const limit = 2 * time.Minute

// service counts its connections, and the requests that it has read.
type service struct {
	url      string
	requests atomic.Int64
	conns    atomic.Int64
	last     atomic.Pointer[net.Conn] // the last connection
}

// serveRaw starts a service that says answer to each request.
func serveRaw(t *testing.T, listener net.Listener, scheme string, answer func(c net.Conn, r *http.Request) bool) *service {
	t.Helper()
	s := &service{url: scheme + "://" + listener.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			s.last.Store(&c)
			t.Cleanup(func() { _ = c.Close() })
			all.Go(func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					s.requests.Add(1)
					if r.Header.Get("Early") == "" {
						if _, err := io.Copy(io.Discard, r.Body); err != nil {
							return
						}
					}
					if !answer(c, r) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close() })
	return s
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	return l
}

const created = "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone"

func say(c io.Writer, text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

// post sends a guarded request, and reads its answer.
func post(t *testing.T, ctx context.Context, transport *Transport, url string, body io.ReadCloser, size int64) (*Delivery, string, error) { //nolint:revive // as the other helpers
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	assert.NoError(t, err, "request")
	r.ContentLength = size
	d := new(Delivery)
	resp, err := transport.Send(r, d)
	if err != nil {
		return d, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return d, fmt.Sprint(resp.StatusCode, " ", string(b)), err
}

func newTransport(t *testing.T, trust *x509.CertPool) *Transport {
	t.Helper()
	transport := NewTransport(trust)
	transport.idle.most = time.Hour // a machine may stand still
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// waitFor waits until something is the case.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); <-time.After(time.Millisecond) {
		assert.True(t, time.Now().Before(end), "%s", what)
	}
}

// onlyIdle returns the only connection that has no request.
func onlyIdle(t *testing.T, transport *Transport) *conn {
	t.Helper()
	transport.idle.mu.Lock()
	defer transport.idle.mu.Unlock()
	var all []*conn
	for _, some := range transport.idle.of {
		all = append(all, some...)
	}
	assert.Equal(t, len(all), 1, "idle connections")
	return all[0]
}

// TestUnaskedBeforeWrite: what comes when a request has a connection and none of it is written yet
// answers no request, and the request is not written.
func TestUnaskedBeforeWrite(t *testing.T) {
	t.Parallel()
	for _, what := range []string{created, "H", "the end"} {
		for _, size := range []int{0, 100, 1 << 20} {
			t.Run(fmt.Sprintf("%.5s, %d", what, size), func(t *testing.T) {
				t.Parallel()
				s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool { return say(c, created) })
				transport := newTransport(t, nil)
				_, got, err := post(t, t.Context(), transport, s.url, NewBody([]byte("x")), 1)
				assert.NoError(t, err, "the first request")
				assert.Equal(t, got, "201 done", "the first request")
				idle := onlyIdle(t, transport)
				d := &Delivery{Check: func() error {
					if what == "the end" {
						_ = (*s.last.Load()).Close()
					} else {
						say(*s.last.Load(), what)
					}
					waitFor(t, "it arrives", idle.wire.hasUnread)
					return nil
				}}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, NewBody(make([]byte, size)))
				assert.NoError(t, err, "request")
				r.ContentLength = int64(size)
				if size == 0 {
					r.Body = http.NoBody
				}
				_, err = transport.Send(r, d) //nolint:bodyclose // there is none
				assert.ErrorIs(t, err, errUnasked, "the second request")
				reused, _ := d.Lost(err)
				assert.True(t, d.NotSent(err) && !d.Answered() && reused, "it was not sent, and another connection may work")
				assert.Equal(t, s.requests.Load(), int64(1), "requests")
				_, got, err = post(t, t.Context(), transport, s.url, NewBody([]byte("x")), 1)
				assert.NoError(t, err, "the next request")
				assert.Equal(t, got, "201 done", "the next request")
				assert.Equal(t, s.conns.Load(), int64(2), "connections")
			})
		}
	}
}

// slowBody gives its first bytes when the test lets it.
type slowBody struct {
	io.Reader
	ready func()
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.ready()
	return b.Reader.Read(p)
}

func (*slowBody) Close() error { return nil }

// TestUnaskedBeforeBody: what comes while the body of a request has not come yet, so that nothing
// was written, answers no request.
func TestUnaskedBeforeBody(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool { return say(c, created) })
	transport := newTransport(t, nil)
	_, _, err := post(t, t.Context(), transport, s.url, NewBody([]byte("x")), 1)
	assert.NoError(t, err, "the first request")
	idle := onlyIdle(t, transport)
	body := &slowBody{strings.NewReader("late"), func() {
		say(*s.last.Load(), created)
		waitFor(t, "it arrives", idle.wire.hasUnread)
	}}
	// net/http waits for the first byte of such a body before it writes the head
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.url, body)
	assert.NoError(t, err, "request")
	r.ContentLength = -1
	d := new(Delivery)
	_, err = transport.Send(r, d) //nolint:bodyclose // there is none
	assert.ErrorIs(t, err, errUnasked, "the second request")
	assert.True(t, d.NotSent(err), "it was not sent")
	assert.Equal(t, s.requests.Load(), int64(1), "requests")
}

// TestServiceThatSpeaksFirst: what comes on a new connection before the request is written answers
// no request.
func TestServiceThatSpeaksFirst(t *testing.T) {
	t.Parallel()
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			say(c, created)
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	transport := newTransport(t, nil)
	c, err := transport.connect(httptest.NewRequestWithContext(t.Context(), "POST", "http://"+l.Addr().String(), nil))
	assert.NoError(t, err, "connect")
	waitFor(t, "it arrives", c.wire.hasUnread)
	transport.idle.keepConn(c)
	d, got, err := post(t, t.Context(), transport, "http://"+l.Addr().String(), NewBody([]byte("x")), 1)
	assert.ErrorIs(t, err, errUnasked, "the request; the answer is %q", got)
	assert.True(t, d.NotSent(err), "it was not sent")
}

// serveTLS starts a service of HTTP/1.1 over TLS, and returns its authority.
func serveTLS(t *testing.T, answer func(c net.Conn, r *http.Request) bool) (*service, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	trust := x509.NewCertPool()
	trust.AddCert(s.Certificate())
	config := s.TLS.Clone()
	config.NextProtos = nil
	s.Close()
	return serveRaw(t, tls.NewListener(listen(t), config), "https", answer), trust
}

// TestWordsAfterAnAnswerOverTLS: what a service sends after an answer answers no request, whether
// TLS has decrypted it with the answer, has read it and not decrypted it, has read a part, or it is
// still in the kernel.
func TestWordsAfterAnAnswerOverTLS(t *testing.T) {
	t.Parallel()
	for name, cuts := range map[string][]int{
		"in one record": nil, "in a record of its own": {0}, "in two records": {0, 10}, "in a record with a part of the answer": {-10},
	} {
		for _, size := range []int{4, 4096, 5000, 12000} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				t.Parallel()
				said := make(chan struct{}, 100)
				s, trust := serveTLS(t, func(c net.Conn, r *http.Request) bool {
					defer func() { said <- struct{}{} }()
					const form = "HTTP/1.1 201 Created\r\nX-Fill: %s\r\nContent-Length: 4\r\n\r\n%s"
					key := r.Header.Get("Key")
					answer := fmt.Sprintf(form, strings.Repeat("x", max(0, size-len(form)-len(key)+4)), key)
					all, from := answer+"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale", 0
					for _, cut := range cuts {
						if !say(c, all[from:len(answer)+cut]) {
							return false
						}
						from = len(answer) + cut
					}
					return say(c, all[from:])
				})
				transport := newTransport(t, trust)
				for i := range 20 {
					key := fmt.Sprintf("k-%02d", i)
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, NewBody([]byte("x")))
					assert.NoError(t, err, "request")
					r.ContentLength = 1
					r.Header.Set("Key", key)
					for {
						d := new(Delivery)
						resp, err := transport.Send(r, d)
						if err != nil { // as the gateway does
							reused, _ := d.Lost(err)
							assert.True(t, d.NotSent(err) && reused, "request %d: %v", i, err)
							r.Body = NewBody([]byte("x"))
							continue
						}
						got, err := io.ReadAll(resp.Body)
						_ = resp.Body.Close()
						assert.NoError(t, err, "answer %d", i)
						assert.Equal(t, string(got), key, "answer %d", i)
						break
					}
					<-said
				}
			})
		}
	}
}

// TestConnectionsOverTLSAreKept: otherwise the test before this would prove little.
func TestConnectionsOverTLSAreKept(t *testing.T) {
	t.Parallel()
	s, trust := serveTLS(t, func(c net.Conn, _ *http.Request) bool { return say(c, created) })
	transport := newTransport(t, trust)
	for try := 0; ; try++ {
		before := s.conns.Load()
		for range 5 {
			_, got, err := post(t, t.Context(), transport, s.url, NewBody([]byte("x")), 1)
			assert.NoError(t, err, "request")
			assert.Equal(t, got, "201 done", "request")
		}
		if s.conns.Load() <= before+1 {
			return // tickets after the handshake may cost the first one
		}
		assert.True(t, try < 20, "%d requests have %d connections", s.requests.Load(), s.conns.Load())
	}
}

// TestRecordInPart: a request is not written while TLS has read a part of a record, which may be
// the beginning of an unasked answer.
func TestRecordInPart(t *testing.T) {
	t.Parallel()
	const text = "\x17\x03\x03\x01\x02" // a header: 258 bytes of application data
	records := []byte(text + strings.Repeat("x", 258) + "\x17\x03\x03\x00\x00" + text + strings.Repeat("y", 258))
	ends := []int{0, 5 + 258, 10 + 258, len(records)}
	for _, step := range []int{1, 2, 7, 300} {
		w, far := connect(t)
		w.encrypted = true
		for from := 0; from <= len(records); from += step {
			assert.Equal(t, w.record.isComplete(), slices.Contains(ends, from), "after %d bytes", from)
			some := records[from:min(from+step, len(records))]
			if len(some) == 0 {
				break
			}
			_, err := far.Write(some)
			assert.NoError(t, err, "write")
			_, err = io.ReadFull(w, make([]byte, len(some)))
			assert.NoError(t, err, "read")
		}
		w.record = tlsRecord{header: 2}
		w.beginRequest(true)
		_, err := w.Write([]byte("request"))
		assert.ErrorIs(t, err, errUnasked, "a request in the middle of a record")
		assert.True(t, !w.wasSent(), "it was not sent")
	}
}

// connect returns the two ends of a connection over TCP.
func connect(t *testing.T) (*wire, net.Conn) {
	t.Helper()
	l := listen(t)
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	assert.NoError(t, err, "dial")
	far, err := l.Accept()
	assert.NoError(t, err, "accept")
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return newWire(near), far
}

// TestSentStaysSent: a request of which the kernel has some was sent, whatever becomes of the rest.
// If it has accepted nothing, it was not.
func TestSentStaysSent(t *testing.T) {
	t.Parallel()
	w, _ := connect(t)
	w.beginRequest(true)
	_, err := w.Write([]byte("some"))
	assert.NoError(t, err, "write")
	_ = w.Conn.Close()
	_, err = w.Write([]byte("the rest"))
	assert.True(t, err != nil && w.wasSent() && w.hasFailed(), "after some: %v", err)
	w.beginRequest(false)
	_, err = w.Write([]byte("nothing"))
	assert.True(t, err != nil && !w.wasSent(), "after nothing: %v", err)
}

// TestTunnels: a connection that was switched to another protocol carries what both sides send, and
// can be closed on one side, over TLS too.
func TestTunnels(t *testing.T) {
	t.Parallel()
	echo := func(c net.Conn, _ *http.Request) bool {
		if !say(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello ") {
			return false
		}
		_, _ = io.Copy(c, c)
		return false
	}
	plain := serveRaw(t, listen(t), "http", echo)
	encrypted, trust := serveTLS(t, echo)
	for _, s := range []*service{plain, encrypted} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
		assert.NoError(t, err, "request")
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "echo")
		resp, err := newTransport(t, trust).RoundTrip(r)
		assert.NoError(t, err, "%s", s.url)
		both, ok := resp.Body.(interface {
			io.ReadWriteCloser
			CloseWrite() error
		})
		assert.True(t, ok, "a tunnel")
		assert.True(t, say(both, "and back"), "write")
		assert.NoError(t, both.CloseWrite(), "CloseWrite")
		got, err := io.ReadAll(both)
		assert.NoError(t, err, "read")
		assert.Equal(t, string(got), "hello and back", "%s", s.url)
		assert.NoError(t, both.Close(), "Close")
	}
}

// TestIdleConnections: a connection without a request is closed after a while, and is not given to
// a request any more; too many are not kept.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle := idleConns{most: idleTime}
		to := address{"http", "service"}
		put := func(to address) (*conn, net.Conn) {
			near, far := net.Pipe()
			c := newConn(to, near, newWire(near))
			idle.keepConn(c)
			return c, far
		}
		isClosed := func(far net.Conn) bool {
			_ = far.SetReadDeadline(time.Now().Add(time.Nanosecond))
			_, err := far.Read(make([]byte, 1))
			return err == io.EOF
		}
		_, old := put(to)
		time.Sleep(idleTime / 2)
		young, far := put(to)
		_, other := put(address{"https", "service"})
		assert.True(t, idle.reuseConn(address{"http", "other"}) == nil, "another address has none")
		assert.True(t, idle.reuseConn(to) == young, "the one that became idle last comes first")
		idle.keepConn(young)
		time.Sleep(idleTime/2 + 10*time.Millisecond)
		assert.True(t, isClosed(old) && !isClosed(far) && !isClosed(other), "after its time one is closed")
		time.Sleep(idleTime)
		assert.True(t, isClosed(far) && isClosed(other), "all are closed")
		idle.mu.Lock()
		assert.True(t, len(idle.of) == 0 && !idle.sweeping, "nothing is left, and no timer")
		idle.mu.Unlock()
		c, _ := put(to)
		c.idleSince = time.Now().Add(-idleTime - 1)
		assert.True(t, idle.reuseConn(to) == nil, "one that is too old for a request")
		var fars []net.Conn
		for range maxIdle {
			_, far := put(to)
			fars = append(fars, far)
		}
		assert.True(t, isClosed(fars[maxIdle-1]) && !isClosed(fars[0]), "one too many is closed")
		idle.closeAll()
		assert.True(t, isClosed(fars[0]) && isClosed(fars[maxIdle-2]), "all are closed")
		time.Sleep(2 * idleTime) // the sweep ends
	})
}

// TestRequestsThatAreSentAgain: on a kept connection that the service closes, a request that
// changes nothing is sent again, one that was not sent too, and a request that may have changed
// something never.
func TestRequestsThatAreSentAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		method   string
		body     io.ReadCloser
		size     int64
		requests int64
		fails    bool
	}{
		"GET": {"GET", nil, 0, 2, false}, "POST": {"POST", nil, 0, 1, true}, "DELETE": {"DELETE", nil, 0, 1, true},
		"POST with a body": {"POST", io.NopCloser(strings.NewReader("x")), 1, 1, true}, "GET with a body": {"GET", io.NopCloser(strings.NewReader("x")), 1, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var warm, ended atomic.Bool
			s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool {
				if !warm.Load() {
					return say(c, created)
				}
				return ended.Swap(true) && say(c, created)
			})
			transport := newTransport(t, nil)
			_, _, err := post(t, t.Context(), transport, s.url, NewBody([]byte("x")), 1)
			assert.NoError(t, err, "a kept connection")
			warm.Store(true)
			r, err := http.NewRequestWithContext(t.Context(), tt.method, s.url, tt.body)
			assert.NoError(t, err, "request")
			r.ContentLength = tt.size
			r.Header.Set("Idempotency-Key", "k")
			resp, err := transport.RoundTrip(r)
			assert.Equal(t, err != nil, tt.fails, "%v", err)
			if err == nil {
				_ = resp.Body.Close()
			}
			assert.Equal(t, s.requests.Load()-1, tt.requests, "requests")
		})
	}
	// A body of which nothing was read goes to another connection.
	s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool { return say(c, created) && false })
	transport := newTransport(t, nil)
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.url, io.NopCloser(strings.NewReader("x")))
		assert.NoError(t, err, "request")
		r.ContentLength = 1
		resp, err := transport.RoundTrip(r)
		assert.NoError(t, err, "a request with a body")
		_, err = io.Copy(io.Discard, resp.Body)
		assert.NoError(t, err, "its answer")
		_ = resp.Body.Close()
		waitFor(t, "the end of the connection arrives", onlyIdle(t, transport).wire.hasUnread)
	}
}

// TestEndOfAContext: when the context of a request ends, its call ends with the cause, whatever it
// waits for, and nothing is written later.
func TestEndOfAContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	for _, waits := range []string{"for an answer", "in the head", "in the body", "until a large request was read"} {
		t.Run(waits, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ended := make(chan struct{})
			s := serveRaw(t, listen(t), "http", func(c net.Conn, r *http.Request) bool {
				defer close(ended)
				switch waits {
				case "in the head":
					say(c, "HTTP/1.1 201")
				case "in the body":
					say(c, "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndo")
				}
				cancel(stop)
				_, _ = c.Read(make([]byte, 1)) // until the gateway ends the connection
				return false
			})
			body := NewBody([]byte("x"))
			var header http.Header
			if strings.Contains(waits, "large") {
				body, header = NewBody(make([]byte, 32<<20)), http.Header{"Early": {"1"}}
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, body)
			assert.NoError(t, err, "request")
			r.ContentLength, r.Header = body.Size(), header
			transport, d := newTransport(t, nil), new(Delivery)
			resp, err := transport.Send(r, d)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			} else {
				assert.True(t, !d.NotSent(err), "it was sent")
			}
			assert.ErrorIs(t, err, stop, "the request")
			<-ended
			transport.idle.mu.Lock()
			defer transport.idle.mu.Unlock()
			assert.Equal(t, len(transport.idle.of), 0, "connections that are kept")
		})
	}
	s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool { return say(c, created) })
	ctx, cancel := context.WithCancelCause(t.Context())
	transport := newTransport(t, nil)
	_, _, err := post(t, t.Context(), transport, s.url, NewBody([]byte("x")), 1)
	assert.NoError(t, err, "a kept connection")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, NewBody([]byte("x")))
	assert.NoError(t, err, "request")
	r.ContentLength = 1
	idle := onlyIdle(t, transport)
	d := &Delivery{Check: func() error {
		cancel(stop)
		return nil
	}}
	_, err = transport.Send(r, d) //nolint:bodyclose // there is none
	assert.ErrorIs(t, err, stop, "one that ends before it is written")
	assert.True(t, d.NotSent(err), "it was not sent")
	_, err = idle.wire.Write([]byte("x"))
	assert.ErrorIs(t, err, errCut, "what would be written later")
	assert.Equal(t, s.requests.Load(), int64(1), "requests")
}

// TestStopped: the error of Check stops a request, whose connection is not used for another one.
func TestStopped(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool { return say(c, created) })
	transport := newTransport(t, nil)
	stop := errors.New("no lease")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, NewBody([]byte("x")))
	assert.NoError(t, err, "request")
	r.ContentLength = 1
	d := &Delivery{Check: func() error { return stop }}
	_, err = transport.Send(r, d) //nolint:bodyclose // there is none
	assert.ErrorIs(t, err, stop, "the request")
	assert.True(t, d.NotSent(err) && errors.Is(d.Stopped(), stop), "it was not sent")
	_, got, err := post(t, t.Context(), transport, s.url, NewBody([]byte("x")), 1)
	assert.NoError(t, err, "the next request")
	assert.Equal(t, got, "201 done", "the next request")
	assert.Equal(t, fmt.Sprint(s.conns.Load(), s.requests.Load()), "2 1", "connections and requests")
}

// TestBodyThatFails: a request whose body fails ends, and its connection with it, since the service
// would wait for the rest.
func TestBodyThatFails(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool { return say(c, created) })
	transport := newTransport(t, nil)
	broken := errors.New("the client has gone")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", 10<<10)), &slowBody{iotest.ErrReader(broken), func() { waitFor(t, "the head arrives", func() bool { return s.requests.Load() == 1 }) }})))
	assert.NoError(t, err, "request")
	r.ContentLength = 20 << 10
	_, err = transport.RoundTrip(r) //nolint:bodyclose // there is none
	assert.ErrorIs(t, err, broken, "the request")
	transport.idle.mu.Lock()
	defer transport.idle.mu.Unlock()
	assert.Equal(t, len(transport.idle.of), 0, "connections that are kept")
}

// TestPiecesOfABody: the service gets each piece of a body as it comes, with a length and without
// one.
func TestPiecesOfABody(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{3000, -1} {
		came := make(chan struct{})
		s := serveRaw(t, listen(t), "http", func(c net.Conn, r *http.Request) bool {
			_, err := io.ReadFull(r.Body, make([]byte, 10))
			close(came)
			_, rest := io.Copy(io.Discard, r.Body)
			return err == nil && rest == nil && say(c, created)
		})
		body := io.MultiReader(strings.NewReader(strings.Repeat("x", 10)), &slowBody{strings.NewReader(strings.Repeat("x", 2990)), func() { <-came }})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, body)
		assert.NoError(t, err, "request")
		r.ContentLength = size
		r.Header.Set("Early", "1")
		resp, err := newTransport(t, nil).RoundTrip(r)
		assert.NoError(t, err, "answer")
		assert.Equal(t, resp.StatusCode, 201, "answer")
		_ = resp.Body.Close()
	}
}

// TestBodyIsReadNoMore: when a call has failed, its body is not read any more: the caller may set
// deadlines for what is left of it.
func TestBodyIsReadNoMore(t *testing.T) {
	t.Parallel()
	reading, ready := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	s := serveRaw(t, listen(t), "http", func(net.Conn, *http.Request) bool {
		<-reading
		return false
	})
	var begun sync.Once
	body := &slowBody{strings.NewReader("late"), func() {
		begun.Do(func() { close(reading) })
		<-ready
		ended.Store(true)
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, body)
	assert.NoError(t, err, "request")
	r.ContentLength = 4
	r.Header.Set("Early", "1")
	go func() {
		<-reading
		<-time.After(300 * time.Millisecond) // a call that does not wait returns meanwhile
		close(ready)
	}()
	_, err = newTransport(t, nil).RoundTrip(r) //nolint:bodyclose // there is none
	assert.True(t, err != nil && ended.Load(), "the call ends after the read: %v", err)
}

// TestBodyThatIsTooShort: a body that ends before its length ends the request.
func TestBodyThatIsTooShort(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool { return say(c, created) })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, io.NopCloser(strings.NewReader("short")))
	assert.NoError(t, err, "request")
	r.ContentLength = 100
	_, err = newTransport(t, nil).RoundTrip(r) //nolint:bodyclose // there is none
	assert.True(t, err != nil && strings.Contains(err.Error(), "ContentLength=100 with Body length 5"), "the request: %v", err)
}

// TestRequestThatCannotBeWritten: a request that net/http does not write is not tried on one kept
// connection after the other.
func TestRequestThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool { return say(c, created) })
	transport := newTransport(t, nil)
	_, _, err := post(t, t.Context(), transport, s.url, NewBody([]byte("x")), 1)
	assert.NoError(t, err, "a kept connection")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, NewBody([]byte("x")))
	assert.NoError(t, err, "request")
	r.ContentLength, r.URL.RawQuery = 1, "\x01"
	d := new(Delivery)
	_, err = transport.Send(r, d) //nolint:bodyclose // there is none
	assert.True(t, err != nil && d.NotSent(err), "the request: %v", err)
	reused, gone := d.Lost(err)
	assert.True(t, !reused && !gone && !Unreachable(err), "no connection and no address would help")
}

// TestServiceThatDoesNotReadTheHead: the answer to a request with a large head arrives, though the
// service does not read it all.
func TestServiceThatDoesNotReadTheHead(t *testing.T) {
	t.Parallel()
	l := listen(t)
	t.Cleanup(func() { _ = l.Close() })
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(c, make([]byte, 4<<10))
		say(c, "HTTP/1.1 431 Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge")
		<-done
		_ = c.Close()
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String(), NewBody([]byte("x")))
	assert.NoError(t, err, "request")
	r.ContentLength = 1
	r.Header.Set("Large", strings.Repeat("x", 32<<20))
	resp, err := newTransport(t, nil).Send(r, new(Delivery))
	assert.NoError(t, err, "answer")
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	assert.NoError(t, err, "body")
	assert.Equal(t, fmt.Sprint(resp.StatusCode, string(got)), "431large", "answer")
}

// TestLargeHeadWithoutBody: a request with a large head and no body gets its answer, and says that
// it has no body as one with a small head does.
func TestLargeHeadWithoutBody(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, listen(t), "http", func(c net.Conn, r *http.Request) bool {
		said := fmt.Sprint(r.Method, " ", r.Header["Content-Length"], r.TransferEncoding, len(r.Header.Get("Large")))
		_, err := fmt.Fprintf(c, "HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(said), said)
		return err == nil
	})
	transport := newTransport(t, nil)
	for method, want := range map[string]string{"GET": "[]", "POST": "[0]", "PUT": "[0]", "DELETE": "[]", "OPTIONS": "[]"} {
		for _, body := range []io.ReadCloser{nil, http.NoBody} {
			for _, guarded := range []bool{false, true} {
				for _, size := range []int{10, smallRequest, 100 << 10} {
					r, err := http.NewRequestWithContext(t.Context(), method, s.url, nil)
					assert.NoError(t, err, "request")
					r.Body = body
					r.Header.Set("Large", strings.Repeat("x", size))
					send := transport.RoundTrip
					if guarded {
						send = func(r *http.Request) (*http.Response, error) { return transport.Send(r, new(Delivery)) }
					}
					resp, err := send(r)
					assert.NoError(t, err, "%s, %d", method, size)
					got, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					assert.NoError(t, err, "%s, %d: answer", method, size)
					assert.Equal(t, string(got), fmt.Sprint(method, " ", want, " [] ", size), "body %v, guarded %v", body, guarded)
				}
			}
		}
	}
	assert.Equal(t, s.conns.Load(), int64(1), "connections")
}

// TestEarlySwitch: a service that switches protocols before it has read the request gets nothing
// more of it as the other protocol.
func TestEarlySwitch(t *testing.T) {
	t.Parallel()
	after := make(chan string, 1)
	s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool {
		say(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		got, _ := io.ReadAll(c)
		after <- string(got)
		return false
	})
	released, seen := make(chan struct{}), make(chan string, 1)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, &slowBody{strings.NewReader("late"), func() { <-released }})
	assert.NoError(t, err, "request")
	r.ContentLength = 4
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}, "Early": {"1"}}
	go func() {
		seen <- <-after
		close(released)
	}()
	_, err = newTransport(t, nil).RoundTrip(r) //nolint:bodyclose // there is none
	assert.ErrorIs(t, err, errSwitch, "the request")
	assert.Equal(t, <-seen, "", "what came after the switch")
}

// TestSwitchAndBodyThatFails: a request whose body fails just after the service has switched
// protocols ends.
func TestSwitchAndBodyThatFails(t *testing.T) {
	t.Parallel()
	switched := make(chan struct{})
	s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool {
		say(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		close(switched)
		_, _ = io.Copy(io.Discard, c)
		return false
	})
	broken := errors.New("the client has gone")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, &slowBody{iotest.ErrReader(broken), func() { <-switched }})
	assert.NoError(t, err, "request")
	r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}, "Early": {"1"}}
	ended := make(chan error, 1)
	transport := newTransport(t, nil)
	go func() {
		_, err := transport.RoundTrip(r) //nolint:bodyclose // there is none
		ended <- err
	}()
	select {
	case err := <-ended:
		assert.ErrorIs(t, err, broken, "the request")
	case <-time.After(limit):
		t.Fatal("the request hangs")
	}
}

// TestSwitchThatWasNotAsked: an answer that switches protocols unasked is no answer, and no tunnel.
func TestSwitchThatWasNotAsked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ asks, answer string }{
		"not asked": {"", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"},
		"bare":      {"echo", "HTTP/1.1 101 Switching Protocols\r\n\r\n"},
	} {
		s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool { return say(c, tt.answer) })
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
		assert.NoError(t, err, "request")
		if tt.asks != "" {
			r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {tt.asks}}
		}
		_, err = newTransport(t, nil).RoundTrip(r) //nolint:bodyclose // there is none
		assert.ErrorIs(t, err, errSwitch, "%s", name)
	}
}

// TestMethodThatIsNone: a method that would write another request line is not sent.
func TestMethodThatIsNone(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, listen(t), "http", func(c net.Conn, _ *http.Request) bool { return say(c, created) })
	for _, method := range []string{"POST /pay HTTP/1.1", "POST\t/pay", "GET ", "G(T"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
		assert.NoError(t, err, "request")
		r.Method = method
		transport, d := newTransport(t, nil), new(Delivery)
		_, err = transport.RoundTrip(r) //nolint:bodyclose // there is none
		assert.ErrorIs(t, err, errMethod, "%q", method)
		_, err = transport.Send(r, d) //nolint:bodyclose // there is none
		assert.True(t, errors.Is(err, errMethod) && d.NotSent(err), "%q, guarded: %v", method, err)
	}
	assert.Equal(t, s.conns.Load(), int64(0), "connections")
}

// TestEarlyAnswer: after a whole answer that came before its request was read, the next request has
// another connection.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	s := serveRaw(t, listen(t), "http", func(c net.Conn, r *http.Request) bool {
		if !say(c, created) {
			return false
		}
		if r.Header.Get("Early") != "" {
			<-never
		}
		return true
	})
	transport := newTransport(t, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, NewBody(make([]byte, 32<<20)))
	assert.NoError(t, err, "request")
	r.ContentLength = 32 << 20
	r.Header.Set("Early", "1")
	resp, err := transport.Send(r, new(Delivery))
	assert.NoError(t, err, "the early answer")
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	assert.NoError(t, err, "its body")
	assert.Equal(t, string(got), "done", "its body")
	assert.True(t, transport.idle.reuseConn(addressOf(r.URL)) == nil, "its connection is not kept")
	_, again, err := post(t, t.Context(), transport, s.url, NewBody([]byte("x")), 1)
	assert.NoError(t, err, "the next request")
	assert.Equal(t, again, "201 done", "the next request")
	assert.Equal(t, s.conns.Load(), int64(2), "connections")
}

// FuzzServiceBytes: whatever a service answers, a request ends, and a connection is kept only after
// a whole answer that nothing follows.
func FuzzServiceBytes(f *testing.F) {
	for _, text := range []string{created, created + "x", "HTTP/1.1 103 Early Hints\r\n\r\n" + created, "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nuntil the end", "HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nshort", "garbage", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		near, far := net.Pipe()
		go func() {
			_, _ = http.ReadRequest(bufio.NewReader(far))
			_, _ = far.Write(text)
			_ = far.Close()
		}()
		idle := idleConns{most: time.Hour}
		c := newConn(address{"http", "service"}, nil, newWire(near))
		c.stream = c.wire
		c.out.Reset(c.wire)
		resp, err := c.exchange(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://service/", nil), &idle)
		var got []byte
		if err == nil {
			got, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		kept := idle.reuseConn(c.to) != nil
		_ = near.Close()
		if !kept {
			return
		}
		assert.NoError(t, err, "a connection is kept")
		again, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
		for err == nil && again.StatusCode < 200 {
			_, text, _ = bytes.Cut(text, []byte("\n\r\n"))
			again, err = http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
		}
		assert.NoError(t, err, "the answer of a connection that is kept")
		want, err := io.ReadAll(again.Body)
		assert.NoError(t, err, "its body")
		assert.Equal(t, string(got), string(want), "its body")
	})
}
