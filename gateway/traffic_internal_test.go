package gateway

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestTraffic(t *testing.T) {
	m := NewMonitor(nil)
	m.recordRequest("POST /a", "executed", 201, time.Millisecond)
	traffic := NewTraffic(m)
	m.recordRequest("POST /a", "executed", 201, time.Millisecond)
	m.recordRequest("POST /b", "replayed", 201, time.Millisecond)
	now := time.Unix(1000, 0)
	traffic.addPoint(now)
	traffic.addPoint(now.Add(trafficSpan))
	history := traffic.History()
	assert.Equal(t, len(history), 2, "points")
	assert.Equal(t, history[0].Outcomes["executed"], 1, "requests since the traffic began")
	assert.Equal(t, history[0].Outcomes["replayed"], 1, "replays")
	assert.Equal(t, len(history[1].Outcomes), 0, "outcomes of a quiet span")
	routes := traffic.Routes()
	assert.Equal(t, len(routes), 2, "routes")
	assert.Equal(t, routes[0].Outcomes["executed"], 2, "requests of the first route since the start")
	for range 2 * mostPoints {
		traffic.addPoint(now)
	}
	assert.Equal(t, len(traffic.History()), mostPoints, "points that are kept")
}
