package zklock_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// What clients ask for, by the numbers of the protocol.
const (
	opCreate    = 1
	opDelete    = 2
	opGetData   = 4
	opSetData   = 5
	opPing      = 11
	opChildren  = 12
	opContainer = 19
)

// fate is what becomes of a request.
type fate uint8

const (
	pass        fate = iota
	loseRequest      // the server never sees it; the connection breaks
	loseReply        // it is done; the connection breaks before the reply
	refuse           // it is done, and the reply says that the server does not know it
)

// proxy stands between a client and the server.
type proxy struct {
	addr, to string
	work     sync.WaitGroup

	mu     sync.Mutex
	hook   func(op int32, n int) fate // n counts the requests of that kind
	counts map[int32]int
	events int // that the server has sent
	down   bool
	hold   chan struct{} // closed: goes on; nil: nothing is held back
	lines  map[net.Conn]struct{}
}

func startProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(tb, err, "listen")
	p := &proxy{addr: l.Addr().String(), to: to, counts: map[int32]int{}, lines: map[net.Conn]struct{}{}}
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
	p.drop()
}

func (p *proxy) drop() {
	for c := range p.lines {
		_ = c.Close()
	}
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// stall holds back all that the server says, until flow.
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

func (p *proxy) setHook(hook func(op int32, n int) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
	clear(p.counts)
	p.events = 0
}

// count is how often something was asked for since the hook was set; pings apart.
func (p *proxy) count(op int32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[op]
}

func (p *proxy) all() (n int) {
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

func (p *proxy) ask(op int32) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[op]++
	if p.hook == nil {
		return pass
	}
	return p.hook(op, p.counts[op])
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer to.Close()
	p.mu.Lock()
	if p.down {
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
	var mu sync.Mutex
	fates := map[int32]fate{} // by the number of the request
	p.work.Go(func() {
		defer client.Close()
		defer to.Close()
		for first := true; ; first = false {
			f, err := frame(to)
			if err != nil {
				return
			}
			p.mu.Lock()
			hold := p.hold
			p.mu.Unlock()
			if hold != nil {
				<-hold
			}
			if !first && len(f) >= 20 {
				xid := int32(binary.BigEndian.Uint32(f[4:]))
				mu.Lock()
				what := fates[xid]
				mu.Unlock()
				switch {
				case xid == -1:
					p.mu.Lock()
					p.events++
					p.mu.Unlock()
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
	})
	for first := true; ; first = false {
		f, err := frame(client)
		if err != nil {
			return
		}
		if !first && len(f) >= 12 {
			what := p.ask(int32(binary.BigEndian.Uint32(f[8:])))
			if what == loseRequest {
				return
			}
			mu.Lock()
			fates[int32(binary.BigEndian.Uint32(f[4:]))] = what
			mu.Unlock()
		}
		if _, err := to.Write(f); err != nil {
			return
		}
	}
}

// frame is one message with its length before it.
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
