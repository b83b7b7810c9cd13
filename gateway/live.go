package gateway

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// Live serves by a gateway that can be replaced while requests run: what runs comes to its end on
// the old one, what comes next is the new one's. It is safe for concurrent use.
type Live struct {
	now      atomic.Pointer[Gateway]
	draining atomic.Bool

	mu      sync.Mutex
	retired []*Gateway
}

// NewLive serves by g.
func NewLive(g *Gateway) *Live {
	l := new(Live)
	l.now.Store(g)
	return l
}

// ServeHTTP implements [http.Handler].
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.now.Load().ServeHTTP(w, r) }

func (l *Live) guards(h http.Header) bool { return l.now.Load().guards(h) }

// Replace serves by g from now on. Nothing waits, and no request is lost.
func (l *Live) Replace(g *Gateway) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.now.Swap(g)
	old.retire()
	l.retired = slices.DeleteFunc(append(l.retired, old), func(g *Gateway) bool { return g.busy.Load() == 0 && g != old })
}

// Drain makes /readyz say that this process is going away.
func (l *Live) Drain() { l.draining.Store(true) }

// Close closes all its gateways; see [Gateway.Close].
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.retired {
		g.Close()
	}
	l.now.Load().Close()
}
