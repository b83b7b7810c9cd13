package once

import (
	"context"
	"net/http/httptrace"
	"sync"
)

// Delivery is what is known of a guarded request that a [Transport] sends. Use it for one call of
// Send, and ask it when Send has returned.
type Delivery struct {
	// Check is called once there is a connection, just before the request is written. Its error
	// stops the request.
	Check func() error

	mu       sync.Mutex // net/http calls from other goroutines
	hasConn  bool       // there was a connection
	reused   bool       // it had another request before
	shared   bool       // HTTP/2: other requests share the connection
	stopped  error      // why nothing was written
	sent     bool       // over HTTP/1.1: the kernel may have some of the request
	answered bool       // over HTTP/1.1: some of an answer came
}

// noteConn notes the connection of the request. An error means that it must not be sent.
func (d *Delivery) noteConn(reused, shared bool) error {
	var err error
	if d.Check != nil {
		err = d.Check()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hasConn, d.reused, d.shared = true, reused, shared
	if d.stopped == nil { // net/http may try another connection of HTTP/2
		d.stopped = err
	}
	return d.stopped
}

// noteFailure notes the outcome of a request of HTTP/1.1 that failed. If its connection did not,
// another one would not help.
func (d *Delivery) noteFailure(sent, answered, connFailed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent, d.answered, d.reused = sent, answered, d.reused && connFailed
}

// follow returns the context for a request of HTTP/2.
func (d *Delivery) follow(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if err := d.noteConn(info.Reused, true); err != nil {
			cancel(err) // net/http looks before it writes the head
		}
	}})
}

// Stopped returns the error that stopped the request before it was written, or nil.
func (d *Delivery) Stopped() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopped
}

// NotSent reports, for a request that failed with err, whether no byte of it was given to the
// kernel, or the service said that it did not accept it.
func (d *Delivery) NotSent(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.hasConn, d.stopped != nil:
		return true
	case d.shared:
		return Refused(err) || GoneAway(err)
	}
	return !d.sent
}

// Lost reports, for a request that was not sent, whether its connection was gone, so that another
// connection may work.
func (d *Delivery) Lost(err error) (reused, gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hasConn && d.reused && !Refused(err), d.hasConn && GoneAway(err)
}

// Answered reports whether any bytes came back over HTTP/1.1.
func (d *Delivery) Answered() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answered
}
