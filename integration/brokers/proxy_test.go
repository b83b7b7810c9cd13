package brokers_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// proxy passes connections on, and cuts them.
type proxy struct {
	addr, to string
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	p := &proxy{addr: l.Addr().String(), to: to, conns: map[net.Conn]struct{}{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		all.Wait()
	})
	return p
}

func (p *proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
}

func (p *proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

// pass copies both ways until one side ends.
func (p *proxy) pass(c net.Conn) {
	p.keep(c)
	defer p.drop(c)
	s, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	p.keep(s)
	defer p.drop(s)
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(c, s)
		_ = c.Close()
	}()
	_, _ = io.Copy(s, c)
	_ = s.Close()
	<-back
}

// cut ends all connections, in the middle of whatever they carry.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}
