package gateway

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestScrapesShareAReading: a store that does not answer holds up one reading of the metrics, not
// one for each client that asks, and Prometheus is not refused because others ask.
func TestScrapesShareAReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		readings, answers := atomic.Int64{}, make(chan struct{})
		m := NewMonitor(nil)
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hanging"}, func() float64 {
			readings.Add(1)
			<-answers
			return 1
		}))
		h := m.Handler()
		var asked sync.WaitGroup
		for range 20 {
			asked.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
				assert.Equal(t, w.Code, http.StatusOK, "status")
				assert.Contains(t, w.Body.String(), "\nhanging 1\n", "metrics")
			})
		}
		synctest.Wait()
		assert.Equal(t, readings.Load(), int64(1), "readings while the store hangs")
		close(answers)
		asked.Wait()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		assert.Equal(t, readings.Load(), int64(2), "readings after that")
	})
}

// TestSharedReadingFails: all that share a reading get its error.
func TestSharedReadingFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	g := &sharedGatherer{from: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, broken })}
	for range 2 {
		_, err := g.Gather()
		assert.True(t, errors.Is(err, broken), "error: %v", err)
	}
}
