package redisstreamidem_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/servertest"
)

// proxy stands between a client and the server.
type proxy struct {
	*servertest.Proxy

	mu    sync.Mutex
	words string // text of the reply that is lost
}

func startProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	p := new(proxy)
	p.Proxy = servertest.NewProxy(tb, to)
	p.Serve(func(client, server net.Conn) {
		servertest.Both(client, server, func() { p.Copy(server, client) }, func() { p.Copy(held{client, p}, server) })
	})
	return p
}

// held inspects what the server sends.
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

// loseReply cuts the connection instead of passing on the next reply that contains words. It
// reports whether that has happened for the earlier words.
func (p *proxy) loseReply(words string) (lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost = p.words == ""
	p.words = words
	return lost
}
