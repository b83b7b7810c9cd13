package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// upstreamState shows which upstreams of the current gateway get requests now, also after it was
// replaced.
type upstreamState struct {
	live *Live
	up   *prometheus.Desc
	room *prometheus.Desc
}

// WatchUpstreams adds metrics of the state of l's upstreams, and of the memory for the bodies of
// guarded requests. Call it once.
func (m *Monitor) WatchUpstreams(l *Live) {
	m.registry.MustRegister(&upstreamState{
		live: l,
		up:   prometheus.NewDesc("retrysafe_upstream_up", "1 while the upstream gets requests, 0 while it is left out.", []string{"upstream"}, nil),
		room: prometheus.NewDesc("retrysafe_body_bytes", "Memory that the bodies of guarded requests take; limits: {bodies} bounds it.", nil, nil),
	})
}

// Describe implements [prometheus.Collector].
func (s *upstreamState) Describe(to chan<- *prometheus.Desc) { to <- s.up; to <- s.room }

// Collect implements [prometheus.Collector]. Upstreams that differ only in their path share a
// figure: the worse one.
func (s *upstreamState) Collect(to chan<- prometheus.Metric) {
	g := s.live.now.Load()
	to <- prometheus.MustNewConstMetric(s.room, prometheus.GaugeValue, float64(g.bodies.Used()))
	now, up := time.Now(), map[string]float64{}
	for _, u := range g.upstreams.all {
		if _, seen := up[u.url.Host]; !u.well(now) {
			up[u.url.Host] = 0
		} else if !seen {
			up[u.url.Host] = 1
		}
	}
	for host, state := range up {
		to <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, state, host)
	}
}
