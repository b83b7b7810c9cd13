package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// Gateway is the proxy, an http.Handler. It is safe for concurrent use.
type Gateway struct {
	upstream *url.URL
	logger   *slog.Logger
	wire     *wire
	routes   []routed
	guarded  http.Handler // of what no route matches
	plain    *httputil.ReverseProxy
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
	g := &Gateway{upstream: u, logger: o.Logger, wire: newWire()}
	if g.logger == nil {
		g.logger = slog.Default()
	}
	g.plain = &httputil.ReverseProxy{
		Rewrite:       g.rewrite,
		Transport:     g.wire,
		FlushInterval: -1,
		ErrorHandler:  g.plainFailed,
		ModifyResponse: func(r *http.Response) error {
			delete(r.Header, "Idempotency-Outcome") // between service and gateway
			return nil
		},
		ErrorLog: slog.NewLogLogger(g.logger.Handler(), slog.LevelWarn),
	}
	timeout := o.TimeoutAnswer
	if timeout == 0 {
		timeout = time.Minute
	}
	s := g.guard(e, o.Guard, timeout)
	g.guarded = s.middleware.Handler(s)
	for _, r := range o.Routes {
		m, err := parsePattern(r.Match)
		if err != nil {
			return nil, err
		}
		if r.TimeoutAnswer == 0 {
			r.TimeoutAnswer = timeout
		}
		s := g.guard(e, *guardOf(r.Guard, m), r.TimeoutAnswer)
		methods := s.middleware.Options().Methods
		if m.method != "*" {
			methods = []string{m.method} // also where the route guards nothing
		}
		g.routes = append(g.routes, routed{m, methods, s.middleware.Handler(s)})
	}
	return g, nil
}

// guard makes the middleware of a route, and what stands behind it.
func (g *Gateway) guard(e *retrysafe.Engine, o httpidem.Options, timeout time.Duration) *sender {
	if o.Tenant == nil {
		o.Tenant, o.Binding = httpidem.Credential(e)
	}
	if o.Layer == "" {
		o.Layer = "gw"
	}
	m := httpidem.New(e, &o)
	policy := o.Policy.Or(e.Policy())
	return &sender{
		Gateway: g, middleware: m, keys: m.Options().KeyHeader, timeout: min(timeout, policy.MaxRun), limit: min(policy.MaxAnswer, 1<<20),
	}
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, name := range fromUs {
		delete(r.Header, name)
	}
	h := g.handler(r)
	if h == nil || r.Method != strings.ToUpper(r.Method) || r.URL.Opaque != "" {
		// The service might see a request that another route guards.
		http.Error(w, "The method or the path of this request can be read in two ways.", http.StatusBadRequest)
		return
	}
	h.ServeHTTP(w, r)
}

// Close ends the idle connections to the upstream.
func (g *Gateway) Close() { g.wire.CloseIdleConnections() }

// rewrite addresses a request that is not guarded.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	p.SetURL(g.upstream) // and its host: keys do not have the client's, so that the service should not go by it
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
		g.logger.Warn("upstream failed", "method", r.Method, "path", r.URL.EscapedPath(), "cause", class(err))
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
