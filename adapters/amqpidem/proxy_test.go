package amqpidem_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/servertest"
)

// The methods that tests look for: class and number of the protocol, and the side that sends it.
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

// fate is what happens to a method and its connection.
type fate uint8

const (
	pass     fate = iota
	lose          // it does not arrive; the connection breaks
	swallow       // it does not arrive; the connection stays
	cutAfter      // it arrives; the connection breaks
)

// proxy stands between a client and the server.
type proxy struct {
	*servertest.Proxy

	mu     sync.Mutex
	hook   func(m method, n int) fate // n counts the methods of that kind
	counts map[method]int
}

func startProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	p := &proxy{counts: map[method]int{}}
	p.Proxy = servertest.NewProxy(tb, to)
	p.Serve(func(client, server net.Conn) {
		servertest.Both(client, server, func() {
			if _, err := io.CopyN(server, client, 8); err == nil { // "AMQP" and the version
				p.pump(client, server, false)
			}
		}, func() { p.pump(server, client, true) })
	})
	return p
}

// onMethod applies a fate to the next method of a kind.
func (p *proxy) onMethod(what method, then fate) {
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

// methodCount returns how often a method was sent since the hook was set.
func (p *proxy) methodCount(m method) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[m]
}

func (p *proxy) fateOf(m method) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[m]++
	if p.hook == nil {
		return pass
	}
	return p.hook(m, p.counts[m])
}

// pump passes frames on.
func (p *proxy) pump(from, to net.Conn, server bool) {
	for {
		f, err := frame(from)
		if err != nil {
			return
		}
		p.Wait()
		then := pass
		if f[0] == 1 && len(f) >= 12 {
			then = p.fateOf(method{server, binary.BigEndian.Uint16(f[7:]), binary.BigEndian.Uint16(f[9:])})
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

// frame reads a frame of the protocol: type, channel, size, content, end.
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
