package h1server

import (
	"errors"
	"io"
	"net"
	"sync"
)

// handedOver is the listener through which the server gets connections from the fast path.
type handedOver struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements [net.Listener].
func (h *handedOver) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (h *handedOver) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements [net.Listener].
func (h *handedOver) Addr() net.Addr { return &net.TCPAddr{} }

// take passes a connection to the server.
func (h *handedOver) take(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		_ = c.Close()
	}
}

// begunConn is a connection from which some bytes have already been read.
type begunConn struct {
	net.Conn

	begun []byte // bytes to return first
	left  func() // called once, when the connection is closed
	once  sync.Once
}

// Close implements [net.Conn].
func (c *begunConn) Close() error {
	c.once.Do(c.left)
	return c.Conn.Close()
}

// Read implements [net.Conn].
func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.begun) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.begun)
	c.begun = c.begun[n:]
	return n, nil
}

// CloseWrite closes one direction, for tunnels and for net/http.
func (c *begunConn) CloseWrite() error {
	if one, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return one.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ReadFrom implements [io.ReaderFrom], so that files are sent as efficiently as without the fast
// path.
func (c *begunConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
