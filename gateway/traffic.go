package gateway

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/admin"
)

// Traffic is what the gateways of a monitor did, for the console: the counts of each route since
// the start, and of all routes in the last hour. It implements [admin.Traffic].
type Traffic struct {
	monitor *Monitor

	mu         sync.Mutex
	points     []admin.Point
	lastCounts map[string]uint64 // counts by outcome at the last point
}

// A point is made so often, and so many are kept.
const (
	trafficSpan = 10 * time.Second
	mostPoints  = int(time.Hour / trafficSpan)
)

// NewTraffic returns the traffic of a monitor. It has a history while Run runs.
func NewTraffic(m *Monitor) *Traffic { return &Traffic{monitor: m, lastCounts: m.countByOutcome()} }

// Run adds a point to the history every ten seconds, until ctx ends.
func (t *Traffic) Run(ctx context.Context) {
	tick := time.NewTicker(trafficSpan)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			t.addPoint(now)
		}
	}
}

// addPoint adds a point that ends now.
func (t *Traffic) addPoint(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := t.monitor.countByOutcome()
	p := admin.Point{At: now.UTC(), Span: trafficSpan.Seconds(), Outcomes: make(map[string]uint64)}
	for outcome, n := range counts {
		if more := n - t.lastCounts[outcome]; more > 0 {
			p.Outcomes[outcome] = more
		}
	}
	t.lastCounts = counts
	if t.points = append(t.points, p); len(t.points) > mostPoints {
		t.points = slices.Delete(t.points, 0, len(t.points)-mostPoints)
	}
}

// History implements [admin.Traffic].
func (t *Traffic) History() []admin.Point {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.points)
}

// Routes implements [admin.Traffic]. The routes are in the order of their names.
func (t *Traffic) Routes() []admin.Route {
	byName := map[string]map[string]uint64{}
	t.monitor.eachOutcome(func(of routeOutcome, n uint64) {
		if byName[of.route] == nil {
			byName[of.route] = map[string]uint64{}
		}
		byName[of.route][of.outcome] = n
	})
	routes := make([]admin.Route, 0, len(byName))
	for name, outcomes := range byName {
		routes = append(routes, admin.Route{Name: name, Outcomes: outcomes})
	}
	slices.SortFunc(routes, func(a, b admin.Route) int { return cmp.Compare(a.Name, b.Name) })
	return routes
}

// countByOutcome returns the counts of all routes by outcome.
func (m *Monitor) countByOutcome() map[string]uint64 {
	counts := map[string]uint64{}
	m.eachOutcome(func(of routeOutcome, n uint64) { counts[of.outcome] += n })
	return counts
}

func (m *Monitor) eachOutcome(see func(of routeOutcome, n uint64)) {
	m.known.Range(func(of, counted any) bool {
		name, ok := of.(routeOutcome)
		if s, is := counted.(*outcomeMetrics); ok && is {
			see(name, s.n.Load())
		}
		return true
	})
}
