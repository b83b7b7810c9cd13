package gateway

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
)

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// If there was a Content-Length too, net/http has dropped it. A server before the gateway
		// may have used that length, and would take what follows for a part of this request. So
		// close the connection (RFC 9112, section 6.1).
		w.Header().Set("Connection", "close")
	}
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		g.serveObserved(w, r, "none", nil, http.HandlerFunc(refuseTunnel))
		return
	}
	if advice := g.screenRequest(r); advice != "" {
		g.serveObserved(w, r, "none", nil, g.refuseAmbiguous(advice))
		return
	}
	if c := g.preflightCORS(r); c != nil {
		g.serveObserved(w, r, "preflight", nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			metricsOf(r.Context()).recordOutcome("preflight")
			c.answerPreflight(w, r)
		}))
		return
	}
	if r.URL.Path == StatusPath && r.Method == http.MethodGet {
		g.serveObserved(w, r, "status", g.routes.Rest().cors, http.HandlerFunc(g.serveStatus))
		return
	}
	if g.tokens != nil && r.URL.Path == TokensPath && r.Method == http.MethodPost {
		g.serveObserved(w, r, "tokens", g.routes.Rest().cors, g.routes.Rest().requireSignature(http.HandlerFunc(g.issueToken)))
		return
	}
	x, ok := g.routes.Find(r)
	if !ok || r.Method != strings.ToUpper(r.Method) || !httpidem.IsToken(r.Method) || r.URL.Opaque != "" {
		// The service might read it as a request that another route guards.
		g.serveObserved(w, r, "none", nil, g.refuseAmbiguous("Send the method and the path as the service documents them."))
		return
	}
	g.serveObserved(w, r, x.name, x.cors, x.handler)
}

// refuseTunnel refuses a method that no service behind the gateway gets.
func refuseTunnel(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "This server takes no CONNECT and no TRACE.", http.StatusMethodNotAllowed)
}

// refuseAmbiguous refuses a request that the service could read differently from the guard. No
// route is known then, so the settings of the defaults decide the form of the answer.
func (g *Gateway) refuseAmbiguous(advice string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := httpidem.NewProblem("request-ambiguous", nil)
		p.Detail = advice + " Nothing was done."
		g.routes.Rest().writeProblem(w, r, p)
	})
}

// serveStatus answers a status request with the route of the request that it asks about.
func (g *Gateway) serveStatus(w http.ResponseWriter, r *http.Request) {
	metricsOf(r.Context()).recordOutcome("status")
	x := g.routes.Rest()
	if asked, err := httpidem.AskedFor(r); err == nil {
		if found, ok := g.routes.Find(asked); ok {
			x = found
		}
	}
	x.statusHandler.ServeHTTP(w, r)
}

// preflightCORS returns the CORS of the request that a preflight asks about. nil: the service
// answers the preflight.
func (g *Gateway) preflightCORS(r *http.Request) *cors {
	method := r.Header.Get("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || method == "" || r.Header.Get("Origin") == "" {
		return nil
	}
	if r.URL.Path == StatusPath || g.tokens != nil && r.URL.Path == TokensPath {
		return g.routes.Rest().cors
	}
	asked := *r
	asked.Method = method
	if x, ok := g.routes.Find(&asked); ok {
		return x.cors
	}
	return nil
}

// serveObserved serves with h, and reports to the monitor and the access log.
func (g *Gateway) serveObserved(w http.ResponseWriter, r *http.Request, route string, c *cors, h http.Handler) {
	aw := &answerWriter{ResponseWriter: w, metrics: requestMetrics{route: route, begun: time.Now(), logged: g.accessLog != nil}, writeTime: g.clientTime, cors: c}
	if c != nil {
		aw.origin = r.Header.Get("Origin")
	}
	v := &aw.metrics
	g.inFlight.Add(1)
	defer g.inFlight.Add(-1)
	defer func() { // also if a panic cuts the connection
		v.recordOutcome("refused") // before any call of the engine
		v.mu.Lock()
		outcome, attempt, hash := v.outcome, v.attempt, v.hash
		v.mu.Unlock()
		took := time.Since(v.begun)
		g.monitor.recordRequest(route, outcome, aw.status, took)
		if g.accessLog != nil {
			g.accessLog.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("remote", r.RemoteAddr), slog.String("proto", r.Proto),
				slog.String("method", r.Method), slog.String("path", r.URL.EscapedPath()), slog.String("route", route),
				slog.Int("status", aw.status), slog.Int64("bytes", aw.bytes), slog.Float64("ms", float64(took.Microseconds())/1000),
				slog.String("outcome", outcome), slog.Int("attempt", attempt), slog.String("key_hash", hash))
		}
	}()
	ctx := r.Context()
	if g.continues != nil {
		ctx = g.continues(ctx, r.Header)
	}
	aw.ctx = metricsContext{ctx, v}
	h.ServeHTTP(aw, r.WithContext(&aw.ctx))
	if aw.status == 0 {
		aw.setCORSFields() // an answer without a header or body written
		aw.status = http.StatusOK
	}
}
