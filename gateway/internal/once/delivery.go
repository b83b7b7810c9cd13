// Package once sends requests to a service, and never the same one twice. net/http's Transport
// sends a request again by itself when a kept connection breaks, also a POST if it has an
// Idempotency-Key. A [Transport] does not, and a [Delivery] knows whether any byte of a request was
// given to the kernel.
package once

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http/httptrace"
	"strings"
	"sync"
)

// Delivery follows one request to its connection, and knows whether any byte of it was given to the
// kernel. It is safe for concurrent use.
type Delivery struct {
	// Check is called once there is a connection, just before the request is written. Its error
	// stops the request.
	Check func() error

	mu            sync.Mutex
	hasConn       bool // there is a connection
	connectFailed bool // no connection could be made
	conn          *meteredConn
	requestStart  // of this request on the connection
	reused        bool
	shared        bool  // HTTP/2: other requests share the connection
	onlyHTTP1     bool  // the request could be sent twice over HTTP/2
	stopped       error // why nothing was written
}

// deliveryKey is the key of the context's Delivery.
type deliveryKey struct{}

// Follow returns the context for the request.
func (t *Delivery) Follow(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, deliveryKey{}, t))
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone:          func(info httptrace.DNSDoneInfo) { t.noteConnectError(info.Err) },
		ConnectDone:      func(_, _ string, err error) { t.noteConnectError(err) },
		PutIdleConn:      func(error) { t.noteIdle() },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { t.noteConnectError(err) },
		GotConn: func(info httptrace.GotConnInfo) {
			err := t.noteConn(info)
			if err == nil && t.Check != nil {
				err = t.Check()
			}
			if err != nil {
				t.Stop(err)
				cancel(err) // net/http checks it before it writes the head of a request of HTTP/2
			}
		},
	})
}

func (t *Delivery) noteConnectError(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.connectFailed = t.connectFailed || err != nil
}

// errNowHTTP2 means that the service spoke HTTP/1.1 when it was asked, and now speaks HTTP/2.
var errNowHTTP2 = errors.New("the service has begun to speak HTTP/2")

// noteConn notes the connection of the request. An error means that the request must not be sent on
// it.
func (t *Delivery) noteConn(info httptrace.GotConnInfo) error {
	c, encrypted, shared := info.Conn, false, false
	if over, ok := c.(*tls.Conn); ok {
		encrypted, shared = true, over.ConnectionState().NegotiatedProtocol == "h2"
		c = over.NetConn()
	}
	m, _ := c.(*meteredConn)
	var begun requestStart
	if m != nil { // a new connection of TLS has tickets to read
		begun = m.assignTurn(!shared && (info.Reused || !encrypted), encrypted)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shared = shared
	t.hasConn, t.reused, t.conn, t.requestStart = true, info.Reused, m, begun
	if shared && t.onlyHTTP1 {
		return errNowHTTP2
	}
	return nil
}

// rejectUnasked reports whether an answer came although nothing of the request was written, so that
// it answers none. It also makes sure that the request is not written later.
func (t *Delivery) rejectUnasked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil || t.shared {
		return false
	}
	t.conn.mu.Lock()
	// The next request may have the connection already: it gets it only after this one was written.
	asked := t.conn.lastWritten >= t.turn
	t.conn.mu.Unlock()
	if !asked {
		t.conn.seal()
	}
	return !asked
}

// noteIdle notes that the connection waits for another request. What the service sends now answers
// none: the connection fails instead of passing it on, or net/http would write it to its log.
func (t *Delivery) noteIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn != nil {
		t.conn.markIdle(t.turn)
	}
}

// Stop records that err stopped the request before anything of it was written, and makes sure that
// nothing is written later.
func (t *Delivery) Stop(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = err
	if t.conn != nil && !t.shared {
		t.conn.seal()
	}
}

// Stopped returns the error that stopped the request before it was written, or nil.
func (t *Delivery) Stopped() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopped
}

// NotSent reports, for a request that failed with err, whether no byte of it was given to the
// kernel, or the service said that it did not accept it. It also makes sure that no byte is sent
// later.
func (t *Delivery) NotSent(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.hasConn, t.stopped != nil:
		return true
	case t.shared:
		return Refused(err) || GoneAway(err)
	case t.conn == nil:
		return false // a connection that does not count
	}
	t.conn.seal()
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.conn.writes == t.writes
}

// NoConnection reports, for a request that was not sent, whether no connection could be made, so
// that the address may be left out for a while. net/http also refuses requests itself, which says
// nothing about the address.
func (t *Delivery) NoConnection(err error) bool {
	var u *unreachableError
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.hasConn && (t.connectFailed || errors.As(err, &u))
}

// Lost reports, for a request that was not sent, whether its connection was gone, so that another
// connection may work.
func (t *Delivery) Lost(err error) (reused, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hasConn && t.reused && !Refused(err), t.hasConn && GoneAway(err)
}

// Answered reports whether any bytes came back.
func (t *Delivery) Answered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil || t.shared {
		return false
	}
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.conn.reads > t.reads
}

// unreachableError is the error of a connection that could not be made.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// cannotRetry is the start of the text in which net/http says why it would have retried a request
// if its body allowed that. There is no error value for a stream that the service has certainly not
// accepted (RFC 9113, section 8.7). One of the reasons, PROTOCOL_ERROR, is no such promise. Only
// net/http's own text counts, from the start: services choose a part of other errors.
const cannotRetry = "http2: Transport: cannot retry err ["

// Refused reports whether err says that the service has not accepted the stream.
func Refused(err error) bool {
	why, ok := strings.CutPrefix(err.Error(), cannotRetry)
	return ok && strings.HasPrefix(why, "stream error: stream ID ") && strings.Contains(why, "; REFUSED_STREAM; received from peer]")
}

// GoneAway reports whether err is a GOAWAY that says that the stream was not accepted.
func GoneAway(err error) bool {
	why, ok := strings.CutPrefix(err.Error(), cannotRetry)
	return ok && strings.HasPrefix(why, "http2: Transport received Server's graceful shutdown GOAWAY]")
}
