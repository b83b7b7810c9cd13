package zklock

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// session is one of the client's, which begins another one by itself when the server has ended it.
type session struct {
	gone chan struct{} // closed when we know of its end
	over bool          // under the backend's mutex
	time atomic.Int64  // the server waits so long for a word of us; in nanoseconds
}

func newSession() *session { return &session{gone: make(chan struct{})} }

// end tells the holders. The backend's mutex is held.
func (s *session) end() {
	if !s.over {
		s.over = true
		close(s.gone)
	}
}

// lease is how long a session lives surely from the beginning of a call that the leader has
// answered. The member of the ensemble that we talk to tells the leader of its clients every half
// tick, which is a quarter of the shortest session that servers give unless they are told
// otherwise, and our client says something every third of its session. A member that was cut off
// may have told nothing of that: 5/12 are left, and some of it is for the clocks.
func (s *session) lease() time.Duration { return time.Duration(s.time.Load()) * 2 / 5 }

// current is the session that calls are made in now.
func (b *Backend) current() *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// event is called by the client, in order, before it goes on.
func (b *Backend) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e.State {
	case zk.StateExpired:
		b.session.end()
		if !b.closed {
			b.session = newSession()
		}
	case zk.StateHasSession:
		if l, ok := b.line.(*line); ok {
			b.session.time.Store(int64(l.session()))
		}
		select {
		case <-b.ready:
		default:
			close(b.ready)
		}
	}
}

// dial is the client's way to the servers.
func (b *Backend) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := b.o.Dialer(network, address, timeout)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: c}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = c.Close()
	}
	if b.line != nil { // the client leaves it open where the session was over
		_ = b.line.Close()
	}
	b.line = l
	return l, nil
}

// line reads along where the server answers with the session's time, which the client keeps to
// itself.
type line struct {
	net.Conn
	head [welcome]byte
	n    int
}

func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.n < welcome {
		l.n += copy(l.head[l.n:], p[:n])
	}
	return n, err
}

func (l *line) session() time.Duration { return sessionTime(l.head[:l.n]) }

// welcome is how much of the first answer is read: its length, the version of the protocol, and the
// session's time in milliseconds, 4 bytes each.
const welcome = 12

// sessionTime is what a server's first answer says; zero: nothing that can be right.
func sessionTime(head []byte) time.Duration {
	if len(head) < welcome {
		return 0
	}
	return time.Duration(max(0, int32(binary.BigEndian.Uint32(head[8:])))) * time.Millisecond //nolint:gosec // the protocol has it signed
}
