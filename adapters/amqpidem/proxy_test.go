package amqpidem_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// The methods that tests look for: class and number of the protocol, and who says it.
type method struct {
	server        bool
	class, number uint16
}

var (
	publishes = method{false, 60, 40}
	confirms  = method{true, 60, 80}
	acks      = method{false, 60, 80}
	consumes  = method{false, 60, 20}
)

// fate is what becomes of a method, and of its connection.
type fate uint8

const (
	pass     fate = iota
	lose          // it does not arrive; the connection breaks
	swallow       // it does not arrive; the connection goes on
	cutAfter      // it arrives; the connection breaks
)

// proxy stands between a client and the server.
type proxy struct {
	addr, to string
	work     sync.WaitGroup

	mu     sync.Mutex
	hook   func(m method, n int) fate // n counts the methods of that kind
	counts map[method]int
	down   bool
	hold   chan struct{} // closed: goes on; nil: nothing is held back
	lines  map[net.Conn]struct{}
	lined  int // connections that there ever were
}

func startProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(tb, err, "listen")
	p := &proxy{addr: l.Addr().String(), to: to, counts: map[method]int{}, lines: map[net.Conn]struct{}{}}
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(c) })
		}
	})
	tb.Cleanup(func() { _ = l.Close(); p.cut(); p.flow(); p.work.Wait() })
	return p
}

// cut breaks all connections, and takes no more of them until mend.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.lines {
		_ = c.Close()
	}
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// stall passes nothing on, until flow.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = make(chan struct{})
}

func (p *proxy) flow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold != nil {
		close(p.hold)
		p.hold = nil
	}
}

func (p *proxy) held() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hold
}

// on does something at the first method of a kind, from now on.
func (p *proxy) on(what method, then fate) {
	p.setHook(func(m method, n int) fate {
		if m == what && n == 1 {
			return then
		}
		return pass
	})
}

func (p *proxy) setHook(hook func(m method, n int) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
	clear(p.counts)
}

// count is how often something was said since the hook was set.
func (p *proxy) count(m method) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[m]
}

// connections is how many there ever were.
func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lined
}

func (p *proxy) ask(m method) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[m]++
	if p.hook == nil {
		return pass
	}
	return p.hook(m, p.counts[m])
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer to.Close()
	p.mu.Lock()
	if p.lined++; p.down {
		p.mu.Unlock()
		return
	}
	p.lines[client], p.lines[to] = struct{}{}, struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.lines, client)
		delete(p.lines, to)
	}()
	p.work.Go(func() {
		defer client.Close()
		defer to.Close()
		p.pump(to, client, true)
	})
	if _, err := io.CopyN(to, client, 8); err != nil { // "AMQP" and the version
		return
	}
	p.pump(client, to, false)
}

// pump passes frames on.
func (p *proxy) pump(from, to net.Conn, server bool) {
	for {
		f, err := frame(from)
		if err != nil {
			return
		}
		if hold := p.held(); hold != nil {
			<-hold
		}
		then := pass
		if f[0] == 1 && len(f) >= 12 {
			then = p.ask(method{server, binary.BigEndian.Uint16(f[7:]), binary.BigEndian.Uint16(f[9:])})
		}
		if then == lose {
			return
		}
		if then != swallow {
			if _, err := to.Write(f); err != nil {
				return
			}
		}
		if then == cutAfter {
			return
		}
	}
}

// frame is one of the protocol: type, channel, size, content, end.
func frame(r io.Reader) ([]byte, error) {
	head := make([]byte, 7)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	f := make([]byte, 8+binary.BigEndian.Uint32(head[3:]))
	copy(f, head)
	_, err := io.ReadFull(r, f[7:])
	return f, err
}
