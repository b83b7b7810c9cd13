package gateway

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// connections counts the connections of a server. At the limit it closes the connections that have
// been idle longest, to accept a new one; if none is idle, it closes the new one.
type connections struct {
	most int64
	log  *slog.Logger
	// waiting returns the idle connections of the front; nil: there is no front.
	waiting func() []idleConn

	open, refused, ended atomic.Int64
	told                 atomic.Int64 // when a refusal was last logged

	mu   sync.Mutex
	idle map[net.Conn]time.Time // the idle connections of net/http, and since when they are idle
}

// idleConn is a connection without a request.
type idleConn struct {
	since time.Time
	end   func() bool // false: it is not idle any more
}

func newConnections(most int, log *slog.Logger) *connections {
	return &connections{most: int64(most), log: log, idle: map[net.Conn]time.Time{}}
}

// enter counts an accepted connection. It returns false if the caller must close it.
func (c *connections) enter() bool {
	if c.open.Add(1) <= c.most || c.makeRoom() {
		return true
	}
	c.open.Add(-1)
	n := c.refused.Add(1)
	if now, last := time.Now().UnixNano(), c.told.Load(); now-last > int64(10*time.Second) && c.told.CompareAndSwap(last, now) {
		c.log.Warn("connections are refused: all that there may be are open, and each has a request", "connections", c.most, "refused", n)
	}
	return false
}

func (c *connections) leave() { c.open.Add(-1) }

// makeRoom closes idle connections, one in a hundred at a time, so that a flood does not search all
// of them for each new connection.
func (c *connections) makeRoom() bool {
	all := c.waitingHTTP()
	if c.waiting != nil {
		all = append(all, c.waiting()...)
	}
	slices.SortFunc(all, func(a, b idleConn) int { return cmp.Compare(a.since.UnixNano(), b.since.UnixNano()) })
	ended := int64(0)
	for _, one := range all {
		if ended > c.most/100 {
			break
		}
		if one.end() {
			ended++
		}
	}
	c.ended.Add(ended)
	return ended > 0
}

// waitingHTTP returns the idle connections of net/http.
func (c *connections) waitingHTTP() (all []idleConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn, since := range c.idle {
		all = append(all, idleConn{since, func() bool {
			c.mu.Lock()
			_, still := c.idle[conn]
			delete(c.idle, conn)
			c.mu.Unlock()
			if still {
				go conn.Close()
			}
			return still
		}})
	}
	return all
}

// changed is the ConnState hook of [http.Server].
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateNew || state == http.StateIdle {
		c.idle[conn] = time.Now()
	} else {
		delete(c.idle, conn)
	}
}

// countedListener counts the connections that it accepts.
type countedListener struct {
	net.Listener
	all *connections
}

// Accept implements [net.Listener].
func (l countedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.all.enter() {
			return &begunConn{Conn: c, left: l.all.leave}, nil
		}
		_ = c.Close()
	}
}
