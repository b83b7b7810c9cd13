package gateway

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// How often collections check the store, how long a check may take, and how long a collection waits
// for it. A scrape that takes longer than the interval of the scrapes fails, and then its series
// end and all alerts with them.
const (
	checkEvery  = 10 * time.Second
	checkTime   = 3 * time.Second
	collectTime = time.Second
)

// storeCheck is a call of the store that collections make. It runs at most every ten seconds, and
// once at a time. A collection waits a second for it at most, and then shows the last figures: a
// store that hangs does not hold up /metrics, not even one that ignores its context.
type storeCheck struct {
	call func(context.Context)

	mu      sync.Mutex
	begunAt time.Time
	running chan struct{} // closed at the end of the call; nil: none runs
}

// await starts the call if it is due, and waits for it.
func (c *storeCheck) await() {
	running := c.begin()
	if running == nil {
		return
	}
	timeout := time.NewTimer(collectTime)
	defer timeout.Stop()
	select {
	case <-running:
	case <-timeout.C:
	}
}

// begin returns the channel of the call that runs; nil if none runs.
func (c *storeCheck) begin() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil && time.Since(c.begunAt) > checkEvery {
		c.running, c.begunAt = make(chan struct{}), time.Now()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), checkTime)
			defer cancel()
			c.call(ctx)
			c.mu.Lock()
			defer c.mu.Unlock()
			close(c.running)
			c.running = nil
		}()
	}
	return c.running
}

// storeCollector shows how long the store has been silent, and by how much its clock differs. It
// looks up a record itself, so that both are known without a request.
type storeCollector struct {
	store      storeapi.Store
	key        storeapi.StoreKey
	check      storeCheck
	silent     *prometheus.Desc
	difference *prometheus.Desc

	mu         sync.Mutex
	answeredAt time.Time // when it last answered, or when the collector was made
	ahead      time.Duration
	known      bool // ahead is known
}

// WatchStore adds metrics that show whether s answers, and the difference of its clock. It looks up
// a record in the namespace of the engine, since an account of the store may be confined to that;
// empty means the default one. Call it once.
func (m *Monitor) WatchStore(s storeapi.Store, namespace string) {
	c := &storeCollector{
		store: s, answeredAt: time.Now(),
		key: storeapi.StoreKey{Namespace: cmp.Or(namespace, "app"), Layer: "metrics", Key: retrysafe.Key{Operation: "metrics", ID: "metrics"}},
		silent: prometheus.NewDesc("retrysafe_store_silent_seconds",
			"Time since the store last answered a lookup, which each collection makes, at most every 10 s.", nil, nil),
		difference: prometheus.NewDesc("retrysafe_store_clock_difference_seconds",
			"The least by which the clock of the store is ahead of the gateway's; negative if the gateway's is ahead.", nil, nil),
	}
	c.check.call = c.lookUp
	m.registry.MustRegister(c)
}

// Describe implements [prometheus.Collector].
func (c *storeCollector) Describe(to chan<- *prometheus.Desc) { to <- c.silent; to <- c.difference }

// Collect implements [prometheus.Collector].
func (c *storeCollector) Collect(to chan<- prometheus.Metric) {
	c.check.await()
	c.mu.Lock()
	defer c.mu.Unlock()
	to <- prometheus.MustNewConstMetric(c.silent, prometheus.GaugeValue, time.Since(c.answeredAt).Seconds())
	if c.known {
		to <- prometheus.MustNewConstMetric(c.difference, prometheus.GaugeValue, c.ahead.Seconds())
	}
}

// lookUp looks up a record that does not exist.
func (c *storeCollector) lookUp(ctx context.Context) {
	sent := time.Now()
	rec, err := c.store.Lookup(ctx, c.key)
	if err != nil {
		return
	}
	received := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answeredAt = received
	if rec.Now.IsZero() {
		return
	}
	c.ahead, c.known = clockAhead(rec.Now, sent, received), true
}

// clockAhead returns the least by which a clock is ahead that showed now at some time between sent
// and received; negative if the other clock is ahead, and zero if both may be right.
func clockAhead(now, sent, received time.Time) time.Duration {
	if d := now.Sub(received.Round(0)); d > 0 {
		return d
	}
	return min(0, now.Sub(sent.Round(0)))
}
