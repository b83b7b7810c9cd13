package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// upstreamCollector shows which upstreams of the current gateway get requests now, also after it
// was replaced.
type upstreamCollector struct {
	live      *Live
	up        *prometheus.Desc
	failures  *prometheus.Desc
	bodyBytes *prometheus.Desc
}

// WatchUpstreams adds metrics of the state of l's upstreams, and of the memory for the bodies of
// guarded requests. Call it once.
func (m *Monitor) WatchUpstreams(l *Live) {
	m.registry.MustRegister(&upstreamCollector{
		live:      l,
		up:        prometheus.NewDesc("retrysafe_upstream_up", "1 while the upstream gets requests, 0 while it is left out.", []string{"upstream"}, nil),
		failures:  prometheus.NewDesc("retrysafe_upstream_failures_total", "Requests for which no connection to the upstream could be made.", []string{"upstream"}, nil),
		bodyBytes: prometheus.NewDesc("retrysafe_body_bytes", "Memory that the bodies of guarded requests take; limits: {bodies} bounds it.", nil, nil),
	})
}

// Describe implements [prometheus.Collector].
func (s *upstreamCollector) Describe(to chan<- *prometheus.Desc) {
	to <- s.up
	to <- s.failures
	to <- s.bodyBytes
}

// Collect implements [prometheus.Collector]. Upstreams that differ only in their path share a
// figure: the worse state, and the sum of the failures.
func (s *upstreamCollector) Collect(to chan<- prometheus.Metric) {
	g := s.live.current.Load()
	to <- prometheus.MustNewConstMetric(s.bodyBytes, prometheus.GaugeValue, float64(g.bodies.Used()))
	now, up, failures := time.Now(), map[string]float64{}, map[string]float64{}
	for _, u := range g.upstreams.all {
		failures[u.url.Host] += float64(u.failures.Load())
		if _, seen := up[u.url.Host]; !u.isHealthy(now) {
			up[u.url.Host] = 0
		} else if !seen {
			up[u.url.Host] = 1
		}
	}
	for host, state := range up {
		to <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, state, host)
		to <- prometheus.MustNewConstMetric(s.failures, prometheus.CounterValue, failures[host], host)
	}
}
