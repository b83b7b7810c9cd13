package gateway

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// Live serves requests with a gateway that can be replaced at any time: running requests finish on
// the old gateway, and new ones go to the new gateway. It is safe for concurrent use.
type Live struct {
	current  atomic.Pointer[Gateway]
	draining atomic.Bool

	mu      sync.Mutex
	retired []*Gateway
}

// NewLive returns a Live that serves with g.
func NewLive(g *Gateway) *Live {
	l := new(Live)
	l.current.Store(g)
	return l
}

// ServeHTTP implements [http.Handler].
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.current.Load().ServeHTTP(w, r) }

// Replace serves with g from now on. It waits for no request, and none is lost. g has the engine of
// the gateway before, or one WithPolicy of it: what that one knows of the store holds.
func (l *Live) Replace(g *Gateway) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.history.inherit(l.current.Load().history)
	old := l.current.Swap(g)
	old.retire()
	l.retired = slices.DeleteFunc(append(l.retired, old), func(g *Gateway) bool { return g.inFlight.Load() == 0 && g != old })
}

// Drain makes /readyz report that this process is going away.
func (l *Live) Drain() { l.draining.Store(true) }

// Close closes all its gateways; see [Gateway.Close]. It returns nil.
func (l *Live) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.retired {
		_ = g.Close()
	}
	return l.current.Load().Close()
}
