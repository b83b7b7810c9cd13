package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/version"
)

// Monitor counts what gateways do, as Prometheus metrics. One monitor serves a process, and
// continues to count when the configuration is replaced. A nil Monitor counts nothing. It shows
// routes as they are configured, and never a key, a path or a tenant.
type Monitor struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	answers     *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	attempts    *prometheus.CounterVec
	live        prometheus.Gauge
	doubts      *prometheus.CounterVec
	cookies     *prometheus.CounterVec
	lapsed      prometheus.Counter
	refused     *prometheus.CounterVec // callers of the console
	expiry      *prometheus.GaugeVec
	marks       *prometheus.GaugeVec // no figure before the store has answered
	wentBack    *prometheus.GaugeVec
	store       map[string]prometheus.Observer // by call; never changed
	storeErrors *prometheus.CounterVec
	log         *slog.Logger
	known       sync.Map // routeOutcome -> *outcomeMetrics; routes and outcomes are few

	mu       sync.Mutex // guards the rest
	failedAt time.Time  // the last failure of the store
	failedOp string     // its call
	pause    logPause
	unlogged int // failures since then that were not logged
}

// MonitorOptions configure a [Monitor]. Nil and the zero value of each field are valid.
type MonitorOptions struct {
	// Logger gets failures of the store, at most one line in ten seconds. By default they are not
	// logged, only counted.
	Logger *slog.Logger
}

// NewMonitor returns a monitor.
func NewMonitor(o *MonitorOptions) *Monitor {
	var own MonitorOptions
	if o != nil {
		own = *o
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	seconds := func(name, help string, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{label})
	}
	m := &Monitor{
		log:      own.Logger,
		registry: prometheus.NewRegistry(),
		requests: counter("retrysafe_requests_total", "Requests that were answered, by route and outcome.", "route", "outcome"),
		answers:  counter("retrysafe_answers_total", "Requests that were answered, by route and class of status: 2xx to 5xx, or none if the connection was cut.", "route", "class"),
		seconds:  seconds("retrysafe_request_seconds", "Time from a request to the end of its answer.", "route"),
		attempts: counter("retrysafe_attempts_total", "Attempts that have ended, by route and by how; late ones too.", "route", "outcome"),
		live: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "retrysafe_live_attempts", Help: "Guarded requests that are with the service now, also those whose client has an answer already.",
		}),
		cookies: counter("retrysafe_cookies_changed_total", "Duplicates that were refused since they came with other cookies, by route.", "route"),
		lapsed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "retrysafe_claims_lapsed_total", Help: "Claims whose reply was lost that are not given back, since too many wait or the store was away for an hour.",
		}),
		refused:     counter("retrysafe_console_refused_total", "Requests to the console that were refused, by code.", "code"),
		doubts:      counter("retrysafe_doubts_total", "Attempts that ended in doubt, by route and cause.", "route", "cause"),
		store:       map[string]prometheus.Observer{},
		storeErrors: counter("retrysafe_store_errors_total", "Calls of the store that failed.", "op"),
		expiry:      newExpiryGauge(),
		marks: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "retrysafe_store_marks", Help: "Marks that gateways have left in the store, about one in five seconds, by namespace. It becomes smaller only if the store went back to an older state.",
		}, []string{"namespace"}),
		wentBack: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "retrysafe_store_went_back", Help: "1 if the store is in an older state than was seen before, such as a restored backup, and no operator has accepted that; by namespace.",
		}, []string{"namespace"}),
	}
	store := seconds("retrysafe_store_seconds", "Time of calls of the store.", "op")
	for _, op := range storeCalls {
		m.store[op] = store.WithLabelValues(op)
		m.storeErrors.WithLabelValues(op) // there from the start: an alert sees only what grows
	}
	for _, code := range []string{"unauthenticated", "forbidden"} {
		// there from the start, for alerts
		m.refused.WithLabelValues(code)
	}
	m.registry.MustRegister(BuildInfo(), m.requests, m.answers, m.expiry, m.seconds, m.attempts, m.live, m.doubts, m.cookies, m.lapsed, m.refused, m.marks, m.wentBack, store, m.storeErrors,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// BuildInfo returns the metric retrysafe_build_info, for programs that register metrics themselves
// in addition to a [Monitor]: 1, with the version of retrysafe, its commit if it is known, and the
// version of Go.
func BuildInfo() prometheus.Collector {
	v := version.Read("github.com/retrysafe/retrysafe/gateway")
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "retrysafe_build_info", Help: "1, with the version of retrysafe, its commit if it is known, and the version of Go.",
	}, []string{"version", "revision", "goversion"})
	build.WithLabelValues(v.Version, v.Revision, v.GoVersion).Set(1)
	return build
}

