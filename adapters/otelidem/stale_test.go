package otelidem_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/retrysafe/retrysafe/adapters/otelidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// fakeOutbox counts messages as a test says.
type fakeOutbox struct {
	mu    sync.Mutex
	stats outbox.Stats
	err   error
}

func outboxOf(s outbox.Stats, err error) *fakeOutbox { return &fakeOutbox{stats: s, err: err} }

func (f *fakeOutbox) set(s outbox.Stats, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats, f.err = s, err
}

// Stats implements [otelidem.OutboxStats].
func (f *fakeOutbox) Stats(context.Context) (outbox.Stats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats, f.err
}

var _ otelidem.OutboxStats = (*outbox.Outbox)(nil)

// TestFiguresOfAnOutbox: messages that wait are seen also while no relay runs. While the database
// is away, the last figures stay, their age is shown, and the oldest message grows older.
func TestFiguresOfAnOutbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, box := newProbe(t), outboxOf(outbox.Stats{}, errors.New("away"))
		stop, err := p.WatchOutbox(box)
		assert.NoError(t, err, "watch")
		time.Sleep(5 * time.Second)
		p.measured(t, "outbox.stale{} 5")
		assert.True(t, !contains(p.metrics(t), "outbox.dead"), "never counted: no figures")
		box.set(outbox.Stats{Pending: 3, Waiting: 2, Dead: 1, Oldest: time.Minute}, nil)
		time.Sleep(11 * time.Second)
		p.measured(t, "outbox.pending{} 3", "outbox.dead{} 1", "outbox.oldest{} 60", "outbox.stale{} 0")
		box.set(outbox.Stats{}, errors.New("away"))
		time.Sleep(time.Hour)
		p.measured(t, "outbox.pending{} 3", "outbox.dead{} 1", "outbox.oldest{} 3660", "outbox.stale{} 3600")
		box.set(outbox.Stats{}, nil)
		time.Sleep(11 * time.Second)
		p.measured(t, "outbox.pending{} 0", "outbox.dead{} 0", "outbox.oldest{} 0", "outbox.stale{} 0")
		assert.NoError(t, stop(), "stop")
		assert.True(t, !contains(p.metrics(t), "outbox."), "no figures after the end")
	})
}

// awayStore is a store that does not list its records while away is true.
type awayStore struct {
	*memstore.Store

	mu   sync.Mutex
	away bool
}

func (s *awayStore) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// List implements [storeapi.Lister].
func (s *awayStore) List(ctx context.Context, r storeapi.ListRequest) (storeapi.Page, error) {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if away {
		return storeapi.Page{}, errors.New("away")
	}
	return s.Store.List(ctx, r)
}

// exported keeps what a periodic reader exports.
type exported struct {
	metric.Exporter

	mu    sync.Mutex
	names []string
}

func (*exported) Temporality(k metric.InstrumentKind) metricdata.Temporality {
	return metric.DefaultTemporalitySelector(k)
}

func (*exported) Aggregation(k metric.InstrumentKind) metric.Aggregation {
	return metric.DefaultAggregationSelector(k)
}
func (*exported) ForceFlush(context.Context) error { return nil }
func (*exported) Shutdown(context.Context) error   { return nil }

func (e *exported) Export(_ context.Context, m *metricdata.ResourceMetrics) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names = nil
	for _, s := range m.ScopeMetrics {
		for _, one := range s.Metrics {
			e.names = append(e.names, one.Name)
		}
	}
	return nil
}

// TestMetricsWhileTheStoreIsAway: a store that does not answer takes no metric away. Its own keep
// their last figures, and all others of the process are exported as before.
func TestMetricsWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	s, out := &awayStore{Store: memstore.New(nil)}, new(exported)
	provider := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(out, metric.WithInterval(time.Hour))))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	p := newProbe(t, func(o *otelidem.Options) { o.MeterProvider = provider })
	s.setAway(true)
	_, err := p.WatchInDoubt(s)
	assert.NoError(t, err, "watch")
	p.OnBatch(t.Context(), outbox.Batch{Dead: 1})
	assert.NoError(t, provider.ForceFlush(t.Context()), "export while the store is away")
	assert.Equal(t, strings.Join(out.names, " "), "retrysafe.outbox.messages retrysafe.doubts.stale", "metrics")
}

// TestFiguresOfDoubts: while the store does not answer, the number of doubts stays, the oldest
// grows older, and the age of the figures is shown.
func TestFiguresOfDoubts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := &awayStore{Store: memstore.New(nil)}, newProbe(t)
		_, err := p.WatchInDoubt(s)
		assert.NoError(t, err, "watch")
		_, err = s.Acquire(t.Context(), storeapi.AcquireRequest{
			Key:   storeapi.StoreKey{Namespace: "shop", Layer: "fn", Key: charge},
			Owner: storeapi.Owner{1}, Lease: time.Second, Retention: time.Hour,
		})
		assert.NoError(t, err, "acquire")
		time.Sleep(time.Minute)
		p.measured(t, "doubts.open{cause=crash} 1", "doubts.oldest{} 59", "doubts.stale{} 0")
		s.setAway(true)
		time.Sleep(time.Hour)
		p.measured(t, "doubts.open{cause=crash} 1", "doubts.oldest{} 3659", "doubts.stale{} 3600")
		s.setAway(false)
		time.Sleep(11 * time.Second)
		p.measured(t, "doubts.oldest{} 3670", "doubts.stale{} 0")
	})
}
