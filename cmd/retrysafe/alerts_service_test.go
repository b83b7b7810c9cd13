package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/retrysafe/retrysafe/adapters/otelidem"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/redislock"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/mqidem/memqueue"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// measuredService reports to OpenTelemetry, and its figures can be read as Prometheus has them.
type measuredService struct {
	*otelidem.Telemetry
	reader *metric.ManualReader
}

func newMeasuredService(t *testing.T) *measuredService {
	t.Helper()
	s := &measuredService{reader: metric.NewManualReader()}
	var err error
	s.Telemetry, err = otelidem.New(&otelidem.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(s.reader))})
	assert.NoError(t, err, "telemetry")
	return s
}

// figures returns the sums and the gauges, by the names that Prometheus gives them.
func (s *measuredService) figures(t *testing.T) figures {
	t.Helper()
	var got metricdata.ResourceMetrics
	assert.NoError(t, s.reader.Collect(t.Context(), &got), "collect")
	all := figures{"up": 1}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				kind := "level"
				if d.IsMonotonic {
					kind = "counter"
				}
				addPoints(all, prometheusName(kind, m.Name), d.DataPoints)
			case metricdata.Gauge[int64]:
				addPoints(all, prometheusName("count", m.Name), d.DataPoints)
			case metricdata.Gauge[float64]:
				addPoints(all, prometheusName("seconds", m.Name), d.DataPoints)
			}
		}
	}
	return all
}

func addPoints[N int64 | float64](all figures, name string, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		var labels []string
		for _, a := range p.Attributes.ToSlice() {
			labels = append(labels, fmt.Sprintf("%s=%q", strings.ReplaceAll(string(a.Key), ".", "_"), a.Value.AsString()))
		}
		series := name
		if len(labels) > 0 {
			series += "{" + strings.Join(labels, ",") + "}"
		}
		all[series] = float64(p.Value)
	}
}

// until waits until the figures are as wanted.
func (s *measuredService) until(t *testing.T, what string, ok func(figures) bool) (f figures) {
	t.Helper()
	poll(t, 50*time.Millisecond, long, func() bool {
		f = s.figures(t)
		return ok(f)
	}, what)
	return f
}

// newOutbox returns an outbox with a message in a new database.
func newOutbox(t *testing.T) (*outbox.Outbox, *sql.DB) {
	t.Helper()
	return newOutboxIn(t, filepath.Join(t.TempDir(), "outbox.db"), outbox.Message{ID: "m-1", Topic: "orders", Key: "ann", Payload: []byte("{}")})
}

// newOutboxIn returns an outbox with these messages in a new file.
func newOutboxIn(t *testing.T, file string, messages ...outbox.Message) (*outbox.Outbox, *sql.DB) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(60000)")
	assert.NoError(t, err, "open")
	t.Cleanup(func() { _ = db.Close() })
	box, err := outbox.New(db, outbox.SQLite, &outbox.Options{Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err, "outbox")
	assert.NoError(t, box.Migrate(t.Context()), "tables")
	tx, err := db.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	for _, m := range messages {
		assert.NoError(t, box.Add(t.Context(), dbtx.SQL(tx, dbtx.SQLite), m), "add")
	}
	assert.NoError(t, tx.Commit(), "commit")
	return box, db
}

// TestAlertsOfAnOutbox: a message that waits since no relay runs, one that the broker refuses for
// good, and a database that is away. Redriven to a broker that takes it, the message is gone.
func TestAlertsOfAnOutbox(t *testing.T) {
	t.Parallel()
	box, db := newOutbox(t)
	s := newMeasuredService(t)
	_, err := s.WatchOutbox(box)
	assert.NoError(t, err, "watch")
	const pending, dead, oldest = "retrysafe_outbox_pending", "retrysafe_outbox_dead", "retrysafe_outbox_oldest_seconds"
	well := s.until(t, "a new message", func(f figures) bool { return f[pending] == 1 })
	requireAlerts(t, well, well)
	// Ten minutes without a relay pass at once.
	_, err = db.ExecContext(t.Context(), "UPDATE retrysafe_outbox SET created = created - 600000000")
	assert.NoError(t, err, "age")
	waits := s.until(t, "an old message", func(f figures) bool { return f[oldest] > 300 })
	requireAlerts(t, well, waits, "RetrysafeOutboxLag")

	var broken atomic.Bool
	broken.Store(true)
	relay, err := outbox.NewRelay(box, s.Publisher(outbox.OneByOne(func(context.Context, outbox.Outgoing) error {
		if broken.Load() {
			return outbox.Permanent(errors.New("no such topic"))
		}
		return nil
	})), &outbox.RelayOptions{OnBatch: s.OnBatch})
	assert.NoError(t, err, "relay")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	died := s.until(t, "a dead message", func(f figures) bool { return f[dead] == 1 && f[pending] == 0 })
	assert.Equal(t, died[`retrysafe_outbox_messages_total{retrysafe_outcome="dead"}`], 1.0, "counted too")
	requireAlerts(t, waits, died, "RetrysafeOutboxDead")
	broken.Store(false)
	_, err = box.Redrive(t.Context(), "m-1")
	assert.NoError(t, err, "redrive")
	gone := s.until(t, "it is published", func(f figures) bool { return f[dead] == 0 && f[pending] == 0 && f[oldest] == 0 })
	requireAlerts(t, gone, gone)
	stop()
	<-ended
}

