package amqpidem

import (
	"net"
	"sync"
)

// gatherConn is a connection that makes one write of several. RabbitMQ's client flushes each frame.
type gatherConn struct {
	net.Conn

	mu        sync.Mutex // guards the fields below
	gathering bool
	waiting   []byte
}

// Write implements [net.Conn]. While the connection gathers, bytes of all writers wait for flush.
func (c *gatherConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.gathering {
		defer c.mu.Unlock()
		c.waiting = append(c.waiting, b...)
		return len(b), nil
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// startGathering makes writes wait until flush. Each call of startGathering is followed by one of
// flush, and calls do not overlap.
func (c *gatherConn) startGathering() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gathering = true
}

// flush writes what has gathered. The lock is held meanwhile, so that no later write overtakes it.
func (c *gatherConn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gathering = false
	if len(c.waiting) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.waiting)
	c.waiting = c.waiting[:0]
	return err
}
