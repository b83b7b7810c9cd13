package servertest

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// Proxy is a proxy between clients and a server that breaks or stalls their connections when a test
// calls for it. Its methods are safe for concurrent use.
type Proxy struct {
	// Addr is the address for clients.
	Addr string

	listener net.Listener
	serve    func(client, server net.Conn)
	work     sync.WaitGroup

	mu    sync.Mutex
	to    string
	lines map[net.Conn]struct{}
	taken int
	down  bool
	hold  chan struct{} // closed by Flow; nil: not stalled
}

// StartProxy returns a proxy that copies bytes between its clients and the server at to, until the
// test ends.
func StartProxy(tb testing.TB, to string) *Proxy {
	tb.Helper()
	p := NewProxy(tb, to)
	p.Serve(func(client, server net.Conn) {
		Both(client, server, func() { p.Copy(server, client) }, func() { p.Copy(client, server) })
	})
	return p
}

// NewProxy returns a proxy for the server at to. It accepts connections after Serve was called, so
// the function passed to Serve may use the proxy.
func NewProxy(tb testing.TB, to string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(tb, err, "listen")
	p := &Proxy{Addr: l.Addr().String(), listener: l, to: to, lines: map[net.Conn]struct{}{}}
	tb.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.Flow()
		p.work.Wait()
	})
	return p
}

// Serve starts to accept connections. serve handles one connection and returns when it has ended;
// then both sides are closed.
func (p *Proxy) Serve(serve func(client, server net.Conn)) {
	p.serve = serve
	p.work.Go(func() {
		for {
			c, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serveClient(c) })
		}
	})
}

func (p *Proxy) serveClient(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	p.taken++
	to, down := p.to, p.down
	p.mu.Unlock()
	if down {
		return
	}
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.track(client, server) {
		return
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.lines, client)
		delete(p.lines, server)
	}()
	p.serve(client, server)
}

// track returns false if the connections have been cut meanwhile.
func (p *Proxy) track(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	p.lines[client], p.lines[server] = struct{}{}, struct{}{}
	return true
}

// Both runs up, from the client to the server, and down concurrently. When one of them has ended,
// it closes both connections. It returns when the other has ended too.
func Both(client, server net.Conn, up, down func()) {
	var wait sync.WaitGroup
	for _, pump := range []func(){up, down} {
		wait.Go(func() {
			defer client.Close()
			defer server.Close()
			pump()
		})
	}
	wait.Wait()
}

// Copy copies bytes until one side ends, and waits while the proxy is stalled.
func (p *Proxy) Copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.Wait()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Cut breaks all connections, and refuses new ones until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	p.closeLines(false)
}

// Mend accepts connections again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// Break breaks all connections in the middle of their data, and continues to accept new ones.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLines(true)
}

func (p *Proxy) closeLines(reset bool) {
	for c := range p.lines {
		if tcp, ok := c.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

// Stall stops all data until Flow.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold == nil {
		p.hold = make(chan struct{})
	}
}

// Flow ends a Stall.
func (p *Proxy) Flow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold != nil {
		close(p.hold)
		p.hold = nil
	}
}

// Wait returns when the proxy is not stalled. Functions passed to Serve call it before they forward
// data.
func (p *Proxy) Wait() {
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
}

// Move sends new connections to another server.
func (p *Proxy) Move(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

// Connections returns how many connections there have been.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
