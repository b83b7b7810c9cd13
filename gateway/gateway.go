package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/clientaddr"
	"github.com/retrysafe/retrysafe/gateway/internal/inside"
	"github.com/retrysafe/retrysafe/gateway/internal/once"
	"github.com/retrysafe/retrysafe/gateway/internal/route"
	"github.com/retrysafe/retrysafe/gateway/internal/signed"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/httpidem/token"
)

// Gateway is the proxy, an http.Handler. It is safe for concurrent use.
type Gateway struct {
	upstreams      upstreams
	inside         *inside.Addresses // of the upstreams
	keepHost       bool
	logger         *slog.Logger
	transport      *once.Transport
	routes         *route.Table[*routeHandler]
	unguardedProxy *httputil.ReverseProxy
	tokens         *token.Issuer // nil: no route requires tokens
	keys           []string      // the fields that may have a key, in canonical form
	cookieWarning  sync.Once     // warns the operator once about cookies that change
	issuerFailures logPause

	clientTime time.Duration
	quietTime  time.Duration

	monitor        *Monitor
	accessLog      *slog.Logger
	strippedFields []string // fields that only trusted servers may set
	trusted        []netip.Prefix
	// continues and propagate read and write the fields that carry a trace; nil: none
	continues func(context.Context, http.Header) context.Context
	propagate func(context.Context, http.Header)
	bodies    *httpidem.Bodies
	// protocols that a connection may be switched to, in addition to websocket
	upgrades       []string
	guardFields    map[string]bool // fields that a guard decides by
	addressLimiter *addressLimiter // nil: not counted
	secret         *secretCheck
	history        *historyCheck
	// running requests, and answers that are awaited without a client
	inFlight    atomic.Int64
	lateAnswers atomic.Int64 // only the latter

	ctx              context.Context // ends with Close
	cancel           context.CancelFunc
	mu               sync.Mutex // guards closed
	closed           bool
	running          sync.WaitGroup
	stopHealthChecks context.CancelFunc // ends the health checks
}

// StatusPath is where clients ask for the outcome of a key; see [httpidem.Middleware.Status].
const StatusPath = "/.retrysafe/status"

// gatewayFields are fields that only this gateway may set: a client must not pretend to be the
// gateway.
var gatewayFields = []string{"Idempotency-Attempt", "Idempotency-Fence", "Idempotency-Replayed", "Idempotency-Stored", "Idempotency-Outcome"}

// New returns a gateway on the engine e. At shutdown, the caller must end the server first, then
// the engine, then the gateway.
func New(e *retrysafe.Engine, o *Options) (*Gateway, error) {
	if o == nil {
		o = new(Options)
	}
	if err := o.Validate(e.Policy()); err != nil {
		return nil, err
	}
	g := &Gateway{
		logger: o.Logger, transport: once.NewTransport(o.UpstreamCAs), monitor: o.Monitor, accessLog: o.AccessLog, continues: o.Continue, propagate: o.Propagate,
		keepHost: o.KeepHost, trusted: o.TrustedProxies, addressLimiter: newAddressLimiter(o.NewByAddress), bodies: httpidem.NewBodies(o.bodyMemory()),
		clientTime: cmp.Or(o.ClientTime, time.Minute), quietTime: cmp.Or(o.QuietTime, 5*time.Minute), upgrades: o.Upgrades, guardFields: map[string]bool{},
	}
	for _, name := range o.TrustedHeaders {
		g.strippedFields = append(g.strippedFields, http.CanonicalHeaderKey(name))
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	var addresses []*url.URL
	for _, s := range o.Upstreams {
		u, err := parseUpstream(s)
		if err != nil {
			return nil, err
		}
		g.upstreams.all = append(g.upstreams.all, &upstream{url: u})
		addresses = append(addresses, u)
	}
	g.inside = inside.Of(addresses)
	if g.logger == nil {
		g.logger = slog.Default()
	}
	g.secret = newSecretCheck(e, g.logger)
	g.history = newHistoryCheck(e, o, g.logger)
	g.unguardedProxy = g.newUnguardedProxy()
	g.tokens = o.newTokenIssuer(e)
	if err := g.addRoutes(e, o); err != nil {
		return nil, err
	}
	g.startHealthChecks(o.Health)
	return g, nil
}

// newUnguardedProxy returns the proxy for requests that no guard decides on.
func (g *Gateway) newUnguardedProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:       g.rewriteUnguarded,
		Transport:     balancer{g},
		FlushInterval: -1,
		ErrorHandler:  g.answerUnguardedFailure,
		ModifyResponse: func(r *http.Response) error {
			delete(r.Header, "Idempotency-Outcome") // for the gateway, not for the client
			g.inside.Hide(r.Header, clientOf(r.Request))
			if p, ok := r.Request.Context().Value(peerWatchKey{}).(*peerWatch); ok {
				p.watchAnswer(r)
			}
			return nil
		},
		ErrorLog: slog.NewLogLogger(g.logger.Handler(), slog.LevelWarn),
	}
}

// addRoutes makes the guards of the routes, and of the requests that no route matches.
func (g *Gateway) addRoutes(e *retrysafe.Engine, o *Options) error {
	timeout := o.TimeoutAnswer
	if timeout == 0 {
		timeout = time.Minute
	}
	all := Route{Guard: o.Guard, TimeoutAnswer: timeout, CORS: o.CORS, Signature: o.Signature}
	g.routes = route.NewTable(&route.Entry[*routeHandler]{Guards: all.hasRequirements(), To: g.newRouteHandler(e, "default", &all)})
	for _, r := range o.Routes {
		p, err := route.Parse(r.Match)
		if err != nil {
			return err
		}
		if r.TimeoutAnswer == 0 {
			r.TimeoutAnswer = timeout
		}
		r.Guard = *guardForPattern(r.Guard, p)
		x := g.newRouteHandler(e, r.Match, &r)
		entry := &route.Entry[*routeHandler]{
			Pattern: p, Methods: x.methods, Guards: r.hasRequirements(), ExactCase: r.ExactCase, ExactExtension: r.ExactExtension, To: x,
			EveryMethod: p.Method == "*" && (r.Signature != nil || r.Guard.Limit.Rate.PerSecond > 0),
		}
		if p.Method != "*" {
			entry.Methods = []string{p.Method} // also if the route guards nothing
		}
		g.routes.Add(entry)
	}
	return nil
}

