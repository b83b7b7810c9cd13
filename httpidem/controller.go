package httpidem

import (
	"net/http"
	"time"
)

// The methods that http.ResponseController looks for.

// Flush sends what there is, all but the last byte.
func (c *capture) Flush() { _ = c.FlushError() }

// FlushError is Flush. That the client has gone is not the handler's matter; that the server cannot flush is.
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
