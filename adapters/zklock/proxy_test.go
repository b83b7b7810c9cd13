package zklock_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/servertest"
)

// Requests of clients, by the numbers of the protocol.
const (
	opCreate    = 1
	opDelete    = 2
	opGetData   = 4
	opSetData   = 5
	opPing      = 11
	opChildren  = 12
	opContainer = 19
)

// fate is what happens to a request.
type fate uint8

const (
	pass        fate = iota
	loseRequest      // the server never sees it; the connection breaks
	loseReply        // it is done; the connection breaks before the reply
	refuse           // it is done, and the reply says that the server does not know it
)

// proxy stands between a client and the server.
type proxy struct {
	*servertest.Proxy

	mu     sync.Mutex
	hook   func(op int32, n int) fate // n counts the requests of that kind
	counts map[int32]int
	events int // that the server has sent
}

func startProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	p := &proxy{counts: map[int32]int{}}
	p.Proxy = servertest.NewProxy(tb, to)
	p.Serve(func(client, server net.Conn) {
		c := &carried{proxy: p, fates: map[int32]fate{}}
		servertest.Both(client, server, func() { c.requests(client, server) }, func() { c.replies(server, client) })
	})
	return p
}

func (p *proxy) setHook(hook func(op int32, n int) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
	clear(p.counts)
	p.events = 0
}

// requestCount returns how often a request was sent since the hook was set, pings excluded.
func (p *proxy) requestCount(op int32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[op]
}

func (p *proxy) allRequests() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for op, k := range p.counts {
		if op != opPing {
			n += k
		}
	}
	return n
}

func (p *proxy) told() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events
}

func (p *proxy) fateOf(op int32) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[op]++
	if p.hook == nil {
		return pass
	}
	return p.hook(op, p.counts[op])
}

// carried is one connection.
type carried struct {
	*proxy

	mu    sync.Mutex
	fates map[int32]fate // by the number of the request
}

func (c *carried) requests(client, server net.Conn) {
	for first := true; ; first = false {
		f, err := frame(client)
		if err != nil {
			return
		}
		if !first && len(f) >= 12 {
			what := c.fateOf(int32(binary.BigEndian.Uint32(f[8:])))
			if what == loseRequest {
				return
			}
			c.mu.Lock()
			c.fates[int32(binary.BigEndian.Uint32(f[4:]))] = what
			c.mu.Unlock()
		}
		if _, err := server.Write(f); err != nil {
			return
		}
	}
}

func (c *carried) replies(server, client net.Conn) {
	for first := true; ; first = false {
		f, err := frame(server)
		if err != nil {
			return
		}
		c.Wait()
		if !first && len(f) >= 20 {
			xid := int32(binary.BigEndian.Uint32(f[4:]))
			c.mu.Lock()
			what := c.fates[xid]
			c.mu.Unlock()
			switch {
			case xid == -1:
				c.event()
			case what == loseReply:
				return
			case what == refuse:
				binary.BigEndian.PutUint32(f[16:], 0xfffffffa) // -6
			}
		}
		if _, err := client.Write(f); err != nil {
			return
		}
	}
}

func (p *proxy) event() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events++
}

// frame reads one message with its length before it.
func frame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	f := make([]byte, 4+binary.BigEndian.Uint32(head))
	copy(f, head)
	_, err := io.ReadFull(r, f[4:])
	return f, err
}
