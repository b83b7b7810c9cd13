package zklock

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// session is a session of the client. The client starts another one when the server has ended it.
type session struct {
	ended        chan struct{} // closed when we know that it has ended
	marked       bool          // guarded by the backend's mutex
	timeoutNanos atomic.Int64  // how long the server tolerates silence, in nanoseconds
}

func newSession() *session { return &session{ended: make(chan struct{})} }

// markEnded notifies the holders. The backend's mutex is held.
func (s *session) markEnded() {
	if !s.marked {
		s.marked = true
		close(s.ended)
	}
}

// lease returns how long a session lives for certain after the start of a call that the leader has
// answered. A member of the ensemble reports its clients to the leader every half tick. That is a
// quarter of the shortest session that servers allow by default. Our client sends something every
// third of its session. A member that was cut off may have reported nothing of that: 5/12 are left,
// and a part of that allows for clocks.
func (s *session) lease() time.Duration { return time.Duration(s.timeoutNanos.Load()) * 2 / 5 }

// currentSession returns the session of calls that are made now.
func (b *Backend) currentSession() *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// handleEvent is called by the client, in order, before the client continues.
func (b *Backend) handleEvent(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e.State {
	case zk.StateExpired:
		b.session.markEnded()
		if !b.closed {
			b.session = newSession()
		}
	case zk.StateHasSession:
		if l, ok := b.serverConn.(*headConn); ok {
			b.session.timeoutNanos.Store(int64(l.sessionTime()))
		}
		select {
		case <-b.ready:
		default:
			close(b.ready)
		}
	}
}

// dial makes the client's connections to the servers.
func (b *Backend) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := b.o.Dialer(network, address, timeout)
	if err != nil {
		return nil, err
	}
	l := &headConn{Conn: c}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = c.Close()
	}
	if b.serverConn != nil { // the client leaves it open after the end of a session
		_ = b.serverConn.Close()
	}
	b.serverConn = l
	return l, nil
}

// headConn copies the server's first answer. It contains the session's time, which the client does
// not expose.
type headConn struct {
	net.Conn
	head [headSize]byte
	n    int
}

func (l *headConn) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.n < headSize {
		l.n += copy(l.head[l.n:], p[:n])
	}
	return n, err
}

func (l *headConn) sessionTime() time.Duration { return sessionTime(l.head[:l.n]) }

// headSize is how many bytes of the first answer are copied: its length, the version of the
// protocol, and the session's time in milliseconds, 4 bytes each.
const headSize = 12

// sessionTime returns the session's time from a server's first answer; zero if it is invalid.
func sessionTime(head []byte) time.Duration {
	if len(head) < headSize {
		return 0
	}
	return time.Duration(max(0, int32(binary.BigEndian.Uint32(head[8:])))) * time.Millisecond //nolint:gosec // the protocol has it signed
}
