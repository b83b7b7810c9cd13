package rueidisclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/redisclient"
)

// lane sends a call that no other is in flight with: on the goroutine of its caller, and on a
// connection that only the lane uses. That saves the switches between goroutines, which take longer
// than the server. The second call of a moment and all after it are sent together.
type lane struct {
	inFlight atomic.Int64 // calls of the client, those that are sent together too

	mu     sync.Mutex
	conn   *laneConn // the last one that was opened
	call   uint64    // the number of the current call, or of the next one
	began  time.Time // when the current call began, or the last one
	cut    bool      // the current call must end: its context has, or Close was called
	unsent bool      // the current call met a connection that was idle for too long
	closed bool
}

// idleAfter is how long the lane's connection may be unused. The lane does not read between calls,
// so it would learn only from a failed call that the server has closed the connection. It is also
// how far apart calls may be to use the lane at all.
const idleAfter = time.Second

// laneKey is the context key by which the lane recognises its own connections.
type laneKey struct{}

// callAlone makes a call that no other is in flight with. If the last one was long ago, or the
// lane's connection was idle for too long, it sends nothing and returns false. It returns no later
// than ctx ends: what ends a call cuts its connection. The caller counts in inFlight.
func (c *Client) callAlone(ctx context.Context, call redisclient.Call) (redisclient.Reply, bool) {
	l := &c.lane
	number, ok := l.startCall()
	if !ok {
		return redisclient.Reply{}, false
	}
	defer afterFunc(ctx, func() { l.cutCall(number) })()
	r := toReply(c.client.Do(context.WithValue(ctx, laneKey{}, l), c.buildCommand(call, false)))
	cut, unsent := l.finishCall()
	switch {
	case unsent:
		return redisclient.Reply{}, false
	case r.Err == nil || errors.As(r.Err, new(redisclient.Error)):
	case ctx.Err() != nil:
		r.Err = ctx.Err()
	case cut:
		r.Err = rueidis.ErrClosing
	}
	return r, true
}

// afterFunc is [context.AfterFunc], without the channel that it asks a context of another package
// for.
func afterFunc(ctx context.Context, f func()) (stop func() bool) {
	if own, ok := ctx.(interface{ AfterFunc(func()) func() bool }); ok {
		return own.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// startCall starts a call unless the one before it is long ago.
func (l *lane) startCall() (number uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	ok = now.Sub(l.began) < idleAfter
	l.began, l.cut, l.unsent = now, l.closed, false
	return l.call, ok
}

// finishCall ends the current call for cutCall.
func (l *lane) finishCall() (cut, unsent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call++
	return l.cut, l.unsent
}

// cutCall cuts the call with that number, if it is still the current one.
func (l *lane) cutCall(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number == l.call {
		l.failConn()
	}
}

// close cuts the current call and all later ones.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.failConn()
}

// failConn makes the connection fail, for a call that has not set its deadline yet too. The caller
// holds the mutex.
func (l *lane) failConn() {
	l.cut = true
	if l.conn != nil {
		_ = l.conn.Conn.SetDeadline(time.Unix(1, 0))
	}
}

// dialForLane opens a connection, and one of the lane if the context is that of a call of the lane.
func dialForLane(ctx context.Context, addr string, d *net.Dialer, conf *tls.Config) (net.Conn, error) {
	conn, err := openConn(ctx, addr, d, conf)
	l, _ := ctx.Value(laneKey{}).(*lane)
	if l == nil || err != nil {
		return conn, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = &laneConn{Conn: conn, lane: l, used: l.began}
	return l.conn, nil
}

// laneConn is the connection of a lane. It refuses to send after it was idle for too long, and
// keeps the deadline of a call that was cut.
type laneConn struct {
	net.Conn
	lane *lane
	used time.Time // when the last call on it began
}

var errIdle = errors.New("rueidisclient: the connection was idle for too long")

// Write implements [net.Conn].
func (c *laneConn) Write(b []byte) (int, error) {
	l := c.lane
	l.mu.Lock()
	l.unsent = l.unsent || l.began.Sub(c.used) >= idleAfter
	unsent := l.unsent
	c.used = l.began
	l.mu.Unlock()
	if unsent {
		return 0, errIdle
	}
	return c.Conn.Write(b)
}

// SetDeadline implements [net.Conn].
func (c *laneConn) SetDeadline(t time.Time) error {
	c.lane.mu.Lock()
	defer c.lane.mu.Unlock()
	if c.lane.cut {
		t = time.Unix(1, 0)
	}
	return c.Conn.SetDeadline(t)
}
