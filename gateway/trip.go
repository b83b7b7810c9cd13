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

// meter is a connection that knows whether anything was given to the kernel, and can be told to
// give nothing more.
type meter struct {
	net.Conn

	mu     sync.Mutex
	writes int
	reads  int
	sealed bool
}

var errSealed = errors.New("the gateway has given this request up before it was sent")

// Write counts before it writes: what may have left counts as sent.
func (m *meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	if m.sealed {
		m.mu.Unlock()
		return 0, errSealed
	}
	m.writes++
	m.mu.Unlock()
	n, err := m.Conn.Write(p)
	if n == 0 && err != nil { // the kernel took nothing of it
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
	// check is asked once there is a connection, just before the request is written; its error
	// stops the request.
	check func() error

	mu      sync.Mutex
	got     bool // there is a connection
	away    bool // none could be made
	conn    *meter
	writes  int // of the connection before this request
	reads   int
	reused  bool
	shared  bool  // HTTP/2: other requests travel on the connection
	stopped error // of check: nothing was written
}

// unreachable is the failure to make a connection.
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
				cancel(err) // net/http asks for it before it writes the head of a request of HTTP/2
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

// take is has for a connection that is known.
func (t *trip) take(l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on(l.meter, l.used)
}

// on begins the count on a connection; m is nil where it is not one of ours. The caller holds t.mu.
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

// notSent tells of a request that failed with err whether no byte of it was given to the kernel, or
// the service said that it did not take it; and it makes sure that no byte is given later.
func (t *trip) notSent(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.got, t.stopped != nil:
		return true
	case t.shared:
		return refused(err) || goneAway(err)
	case t.conn == nil:
		return false // a connection of a kind that nobody counts
	}
	t.conn.seal()
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.conn.writes == t.writes
}

// noConnection tells of a request that was not sent that no connection could be made, so that the
// address may rest. net/http also refuses requests by itself, which says nothing of the address.
func (t *trip) noConnection(err error) bool {
	var u *unreachable
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.got && (t.away || errors.As(err, &u))
}

// lost tells of a request that was not sent that its connection was gone, so that another one may
// do.
func (t *trip) lost(err error) (reused, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.got && t.reused && !refused(err), t.got && goneAway(err)
}

// answered tells whether anything came back.
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

// net/http has no error value for a stream that the service has certainly not taken (RFC 9113,
// section 8.7). It says in this text why it would have sent a request again if its body allowed
// that. One of the reasons, PROTOCOL_ERROR, is no such promise. Only the text of its own error
// counts, from the beginning: services choose a part of others.
const cannotRetry = "http2: Transport: cannot retry err ["

func refused(err error) bool {
	why, ok := strings.CutPrefix(err.Error(), cannotRetry)
	return ok && strings.HasPrefix(why, "stream error: stream ID ") && strings.Contains(why, "; REFUSED_STREAM; received from peer]")
}

// goneAway is a GOAWAY that says that our stream was not taken.
func goneAway(err error) bool {
	why, ok := strings.CutPrefix(err.Error(), cannotRetry)
	return ok && strings.HasPrefix(why, "http2: Transport received Server's graceful shutdown GOAWAY]")
}
