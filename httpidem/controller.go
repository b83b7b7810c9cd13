package httpidem

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// The methods that http.ResponseController looks for.

// Flush sends what there is, all but the last byte.
func (c *capture) Flush() { _ = c.FlushError() }

// FlushError is Flush. That the client has gone is not the handler's matter; that the server cannot
// flush is.
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

// Hijack hands the connection over. What the handler says on it is its own: the key is completed
// when it returns, without an answer.
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

// ReadFrom is io.Copy without memory of its own.
func (c *capture) ReadFrom(src io.Reader) (int64, error) {
	b := newBuffer()
	defer b.free()
	return io.CopyBuffer(struct{ io.Writer }{c}, src, b.b[:cap(b.b)])
}

// SetReadDeadline implements what [http.ResponseController] asks for.
func (c *capture) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetReadDeadline(t)
}

// SetWriteDeadline implements what [http.ResponseController] asks for.
func (c *capture) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetWriteDeadline(t)
}

// EnableFullDuplex implements what [http.ResponseController] asks for.
func (c *capture) EnableFullDuplex() error {
	return http.NewResponseController(c.w).EnableFullDuplex()
}
