package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// Gateway is the proxy, an http.Handler. It is safe for concurrent use.
type Gateway struct {
	upstream *url.URL
	timeout  time.Duration
	logger   *slog.Logger
	wire     *wire
	guarded  http.Handler
	plain    *httputil.ReverseProxy
	limit    int64 // of an answer that is kept
}

// fromUs are fields that only this gateway may set: a client must not pretend to be it.
var fromUs = []string{"Idempotency-Attempt", "Idempotency-Fence", "Idempotency-Replayed", "Idempotency-Stored", "Idempotency-Outcome"}

// New returns a gateway on the engine e; the caller shuts both down, the gateway's server first.
func New(e *retrysafe.Engine, o *Options) (*Gateway, error) {
	if o == nil {
		o = new(Options)
	}
	if err := o.Validate(e.Policy()); err != nil {
		return nil, err
	}
	u, err := parseUpstream(o.Upstream)
	if err != nil {
		return nil, err
	}
	g := &Gateway{upstream: u, timeout: o.TimeoutAnswer, logger: o.Logger, wire: newWire()}
	if g.timeout == 0 {
		g.timeout = time.Minute
	}
	if g.logger == nil {
		g.logger = slog.Default()
	}
	guard := o.Guard
	if guard.Tenant == nil {
		guard.Tenant, guard.Binding = httpidem.Credential(e)
	}
	if guard.Layer == "" {
		guard.Layer = "gw"
	}
	g.limit = min(guard.Policy.Or(e.Policy()).MaxAnswer, 1<<20)
	g.plain = &httputil.ReverseProxy{
		Rewrite:       g.rewrite,
		Transport:     g.wire,
		FlushInterval: -1,
		ErrorHandler:  g.plainFailed,
		ErrorLog:      slog.NewLogLogger(g.logger.Handler(), slog.LevelWarn),
	}
	g.guarded = httpidem.New(e, &guard).Handler(http.HandlerFunc(g.pass))
	return g, nil
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, name := range fromUs {
		delete(r.Header, name)
	}
	g.guarded.ServeHTTP(w, r)
}

// Close ends the idle connections to the upstream.
func (g *Gateway) Close() { g.wire.CloseIdleConnections() }

// pass is behind the guard: what carries an attempt is sent at most once, all else is proxied as usual.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request) {
	if a, ok := retrysafe.AttemptFrom(r.Context()); ok {
		g.sendOnce(w, r, a)
		return
	}
	g.plain.ServeHTTP(w, r)
}

// rewrite addresses a request that is not guarded.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	p.SetURL(g.upstream)
	p.Out.Host = p.In.Host
	p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	p.SetXForwarded()
}

// plainFailed answers for an upstream that did not.
func (g *Gateway) plainFailed(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	if r.Context().Err() == nil {
		g.logger.Warn("upstream failed", "method", r.Method, "path", r.URL.EscapedPath(), "error", err)
	}
	http.Error(w, "The service did not answer.", status)
}

// Admin is for operators: GET /healthz answers 200 while the process lives. Keep it on an address of its own.
func Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}