// storeCalls are the names of [retrysafe.StoreInfo].
var storeCalls = []string{"acquire", "extend", "complete", "release", "lookup", "issue", "charge", "sweep"}

// Trace returns a trace for the options of the engine, which reports to the monitor and the access
// log.
func (m *Monitor) Trace() *retrysafe.Trace {
	return &retrysafe.Trace{
		Call: func(ctx context.Context, info retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
			v := metricsOf(ctx)
			return ctx, func(d retrysafe.CallDone) {
				if v == nil {
					return
				}
				hash := ""
				if v.logged {
					hash = info.Hash()
				}
				v.recordCall(hash, d)
				if attemptOutcomes[d.Outcome] {
					m.attempts.WithLabelValues(v.route, d.Outcome).Inc()
				}
			}
		},
		Store: func(_ context.Context, info retrysafe.StoreInfo) func(error) {
			begun := time.Now()
			return func(err error) {
				if o := m.store[info.Op]; o != nil {
					o.Observe(time.Since(begun).Seconds())
				}
				if err != nil && !errors.Is(err, retrysafe.ErrLeaseLost) {
					m.storeErrors.WithLabelValues(info.Op).Inc()
					m.recordStoreFailure(info.Op, err)
				}
			}
		},
		Lapse: func(context.Context, retrysafe.AttemptInfo) { m.lapsed.Inc() },
		InDoubt: func(ctx context.Context, a retrysafe.AttemptInfo) {
			if v := metricsOf(ctx); v != nil {
				m.doubts.WithLabelValues(v.route, a.Cause).Inc()
			}
		},
	}
}

// ConsoleRefused counts a caller of the console that was refused; it is made for
// [github.com/retrysafe/retrysafe/admin.Options].
func (m *Monitor) ConsoleRefused(code string) {
	if m != nil {
		m.refused.WithLabelValues(code).Inc()
	}
}

func (m *Monitor) setStoreHistory(namespace string, h retrysafe.StoreHistory, wentBack bool) {
	if m == nil {
		return
	}
	m.marks.WithLabelValues(namespace).Set(float64(h.Marks))
	value := 0.0
	if wentBack {
		value = 1
	}
	m.wentBack.WithLabelValues(namespace).Set(value)
}

func (m *Monitor) countChangedCookies(route string) {
	if m != nil {
		m.cookies.WithLabelValues(route).Inc()
	}
}

// recordStoreFailure keeps a failure of the store, and logs it. Error texts of stores name hosts
// and files, never keys.
func (m *Monitor) recordStoreFailure(op string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failedAt, m.failedOp = time.Now(), op
	m.unlogged++
	if m.log == nil || !m.pause.mayLog() {
		return
	}
	m.log.Error("the store fails: what cannot be recorded does not run", "op", op, "error", err.Error(), "times", m.unlogged)
	m.unlogged = 0
}

