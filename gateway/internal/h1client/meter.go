package h1client

import (
	"errors"
	"net"
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
