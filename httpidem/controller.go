package httpidem

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// The methods that http.ResponseController looks for.

// Flush sends what has been written, except for the last byte.
func (c *capture) Flush() { _ = c.FlushError() }

// FlushError is like Flush. It returns an error if the server cannot flush, but not if the client
// has gone.
func (c *capture) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return http.ErrHandlerTimeout
	}
	if !c.wrote {
		c.writeHeader(http.StatusOK)
	}
	c.stream()
	err := http.NewResponseController(c.w).Flush()
	if gone := c.r.Context().Err() != nil; gone {
		return nil
	}
	return err
}

// Hijack gives the connection to the handler. What the handler sends on it is not stored: when the
// handler returns, the key is completed without an answer.
func (c *capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, http.ErrHandlerTimeout
	}
	if c.wrote { // what was written before goes first
		c.stream()
		_, _ = c.w.Write(c.held)
		c.held = nil
	}
	conn, rw, err := http.NewResponseController(c.w).Hijack()
	c.hijacked = c.hijacked || err == nil
	return conn, rw, err
}

// ReadFrom implements io.ReaderFrom, so that io.Copy allocates no buffer.
func (c *capture) ReadFrom(src io.Reader) (int64, error) {
	b := newBuffer()
	defer b.free()
	return io.CopyBuffer(struct{ io.Writer }{c}, src, b.b[:cap(b.b)])
}

// SetReadDeadline implements a method that [http.ResponseController] uses.
func (c *capture) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetReadDeadline(t)
}

// SetWriteDeadline implements a method that [http.ResponseController] uses.
func (c *capture) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetWriteDeadline(t)
}

// EnableFullDuplex implements a method that [http.ResponseController] uses.
func (c *capture) EnableFullDuplex() error {
	return http.NewResponseController(c.w).EnableFullDuplex()
}
