package gateway_test

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpidemtest"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// open starts the gateway before an origin, each in its own server.
func open(t *testing.T, origin http.Handler, s httpidemtest.Setup) string {
	t.Helper()
	up := httptest.NewUnstartedServer(origin)
	up.Config.ErrorLog = log.New(io.Discard, "", 0) // the suite makes handlers panic
	up.Start()
	t.Cleanup(up.Close)
	e := newEngine(t, s.Store, s.Policy)
	if s.Guard.Key == httpidem.Fields || s.Guard.Limit.Rate.PerSecond > 0 {
		// these require a named tenant; the suite knows its callers
		s.Guard.Tenant, s.Guard.Binding = httpidem.ByAuthorization(e)
	}
	return serve(t, e, &gateway.Options{Upstreams: []string{up.URL}, Guard: s.Guard})
}

func newEngine(t *testing.T, s storeapi.Store, p retrysafe.Policy) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Policy: p, Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Shutdown(ctx)
	})
	return e
}

// serve runs a gateway.
func serve(t *testing.T, e *retrysafe.Engine, o *gateway.Options) string {
	t.Helper()
	_, base := serveGateway(t, e, o)
	return base
}

func serveGateway(t *testing.T, e *retrysafe.Engine, o *gateway.Options) (*gateway.Gateway, string) {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g, err := gateway.New(e, o)
	assert.NoError(t, err, "gateway")
	s := gateway.NewServer(g, &gateway.ServerOptions{Logger: slog.New(noPanics{o.Logger.Handler(), t})})
	t.Cleanup(func() {
		_ = s.Close()
		_ = g.Close()
	})
	return g, "http://" + listen(t, s.Serve)
}

// noPanics fails the test if the server logs a panic: its client sees only a lost connection, and
// mostly sends again.
type noPanics struct {
	slog.Handler
	t *testing.T
}

func (h noPanics) Enabled(context.Context, slog.Level) bool { return true }

func (h noPanics) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panic serving") {
		h.t.Errorf("the server panics: %.300s", r.Message)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// listen serves on a free port until the server ends.
func listen(t *testing.T, serve func(net.Listener) error) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	ended := make(chan error, 1)
	go func() { ended <- serve(l) }()
	t.Cleanup(func() {
		_ = l.Close()
		assert.ErrorIs(t, <-ended, net.ErrClosed, "Serve")
	})
	return l.Addr().String()
}

func TestBlackBox(t *testing.T) {
	t.Parallel()
	httpidemtest.Run(t, open)
}

func TestBlackBoxHTTP2(t *testing.T) {
	t.Parallel()
	httpidemtest.RunHTTP2(t, open)
}
