package once

import (
	"slices"
	"sync"
	"time"
)

// maxIdle is how many connections are kept for an address.
const maxIdle = 256

// idleConns are the connections of HTTP/1.1 that have no request. Each is closed after a while.
type idleConns struct {
	most time.Duration // how long a connection may be idle

	mu       sync.Mutex
	of       map[address][]*conn // the one that became idle last is the last
	sweeping bool                // a sweep will come
}

// reuseConn returns a connection that has no request, or nil.
func (i *idleConns) reuseConn(a address) *conn {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.of[a]
	if len(all) == 0 {
		return nil
	}
	c := all[len(all)-1]
	if time.Since(c.idleSince) > i.most {
		return nil // the sweep closes it
	}
	all[len(all)-1] = nil
	i.of[a] = all[:len(all)-1]
	return c
}

// keepConn keeps a connection for another request.
func (i *idleConns) keepConn(c *conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c.idleSince = time.Now() // under the lock, so that they are in order
	if len(i.of[c.to]) >= maxIdle {
		c.wire.cutOff()
		return
	}
	if i.of == nil {
		i.of = map[address][]*conn{}
	}
	i.of[c.to] = append(i.of[c.to], c)
	if !i.sweeping {
		i.sweeping = true
		time.AfterFunc(i.most, i.sweep)
	}
}

// sweep closes what was idle for too long.
func (i *idleConns) sweep() {
	var old []*conn
	i.mu.Lock()
	next := i.most
	for a, all := range i.of {
		n, _ := slices.BinarySearchFunc(all, i.most, func(c *conn, most time.Duration) int {
			if time.Since(c.idleSince) >= most {
				return -1
			}
			return 1
		})
		old = append(old, all[:n]...)
		if n == len(all) {
			delete(i.of, a)
			continue
		}
		i.of[a] = slices.Delete(all, 0, n)
		next = min(next, i.most-time.Since(all[0].idleSince))
	}
	if i.sweeping = len(i.of) > 0; i.sweeping {
		time.AfterFunc(max(next, time.Millisecond), i.sweep)
	}
	i.mu.Unlock()
	closeConns(old)
}

func (i *idleConns) closeAll() {
	i.mu.Lock()
	var all []*conn
	for _, some := range i.of {
		all = append(all, some...)
	}
	i.of = nil
	i.mu.Unlock()
	closeConns(all)
}

// closeConns closes connections that no request has.
func closeConns(all []*conn) {
	for _, c := range all {
		_ = c.stream.Close()
	}
}
