package once

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// meteredConn is a connection that knows whether any bytes were given to the kernel. It can be
// sealed, so that it gives no more.
//
// It also keeps apart what answers a request from what a service sends unasked. net/http takes
// whatever it has read for the answer as soon as a request has the connection. So a request gets a
// kept connection only when net/http waits for bytes, having used all that came, and its first
// bytes are written only if nothing has come since. Bytes leave the kernel under the lock, so that
// none are on their way meanwhile.
type meteredConn struct {
	net.Conn

	raw syscall.RawConn // nil: the connection has none

	mu          sync.Mutex
	changed     *sync.Cond // reading or closed has changed
	writes      int
	reads       int
	sealed      bool
	turn        int // how many requests have had the connection
	lastWritten int // the last turn of whose request something was written
	// what came before this turn's request must have been used before it is written
	guarded bool
	spoiled bool // something came in this turn before the request was written
	closed  bool
	idle    bool // no request has been written since the connection was last given back
	reading bool // net/http waits for bytes
	// encrypted: what comes may be TLS's own, such as a session ticket, or HTTP/2's
	encrypted bool
	record    tlsRecord // that is being read, if the connection is encrypted
}

// requestStart is where a request begins on its connection.
type requestStart struct {
	writes, reads int // before it
	turn          int
}

func newMeteredConn(c net.Conn) *meteredConn {
	m := &meteredConn{Conn: c, raw: rawOf(c)}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// markIdle notes that there is no request on the connection after that of a turn. net/http says so
// late: the next request may have the connection already.
func (m *meteredConn) markIdle(turn int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.turn == turn {
		m.idle = true
	}
}

var errUnasked = errors.New("the service has sent something that no request has asked for, or has closed the connection")

var errSealed = errors.New("the gateway has given this request up before it was sent")

// Write counts before it writes: bytes that may have left count as sent.
func (m *meteredConn) Write(p []byte) (int, error) {
	m.mu.Lock()
	switch {
	case m.sealed:
		m.mu.Unlock()
		return 0, errSealed
	case m.lastWritten < m.turn && m.guarded && (m.spoiled || !m.waitsForAnswer() || m.hasUnread()):
		m.mu.Unlock()
		return 0, errUnasked
	}
	m.writes++
	idle, asked := m.idle, m.lastWritten
	m.idle, m.lastWritten = false, m.turn
	m.mu.Unlock()
	n, err := m.Conn.Write(p)
	if n == 0 && err != nil { // the kernel accepted nothing of it
		m.mu.Lock()
		m.writes--
		m.idle, m.lastWritten = idle, asked
		m.mu.Unlock()
	}
	return n, err
}

// readerTime is how long a request waits for net/http to use what came before it.
const readerTime = 10 * time.Second

// assignTurn gives the connection to a request. A guarded one is not written unless net/http has
// used all that came before.
func (m *meteredConn) assignTurn(guarded, encrypted bool) requestStart {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.encrypted = encrypted
	if guarded && !m.awaitReader() {
		m.sealed = true
	}
	m.turn++
	m.guarded, m.spoiled = guarded, false
	return requestStart{m.writes, m.reads, m.turn}
}

// waitsForAnswer reports whether net/http waits for bytes, and has used all that it has read.
func (m *meteredConn) waitsForAnswer() bool {
	return m.reading && (!m.encrypted || m.record.isComplete())
}

// awaitReader waits until net/http has used all that came, and reports whether it has. The caller
// holds m.mu, which is free meanwhile.
func (m *meteredConn) awaitReader() bool {
	if m.reading {
		return m.waitsForAnswer()
	}
	late := false
	timer := time.AfterFunc(readerTime, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		late = true
		m.changed.Broadcast()
	})
	defer timer.Stop()
	for !m.reading && !m.closed && !late {
		m.changed.Wait()
	}
	return m.waitsForAnswer()
}

// tlsRecord follows the records of TLS (RFC 8446, section 5.1), to know whether one has arrived in
// part: the rest of an unasked answer may complete it when a request was written.
type tlsRecord struct{ header, length, left int }

func (r *tlsRecord) isComplete() bool { return r.header == 0 && r.left == 0 }

func (r *tlsRecord) follow(p []byte) {
	for len(p) > 0 {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.left, p = r.left-n, p[n:]
			continue
		}
		// a header has the type, the version in two bytes and the length in two
		switch r.header++; r.header {
		case 4:
			r.length = int(p[0]) << 8
		case 5:
			r.left, r.header = r.length|int(p[0]), 0
		}
		p = p[1:]
	}
}

// CloseWrite ends this side of a connection that was switched to another protocol.
func (m *meteredConn) CloseWrite() error {
	if half, ok := m.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return m.Close()
}

// Close closes the connection, so that no request waits for its reader.
func (m *meteredConn) Close() error {
	m.mu.Lock()
	m.closed = true
	m.changed.Broadcast()
	m.mu.Unlock()
	return m.Conn.Close()
}

// Read reads what has come. What came before a request was written answers none.
func (m *meteredConn) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	m.mu.Lock()
	m.reading = true
	m.changed.Broadcast()
	m.mu.Unlock()
	if m.raw == nil {
		n, err = m.Conn.Read(p)
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.countRead(p[:n], err)
	}
	return m.readRaw(p)
}

// countRead notes what was read. The caller holds m.mu.
func (m *meteredConn) countRead(p []byte, err error) (int, error) {
	n := len(p)
	m.record.follow(p)
	m.reading = false
	m.spoiled = m.spoiled || n > 0 && m.lastWritten < m.turn
	if n > 0 && !m.encrypted && m.turn > 0 && (m.idle || m.spoiled) {
		return 0, errUnasked
	}
	m.reads += n
	return n, err
}

func (m *meteredConn) seal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sealed = true
}
