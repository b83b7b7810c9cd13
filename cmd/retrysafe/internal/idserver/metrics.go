package idserver

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/retrysafe/retrysafe/gateway"
)

// metrics are the Prometheus metrics of a server.
type metrics struct {
	registry           *prometheus.Registry
	snowflake, segment *kindMetrics
}

// kindMetrics has the metrics of one kind of ids.
type kindMetrics struct {
	ids     prometheus.Counter
	seconds prometheus.Observer
	errors  map[string]prometheus.Counter // by reason; read-only
}

func newMetrics(s *Server) *metrics {
	ids := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "retrysafe_ids_total", Help: "Ids that were given."}, []string{"kind"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "retrysafe_ids_seconds", Help: "Time to make the ids of a request.", Buckets: []float64{.00001, .0001, .001, .005, .01, .05, .1, .5, 1, 5},
	}, []string{"kind"})
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "retrysafe_ids_errors_total", Help: "Requests without an id, by reason."}, []string{"kind", "reason"})
	m := &metrics{registry: prometheus.NewRegistry()}
	of := func(name string) *kindMetrics {
		k := &kindMetrics{ids: ids.WithLabelValues(name), seconds: seconds.WithLabelValues(name), errors: map[string]prometheus.Counter{}}
		for _, reason := range []string{"request", "no-tag", "away", "for-good", "gone"} {
			k.errors[reason] = failed.WithLabelValues(name, reason)
		}
		return k
	}
	m.snowflake, m.segment = of("snowflake"), of("segment")
	m.registry.MustRegister(gateway.BuildInfo(), ids, seconds, failed,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "retrysafe_ids_layout_left_seconds", Help: "What is left of the time of the layout."},
			func() float64 { return s.workerIDs.current.Load().ids.Left().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "retrysafe_ids_worker", Help: "The worker number."},
			func() float64 { return float64(s.workerIDs.current.Load().held.Number()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "retrysafe_ids_workers_lost_total", Help: "Worker numbers whose lease was lost."},
			func() float64 { return float64(s.workerIDs.lost.Load()) }),
		leftCollector{s.segments}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) newHandler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 100})
}

func (k *kindMetrics) countMade(n int, took time.Duration) {
	k.ids.Add(float64(n))
	k.seconds.Observe(took.Seconds())
}

func (k *kindMetrics) countFailed(reason string) { k.errors[reason].Inc() }

// leftCollector collects how many ids are left in the current ranges, by tag.
type leftCollector struct{ s *segments }

var leftDesc = prometheus.NewDesc("retrysafe_ids_left", "Ids of the tag that can be given without another word of the store.", []string{"tag"}, nil)

func (l leftCollector) Describe(c chan<- *prometheus.Desc) { c <- leftDesc }

func (l leftCollector) Collect(c chan<- prometheus.Metric) {
	for tag, n := range l.s.idsLeft() {
		c <- prometheus.MustNewConstMetric(leftDesc, prometheus.GaugeValue, float64(n), tag)
	}
}
