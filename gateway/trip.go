package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
)

// meter is a connection that knows whether any bytes were given to the kernel. It can be sealed, so
// that it gives no more.
type meter struct {
	net.Conn

	mu     sync.Mutex
	writes int
	reads  int
	sealed bool
}

var errSealed = errors.New("the gateway has given this request up before it was sent")

// Write counts before it writes: bytes that may have left count as sent.
func (m *meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	if m.sealed {
		m.mu.Unlock()
		return 0, errSealed
	}
	m.writes++
	m.mu.Unlock()
	n, err := m.Conn.Write(p)
	if n == 0 && err != nil { // the kernel accepted nothing of it
		m.mu.Lock()
		m.writes--
		m.mu.Unlock()
	}
	return n, err
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads += n
	return n, err
}

func (m *meter) seal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sealed = true
}

// trip follows one request to its connection.
type trip struct {
	// check is called once there is a connection, just before the request is written. Its error
	// stops the request.
	check func() error

	mu      sync.Mutex
	got     bool // there is a connection
	away    bool // no connection could be made
	conn    *meter
	writes  int // on the connection before this request
	reads   int
	reused  bool
	shared  bool  // HTTP/2: other requests share the connection
	stopped error // error of check: nothing was written
}

// unreachable is the error of a connection that could not be made.
type unreachable struct{ err error }

func (e *unreachable) Error() string { return e.err.Error() }
func (e *unreachable) Unwrap() error { return e.err }

// follow returns the context for the request.
func (t *trip) follow(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone:          func(info httptrace.DNSDoneInfo) { t.connects(info.Err) },
		ConnectDone:      func(_, _ string, err error) { t.connects(err) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { t.connects(err) },
		GotConn: func(info httptrace.GotConnInfo) {
			t.has(info)
			if t.check == nil {
				return
			}
			if err := t.check(); err != nil {
				t.stop(err)
				cancel(err) // net/http checks it before it writes the head of a request of HTTP/2
			}
		},
	})
}

func (t *trip) connects(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = t.away || err != nil
}

func (t *trip) has(info httptrace.GotConnInfo) {
	c := info.Conn
	t.mu.Lock()
	defer t.mu.Unlock()
	if over, ok := c.(*tls.Conn); ok {
		t.shared = over.ConnectionState().NegotiatedProtocol == "h2"
		c = over.NetConn()
	}
	m, _ := c.(*meter)
	t.on(m, info.Reused)
}

// take is like has, for a connection that is known.
func (t *trip) take(l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on(l.meter, l.used)
}

// on starts counting on a connection; m is nil if it is not a meter. The caller holds t.mu.
func (t *trip) on(m *meter, reused bool) {
	t.got, t.reused, t.conn = true, reused, m
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.writes, t.reads = m.writes, m.reads
}

func (t *trip) stop(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = err
	if t.conn != nil && !t.shared {
		t.conn.seal()
	}
}

// notSent reports, for a request that failed with err, whether no byte of it was given to the
// kernel, or the service said that it did not accept it. It also makes sure that no byte is sent
// later.
func (t *trip) notSent(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.got, t.stopped != nil:
		return true
	case t.shared:
		return refused(err) || goneAway(err)
	case t.conn == nil:
		return false // a connection that does not count
	}
	t.conn.seal()
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.conn.writes == t.writes
}

// noConnection reports, for a request that was not sent, whether no connection could be made, so
// that the address may be left out for a while. net/http also refuses requests itself, which says
// nothing about the address.
func (t *trip) noConnection(err error) bool {
	var u *unreachable
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.got && (t.away || errors.As(err, &u))
}

// lost reports, for a request that was not sent, whether its connection was gone, so that another
// connection may work.
func (t *trip) lost(err error) (reused, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.got && t.reused && !refused(err), t.got && goneAway(err)
}

// answered reports whether any bytes came back.
func (t *trip) answered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil || t.shared {
		return false
	}
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.conn.reads > t.reads
}

// cannotRetry is the start of the text in which net/http says why it would have retried a request
// if its body allowed that. There is no error value for a stream that the service has certainly not
// accepted (RFC 9113, section 8.7). One of the reasons, PROTOCOL_ERROR, is no such promise. Only
// net/http's own text counts, from the start: services choose a part of other errors.
const cannotRetry = "http2: Transport: cannot retry err ["

func refused(err error) bool {
	why, ok := strings.CutPrefix(err.Error(), cannotRetry)
	return ok && strings.HasPrefix(why, "stream error: stream ID ") && strings.Contains(why, "; REFUSED_STREAM; received from peer]")
}

// goneAway reports whether err is a GOAWAY that says that the stream was not accepted.
func goneAway(err error) bool {
	why, ok := strings.CutPrefix(err.Error(), cannotRetry)
	return ok && strings.HasPrefix(why, "http2: Transport received Server's graceful shutdown GOAWAY]")
}