// lastStoreFailure returns the call that failed last, and how long ago. Without a failure op is
// empty.
func (m *Monitor) lastStoreFailure() (op string, ago time.Duration) {
	if m == nil {
		return "", 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failedOp, time.Since(m.failedAt)
}

// attemptOutcomes are the outcomes of calls that had an attempt of their own.
var attemptOutcomes = map[string]bool{"executed": true, "failed": true, "released": true, "doubt": true, "lease-lost": true, "unconfirmed": true}

// outcomeMetrics caches the metrics of a route and an outcome, so that their labels are not looked
// up for each request.
type outcomeMetrics struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
	answers  [len(statusClasses)]prometheus.Counter
	n        atomic.Uint64 // as requests, for Traffic
}

type routeOutcome struct{ route, outcome string }

// statusClasses are the classes of statuses, by their first digit.
var statusClasses = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx", "other"}

func (m *Monitor) recordRequest(route, outcome string, status int, took time.Duration) {
	if m == nil {
		return
	}
	known, ok := m.known.Load(routeOutcome{route, outcome})
	if !ok {
		known, _ = m.known.LoadOrStore(routeOutcome{route, outcome}, m.newOutcomeMetrics(route, outcome))
	}
	if s, ok := known.(*outcomeMetrics); ok {
		s.n.Add(1)
		s.requests.Inc()
		s.answers[min(status/100, len(s.answers)-1)].Inc()
		s.seconds.Observe(took.Seconds())
	}
}

func (m *Monitor) newOutcomeMetrics(route, outcome string) *outcomeMetrics {
	o := &outcomeMetrics{requests: m.requests.WithLabelValues(route, outcome), seconds: m.seconds.WithLabelValues(route)}
	for i, class := range statusClasses {
		o.answers[i] = m.answers.WithLabelValues(route, class)
	}
	return o
}

func (m *Monitor) addLiveAttempts(change float64) {
	if m != nil {
		m.live.Add(change)
	}
}

// WatchServer adds metrics of the connections of s. Call it once, with the server that faces
// clients.
func (m *Monitor) WatchServer(s *Server) {
	gauge := prometheus.GaugeOpts{Name: "retrysafe_connections", Help: "Connections that are open."}
	refused := prometheus.CounterOpts{Name: "retrysafe_connections_refused_total", Help: "Connections that were closed at once, since all that there may be had a request."}
	ended := prometheus.CounterOpts{Name: "retrysafe_connections_ended_total", Help: "Idle connections that were closed to make room for new ones."}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(gauge, func() float64 { return float64(s.connLimit.open.Load()) }),
		prometheus.NewCounterFunc(refused, func() float64 { return float64(s.connLimit.refusedCount.Load()) }),
		prometheus.NewCounterFunc(ended, func() float64 { return float64(s.connLimit.closedIdle.Load()) }),
	)
}

// Handler returns a handler that serves the metrics. Requests that come while they are read share
// one reading, since it waits for a store that does not answer. A client has 30 s to read the
// answer.
func (m *Monitor) Handler() http.Handler {
	serve := promhttp.HandlerFor(&sharedGatherer{from: m.registry}, promhttp.HandlerOpts{MaxRequestsInFlight: 100})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// a writer that has no deadline is none of a server
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Second))
		serve.ServeHTTP(w, r)
	})
}

// sharedGatherer reads metrics for all that ask while it reads.
type sharedGatherer struct {
	from    prometheus.Gatherer
	mu      sync.Mutex
	running *reading
}

// reading is one reading of the metrics. The fields are set when done is closed.
type reading struct {
	done    chan struct{}
	metrics []*dto.MetricFamily
	err     error
}

func (g *sharedGatherer) Gather() ([]*dto.MetricFamily, error) {
	g.mu.Lock()
	now := g.running
	if now == nil {
		now = &reading{done: make(chan struct{})}
		g.running = now
		g.mu.Unlock()
		now.metrics, now.err = g.from.Gather()
		g.mu.Lock()
		g.running = nil
		close(now.done)
	}
	g.mu.Unlock()
	<-now.done
	return now.metrics, now.err
}