// startHealthChecks starts the health checks, of the store's history too.
func (g *Gateway) startHealthChecks(h Health) {
	ctx, cancel := context.WithCancel(g.ctx)
	g.stopHealthChecks = cancel
	g.running.Go(func() { g.history.keepLooking(ctx) })
	if h.Path == "" {
		return
	}
	if h.Every == 0 {
		h.Every = 5 * time.Second
	}
	if h.Timeout == 0 {
		h.Timeout = 2 * time.Second
	}
	for _, u := range g.upstreams.all {
		g.running.Go(func() { u.watchHealth(ctx, h, g.transport, g.logger) })
	}
}

// newRouteHandler returns a route with its middleware, and with what runs outside and inside it.
func (g *Gateway) newRouteHandler(e *retrysafe.Engine, name string, r *Route) *routeHandler {
	o := r.Guard
	if o.Tenant == nil && o.Credentials == nil && r.Signature != nil {
		o.Tenant = httpsig.Tenant
	}
	if o.Tenant == nil && o.Credentials == nil {
		o.Credentials = new(httpidem.Credentials)
	}
	if o.Limit.Account == nil && o.Credentials != nil {
		o.Limit.Account = o.Credentials.Account(e, g.clientAddress)
	}
	if o.Limit.Bodies == nil {
		o.Limit.Bodies = g.bodies
	}
	if o.Admit == nil {
		o.Admit = g.admitAttempt
	}
	if o.ErrorHandler == nil {
		o.ErrorHandler = g.writeRefusal
	}
	o.Ready = g.readyHook(o.Ready)
	if o.Layer == "" {
		o.Layer = "gw"
	}
	if o.KeySource.Tokens == nil && g.tokens != nil {
		o.KeySource.Tokens = g.tokens
	}
	if o.Limit.BodyTime == 0 {
		o.Limit.BodyTime = time.Minute
	}
	g.addGuardFields(&o, r.Signature != nil)
	m := httpidem.New(e, &o)
	policy := o.Policy.Or(e.Policy())
	layer := o.Layer
	if o.Key == httpidem.Token {
		layer = "token" // whatever o says
	}
	s := &sender{
		bodyTime: o.Limit.BodyTime, layer: layer, Gateway: g, middleware: m, keys: m.Options().KeySource.Header, timeout: min(r.TimeoutAnswer, policy.MaxRun), mostStored: min(policy.MaxAnswer, 1<<20),
	}
	for _, name := range s.keys {
		if !slices.Contains(g.keys, name) {
			g.keys = append(g.keys, name)
		}
	}
	x := &routeHandler{name: name, methods: m.Options().Request.Methods, writeProblem: m.Problem, cors: r.CORS.compile(s.keys, m.ExposedHeaders()), verifier: signed.New(e, r.Signature, r.Guard.Docs, s.keys, g.logger)}
	x.handler, x.statusHandler = x.requireSignature(m.Handler(s)), x.requireSignature(m.Status())
	return x
}

// fromTrustedProxy reports whether the request comes from one of the trusted proxies.
func (g *Gateway) fromTrustedProxy(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := from.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(g.trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// clientAddress returns the address of the client, for limits.
func (g *Gateway) clientAddress(r *http.Request) string { return clientaddr.Of(r, g.trusted) }

// beginRequest counts a guarded request that is about to be sent. It returns false once the gateway
// is closed.
func (g *Gateway) beginRequest() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Add(1)
	g.inFlight.Add(1)
	g.monitor.addLiveAttempts(+1)
	return true
}

func (g *Gateway) endRequest() {
	g.monitor.addLiveAttempts(-1)
	g.inFlight.Add(-1)
	g.running.Done()
}

// Close ends the health checks, the guarded requests that are being sent or answered, and the
// reading of answers that came too late for their clients. The keys of these requests are then in
// doubt. It waits until that is recorded, or until the store has not answered for some seconds. It
// returns nil.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.running.Wait()
	g.transport.CloseIdleConnections()
	return nil
}

// retire lets running requests finish; no new ones begin.
func (g *Gateway) retire() {
	g.stopHealthChecks()
	g.transport.CloseIdleConnections() // other connections close once they are idle
}

// answerUnguardedFailure answers an unguarded request that got no answer from the upstream.
func (g *Gateway) answerUnguardedFailure(w http.ResponseWriter, r *http.Request, err error) {
	status, why := http.StatusBadGateway, closeIfEnded(w, r)
	switch {
	case errors.Is(why, errSlow):
		http.Error(w, "The request came too slowly. It may have reached the service in part.", http.StatusRequestTimeout)
		return
	case errors.Is(why, errQuiet):
		g.logger.Warn("an exchange was ended", "method", r.Method, "path", r.URL.EscapedPath(), "cause", errQuiet.Error())
		status = http.StatusGatewayTimeout
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	}
	if r.Context().Err() == nil {
		g.logger.Warn("upstream failed", "method", r.Method, "path", r.URL.EscapedPath(), "cause", errorClass(err))
	}
	http.Error(w, "The service did not answer.", status)
}
