package h1client

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http/httptrace"
	"sync"
)

// Delivery follows one request to its connection, and knows whether any byte of it was given to the
// kernel. It is safe for concurrent use.
type Delivery struct {
	// Check is called once there is a connection, just before the request is written. Its error
	// stops the request.
	Check func() error

	mu      sync.Mutex
	got     bool // there is a connection
	away    bool // no connection could be made
	conn    *meter
	writes  int // on the connection before this request
	reads   int
	reused  bool
	shared  bool  // HTTP/2: other requests share the connection
	stopped error // error of Check: nothing was written
}

// Follow returns the context for the request.
func (t *Delivery) Follow(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone:          func(info httptrace.DNSDoneInfo) { t.connects(info.Err) },
		ConnectDone:      func(_, _ string, err error) { t.connects(err) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { t.connects(err) },
		GotConn: func(info httptrace.GotConnInfo) {
			t.has(info)
			if t.Check == nil {
				return
			}
			if err := t.Check(); err != nil {
				t.Stop(err)
				cancel(err) // net/http checks it before it writes the head of a request of HTTP/2
			}
		},
	})
}

func (t *Delivery) connects(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = t.away || err != nil
}

func (t *Delivery) has(info httptrace.GotConnInfo) {
	c := info.Conn
	t.mu.Lock()
	defer t.mu.Unlock()
	if over, ok := c.(*tls.Conn); ok {
		t.shared = over.ConnectionState().NegotiatedProtocol == "h2"
		c = over.NetConn()
	}
	m, _ := c.(*meter)
	t.on(m, info.Reused)
}

// Take is like has, for a connection that is known.
func (t *Delivery) Take(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on(c.meter, c.used)
}

// on starts counting on a connection; m is nil if it is not a meter. The caller holds t.mu.
func (t *Delivery) on(m *meter, reused bool) {
	t.got, t.reused, t.conn = true, reused, m
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.writes, t.reads = m.writes, m.reads
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
	case !t.got, t.stopped != nil:
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
	var u *unreachable
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.got && (t.away || errors.As(err, &u))
}

// Lost reports, for a request that was not sent, whether its connection was gone, so that another
// connection may work.
func (t *Delivery) Lost(err error) (reused, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.got && t.reused && !Refused(err), t.got && GoneAway(err)
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
