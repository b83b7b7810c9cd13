package h1server

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

// limit counts the connections of a server. At the limit it closes the connections that have
// been idle longest, to accept a new one; if none is idle, it closes the new one.
type limit struct {
	most int64
	log  *slog.Logger
	// idleConns returns the idle connections of the fast path; nil: there is no fast path.
	idleConns func() []idleConn

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

func newLimit(most int, log *slog.Logger) *limit {
	return &limit{most: int64(most), log: log, idle: map[net.Conn]time.Time{}}
}

// enter counts an accepted connection. It returns false if the caller must close it.
func (l *limit) enter() bool {
	if l.open.Add(1) <= l.most || l.makeRoom() {
		return true
	}
	l.open.Add(-1)
	n := l.refused.Add(1)
	if now, last := time.Now().UnixNano(), l.told.Load(); now-last > int64(10*time.Second) && l.told.CompareAndSwap(last, now) {
		l.log.Warn("connections are refused: all that there may be are open, and each has a request", "connections", l.most, "refused", n)
	}
	return false
}

func (l *limit) leave() { l.open.Add(-1) }

// makeRoom closes idle connections, one in a hundred at a time, so that a flood does not search all
// of them for each new connection.
func (l *limit) makeRoom() bool {
	all := l.idleHTTP()
	if l.idleConns != nil {
		all = append(all, l.idleConns()...)
	}
	slices.SortFunc(all, func(a, b idleConn) int { return cmp.Compare(a.since.UnixNano(), b.since.UnixNano()) })
	ended := int64(0)
	for _, one := range all {
		if ended > l.most/100 {
			break
		}
		if one.end() {
			ended++
		}
	}
	l.ended.Add(ended)
	return ended > 0
}

// idleHTTP returns the idle connections of net/http.
func (l *limit) idleHTTP() (all []idleConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn, since := range l.idle {
		all = append(all, idleConn{since, func() bool {
			l.mu.Lock()
			_, still := l.idle[conn]
			delete(l.idle, conn)
			l.mu.Unlock()
			if still {
				go conn.Close()
			}
			return still
		}})
	}
	return all
}

// changed is the ConnState hook of [http.Server].
func (l *limit) changed(conn net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == http.StateNew || state == http.StateIdle {
		l.idle[conn] = time.Now()
	} else {
		delete(l.idle, conn)
	}
}

// limitedListener counts the connections that it accepts.
type limitedListener struct {
	net.Listener
	limit *limit
}

// Accept implements [net.Listener].
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.limit.enter() {
			return &begunConn{Conn: c, left: l.limit.leave}, nil
		}
		_ = c.Close()
	}
}