// TestAlertOfASilentOutbox: a database that does not answer for six minutes, which pass at once, is
// an alert of its own, and no longer when it answers.
func TestAlertOfASilentOutbox(t *testing.T) {
	t.Parallel()
	var well, away, again figures
	synctest.Test(t, func(t *testing.T) {
		box, db := newOutbox(t)
		s := newMeasuredService(t)
		_, err := s.WatchOutbox(box)
		assert.NoError(t, err, "watch")
		rename := func(from, to string) {
			t.Helper()
			_, err := db.ExecContext(t.Context(), "ALTER TABLE "+from+" RENAME TO "+to)
			assert.NoError(t, err, "rename")
		}
		well = s.figures(t)
		rename("retrysafe_outbox", "gone")
		for range 6 {
			time.Sleep(time.Minute)
			away = s.figures(t)
		}
		rename("gone", "retrysafe_outbox")
		time.Sleep(20 * time.Second)
		again = s.figures(t)
	})
	requireAlerts(t, well, well)
	// The message waits too.
	requireAlerts(t, well, away, "RetrysafeOutboxUnknown", "RetrysafeOutboxLag")
	assert.Equal(t, again["retrysafe_outbox_pending"], 1.0, "the message is there")
	again["retrysafe_outbox_oldest_seconds"] = 0 // it waited, which is another alert
	requireAlerts(t, again, again)
}

// TestAlertOfDeadLetters: a consumer gives a message up, and then handles another one.
func TestAlertOfDeadLetters(t *testing.T) {
	t.Parallel()
	s, broker := newMeasuredService(t), memqueue.New()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	source := broker.Open("orders")
	go func() {
		ended <- mqidem.Consume(ctx, source, func(_ context.Context, m *mqidem.Message) error {
			if string(m.Body) == "bad" {
				return errors.New("it cannot be handled")
			}
			return nil
		}, &mqidem.Options{MaxAttempts: 2, Backoff: func(int) time.Duration { return time.Millisecond }, OnOutcome: s.OnOutcome, Logger: slog.New(slog.DiscardHandler)})
	}()
	send := func(id, body string) {
		errs := broker.Publish(ctx, []outbox.Outgoing{{Message: outbox.Message{ID: id, Topic: "orders", Payload: []byte(body)}}})
		assert.NoError(t, errors.Join(errs...), "publish")
	}
	const dead, done = `retrysafe_deliveries_total{retrysafe_outcome="dead"}`, `retrysafe_deliveries_total{retrysafe_outcome="done"}`
	send("1", "good")
	well := s.until(t, "a message", func(f figures) bool { return f[done] == 1 })
	requireAlerts(t, well, well)
	send("2", "bad")
	bad := s.until(t, "a dead letter", func(f figures) bool { return f[dead] == 1 })
	requireAlerts(t, well, bad, "RetrysafeDeadLetters")
	send("3", "good")
	again := s.until(t, "another message", func(f figures) bool { return f[done] == 2 })
	requireAlerts(t, again, again)
	stop()
	<-ended
}

// TestAlertOfLostLocks: the server of a lock is frozen for longer than the lease, and then serves
// again.
func TestAlertOfLostLocks(t *testing.T) {
	t.Parallel()
	redis := servertest.StartRedis(t)
	o, err := redisclient.ParseURL("redis://" + redis.Addr)
	assert.NoError(t, err, "address")
	client, err := rueidisclient.Open(o)
	assert.NoError(t, err, "client")
	t.Cleanup(func() { _ = client.Close() })
	backend, err := redislock.New(t.Context(), client, nil)
	assert.NoError(t, err, "backend")
	s := newMeasuredService(t)
	locks := lock.New(backend, &lock.Options{Lease: 3 * time.Second, Trace: s.LockTrace()})
	const lost, released = `retrysafe_locks_total{retrysafe_cause="lost"}`, `retrysafe_locks_total{retrysafe_cause="released"}`
	nothing := func(context.Context, *lock.Lock) error { return nil }
	assert.NoError(t, locks.With(t.Context(), "account/42", nothing), "a lock")
	well := s.until(t, "a lock that was released", func(f figures) bool { return f[released] == 1 })
	requireAlerts(t, well, well)
	err = locks.With(t.Context(), "account/42", func(ctx context.Context, _ *lock.Lock) error {
		redis.Pause()
		<-ctx.Done()
		return ctx.Err()
	})
	assert.ErrorIs(t, err, lock.ErrLost, "the lock")
	bad := s.until(t, "a lost lock", func(f figures) bool { return f[lost] == 1 })
	requireAlerts(t, well, bad, "RetrysafeLocksLost")
	redis.Resume()
	eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return locks.With(ctx, "account/42", nothing) == nil
	}, "it can be locked again")
	again := s.until(t, "a lock that was released", func(f figures) bool { return f[released] >= 2 })
	requireAlerts(t, again, again)
}
