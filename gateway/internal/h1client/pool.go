package h1client

import (
	"bufio"
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/gateway/internal/h1"
)

const (
	// below the idle limits of servers (gunicorn 2 s, Node 5 s), so that the gateway closes first:
	// a request that meets a connection just being closed is in doubt
	idleTime = 1500 * time.Millisecond
	maxIdle  = 256 // connections kept for an address
)

// Pool has the kept connections to all services. It is safe for concurrent use.
type Pool struct {
	dialer *net.Dialer

	mu     sync.Mutex
	idle   map[string][]*Conn // the most recently used one is last
	reaper *time.Timer
	closed bool
}

// NewPool returns an empty pool.
func NewPool(d *net.Dialer) *Pool { return &Pool{dialer: d, idle: map[string][]*Conn{}} }

// Kept returns a kept connection that is still open, or nil.
func (p *Pool) Kept(host string) *Conn {
	for {
		p.mu.Lock()
		all := p.idle[host]
		if len(all) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := all[len(all)-1]
		p.idle[host] = all[:len(all)-1]
		p.mu.Unlock()
		if time.Since(c.since) < idleTime && c.peek.Quiet() {
			return c
		}
		_ = c.Close() // the service has closed it, or has sent something unasked
	}
}

// Dial makes a connection, and reports its progress to the trace of ctx.
func (p *Pool) Dial(ctx context.Context, host string) (*Conn, error) {
	addr := host
	if _, _, err := net.SplitHostPort(host); err != nil {
		addr = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	nc, err := p.dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, &unreachable{err}
	}
	c := &Conn{meter: &meter{Conn: nc}, pool: p, host: host, peek: h1.NewPeeker(nc)}
	c.limit.R = c.meter
	c.in = bufio.NewReaderSize(&c.limit, 8<<10)
	return c, nil
}

// keep keeps a connection for reuse.
func (p *Pool) keep(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[c.host]) >= maxIdle || c.in.Buffered() > 0 {
		_ = c.Close()
		return
	}
	c.since, c.used = time.Now(), true
	p.idle[c.host] = append(p.idle[c.host], c)
	if p.reaper == nil {
		p.reaper = time.AfterFunc(idleTime, p.reap)
	}
}

// reap closes what has been idle for too long.
func (p *Pool) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaper = nil
	left := false
	for host, all := range p.idle {
		n := 0
		for n < len(all) && time.Since(all[n].since) >= idleTime {
			_ = all[n].Close()
			n++
		}
		p.idle[host] = append([]*Conn(nil), all[n:]...)
		left = left || len(all) > n
	}
	if left && !p.closed {
		p.reaper = time.AfterFunc(idleTime/4, p.reap)
	}
}

// Close closes the idle connections; each other one closes once it is idle.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for host, all := range p.idle {
		for _, c := range all {
			_ = c.Close()
		}
		delete(p.idle, host)
	}
}
