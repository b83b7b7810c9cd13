package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// wire sends requests upstream, and never the same one twice.
//
// net/http's Transport sends a request again on another connection when a reused one breaks and it takes the request for replayable:
// one with an Idempotency-Key and no body, or a body that it can rewind. Ours have a body that it cannot rewind; those without a
// body would go out chunked that way, which old servers reject, so they travel with Content-Length 0 on a connection of their own,
// and a fresh connection is never retried.
type wire struct {
	pooled, fresh *http.Transport
}

func newWire() *wire {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	base := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &meter{Conn: c}, nil
		},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    256,
		MaxResponseHeaderBytes: 256 << 10,
		// Below the idle limits that servers usually have, so that it is this side that closes.
		IdleConnTimeout:    5 * time.Second,
		DisableCompression: true, // answers are passed on as they are
	}
	fresh := base.Clone()
	fresh.DisableKeepAlives = true
	return &wire{pooled: base, fresh: fresh}
}

// RoundTrip implements [http.RoundTripper].
func (x *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return x.pooled.RoundTrip(r)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return x.fresh.RoundTrip(r)
	}
	if r.GetBody != nil {
		r = r.WithContext(r.Context()) // a copy
		r.GetBody = nil
	}
	return x.pooled.RoundTrip(r)
}

// CloseIdleConnections ends what is not in use.
func (x *wire) CloseIdleConnections() {
	x.pooled.CloseIdleConnections()
	x.fresh.CloseIdleConnections()
}

// meter is a connection that knows whether anything was given to the kernel, and can be told to give nothing more.
type meter struct {
	net.Conn

	mu     sync.Mutex
	writes int
	reads  int
	sealed bool
}

var errSealed = errors.New("the gateway has given this request up before it was sent")

// Write counts before it writes: what may have left counts as sent.
func (m *meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	if m.sealed {
		m.mu.Unlock()
		return 0, errSealed
	}
	m.writes++
	m.mu.Unlock()
	return m.Conn.Write(p)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads += n
	return n, err
}

// trip follows one request to its connection.
type trip struct {
	mu     sync.Mutex
	conn   *meter
	writes int // of the connection before this request
	reads  int
	reused bool
}

func (t *trip) follow(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		c := info.Conn
		if inner, ok := c.(interface{ NetConn() net.Conn }); ok {
			c = inner.NetConn() // TLS
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.reused = info.Reused
		t.conn, _ = c.(*meter)
		if t.conn != nil {
			t.conn.mu.Lock()
			t.writes, t.reads = t.conn.writes, t.conn.reads
			t.conn.mu.Unlock()
		}
	}})
}

// notSent tells of a request that failed whether no byte of it was given to the kernel, and makes sure that none is later.
func (t *trip) notSent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return true // it never had a connection
	}
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	t.conn.sealed = true
	return t.conn.writes == t.writes
}

// answered tells whether anything came back.
func (t *trip) answered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return false
	}
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.conn.reads > t.reads
}
