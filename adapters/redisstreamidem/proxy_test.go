package redisstreamidem_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// proxy stands between a client and the server.
type proxy struct {
	addr, to string
	work     sync.WaitGroup

	mu    sync.Mutex
	lines map[net.Conn]struct{}
	down  bool
	words string // of a reply that is lost
}

func startProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(tb, err, "listen")
	p := &proxy{addr: l.Addr().String(), to: to, lines: map[net.Conn]struct{}{}}
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(c) })
		}
	})
	tb.Cleanup(func() { _ = l.Close(); p.cut(true); p.work.Wait() })
	return p
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer up.Close()
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return
	}
	p.lines[c], p.lines[up] = struct{}{}, struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(up, c); _ = up.Close(); _ = c.Close() })
	both.Go(func() { _, _ = io.Copy(held{c, p}, up); _ = up.Close(); _ = c.Close() })
	both.Wait()
	p.mu.Lock()
	delete(p.lines, c)
	delete(p.lines, up)
	p.mu.Unlock()
}

// held looks at what the server says.
type held struct {
	net.Conn
	p *proxy
}

func (h held) Write(b []byte) (int, error) {
	h.p.mu.Lock()
	lose := h.p.words != "" && bytes.Contains(b, []byte(h.p.words))
	if lose {
		h.p.words = ""
	}
	h.p.mu.Unlock()
	if lose {
		return 0, io.ErrClosedPipe
	}
	return h.Conn.Write(b)
}

// cut breaks all connections; with down it takes no more of them.
func (p *proxy) cut(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for c := range p.lines {
		_ = c.Close()
	}
}

// loseReply cuts the connection in place of the next reply that has these words in it. It returns
// whether that has happened to the ones before.
func (p *proxy) loseReply(words string) (lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost = p.words == ""
	p.words = words
	return lost
}
