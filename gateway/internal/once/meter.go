package once

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// meter is a connection that knows whether any bytes were given to the kernel. It can be sealed, so
// that it gives no more.
//
// It also keeps apart what answers a request from what a service sends unasked. net/http takes
// whatever it has read for the answer as soon as a request has the connection. So a request gets a
// kept connection only when net/http waits for bytes, having used all that came, and its first
// bytes are written only if nothing has come since. Bytes leave the kernel under the lock, so that
// none are on their way meanwhile.
type meter struct {
	net.Conn

	raw syscall.RawConn // nil: the connection has none

	mu      sync.Mutex
	changed *sync.Cond // reading or closed has changed
	writes  int
	reads   int
	sealed  bool
	turn    int  // how many requests have had the connection
	asked   int  // the last turn of whose request something was written
	kept    bool // the connection was idle before this turn
	spoiled bool // something came in this turn before the request was written
	closed  bool
	idle    bool // no request has been written since the connection was last given back
	reading bool // net/http waits for bytes: it has used all that came
	// encrypted: what comes may be TLS's own, such as a session ticket, or HTTP/2's
	encrypted bool
}

func newMeter(c net.Conn) *meter {
	m := &meter{Conn: c, raw: rawOf(c)}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// rest notes that there is no request on the connection after that of a turn. net/http says so
// late: the next request may have the connection already.
func (m *meter) rest(turn int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.turn == turn {
		m.idle = true
	}
}

var errUnasked = errors.New("the service has sent something that no request has asked for, or has closed the connection")

var errSealed = errors.New("the gateway has given this request up before it was sent")

// Write counts before it writes: bytes that may have left count as sent.
func (m *meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	switch {
	case m.sealed:
		m.mu.Unlock()
		return 0, errSealed
	case m.asked < m.turn && m.kept && (m.spoiled || !m.reading || m.hasUnread()):
		m.mu.Unlock()
		return 0, errUnasked
	}
	m.writes++
	idle, asked := m.idle, m.asked
	m.idle, m.asked = false, m.turn
	m.mu.Unlock()
	n, err := m.Conn.Write(p)
	if n == 0 && err != nil { // the kernel accepted nothing of it
		m.mu.Lock()
		m.writes--
		m.idle, m.asked = idle, asked
		m.mu.Unlock()
	}
	return n, err
}

// readerTime is how long a request waits for net/http to use what came before it.
const readerTime = 10 * time.Second

// awaitReader waits until net/http has used all that came, and reports whether it has.
func (m *meter) awaitReader() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reading {
		return true
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
	return m.reading
}

// Close closes the connection, so that no request waits for its reader.
func (m *meter) Close() error {
	m.mu.Lock()
	m.closed = true
	m.changed.Broadcast()
	m.mu.Unlock()
	return m.Conn.Close()
}

// Read reads what has come. What came before a request was written answers none.
func (m *meter) Read(p []byte) (n int, err error) {
	m.mu.Lock()
	m.reading = true
	m.changed.Broadcast()
	m.mu.Unlock()
	if m.raw == nil {
		n, err = m.Conn.Read(p)
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.count(n, err)
	}
	return m.readRaw(p)
}

// count notes what was read. The caller holds m.mu.
func (m *meter) count(n int, err error) (int, error) {
	m.reading = false
	m.spoiled = m.spoiled || n > 0 && m.asked < m.turn
	if n > 0 && !m.encrypted && m.turn > 0 && (m.idle || m.spoiled) {
		return 0, errUnasked
	}
	m.reads += n
	return n, err
}

func (m *meter) seal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sealed = true
}
