package otelidem_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var nameInTable = regexp.MustCompile("(?m)^\\| `(retrysafe\\.[a-z.]+)` \\|")

// TestNamesOfThePage: docs/opentelemetry.md lists the metrics and the attributes of the code, and
// no others.
func TestNamesOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/opentelemetry.md")
	assert.NoError(t, err, "page")
	_, rest, _ := strings.Cut(string(page), "\n## Attributes\n")
	attributes, metrics, ok := strings.Cut(rest, "\n## Metrics\n")
	assert.True(t, ok, "the page has both tables")

	p, s := newProbe(t), memstore.New(nil)
	p.cause(t, s)
	var got metricdata.ResourceMetrics
	assert.NoError(t, p.reader.Collect(t.Context(), &got), "collect")
	var names []string
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			names = append(names, m.Name)
		}
	}
	assert.Equal(t, sorted(names), sorted(listed(metrics)), "metrics")

	source, err := os.ReadFile("telemetry.go")
	assert.NoError(t, err, "source")
	names = nil
	for _, found := range regexp.MustCompile(`attribute\.Key\("(retrysafe\.[a-z.]+)"\)`).FindAllStringSubmatch(string(source), -1) {
		names = append(names, found[1])
	}
	assert.Equal(t, sorted(names), sorted(listed(attributes)), "attributes")
}

func listed(table string) (names []string) {
	for _, found := range nameInTable.FindAllStringSubmatch(table, -1) {
		names = append(names, found[1])
	}
	return names
}

func sorted(names []string) string {
	slices.Sort(names)
	return strings.Join(names, "\n")
}

// cause lets each metric have a value.
func (p *probe) cause(t *testing.T, s *memstore.Store) {
	t.Helper()
	_, err := p.WatchInDoubt(s)
	assert.NoError(t, err, "watch")
	_, err = p.WatchOutbox(outboxOf(outbox.Stats{Pending: 3, Dead: 1, Oldest: time.Minute}, nil))
	assert.NoError(t, err, "watch the outbox")
	e := p.engine(t, s)
	for range 2 {
		_, _ = retrysafe.Do(t.Context(), e, charge, tea)
	}
	trace := p.Trace()
	trace.Store(t.Context(), retrysafe.StoreInfo{Op: "acquire"})(retrysafe.ErrUnavailable)
	trace.Lost(t.Context(), retrysafe.AttemptInfo{Key: charge, Attempt: 1, Err: retrysafe.ErrMaxRun})
	trace.InDoubt(t.Context(), retrysafe.AttemptInfo{Key: charge, Attempt: 1, Cause: "timeout"})
	trace.Unconfirmed(t.Context(), retrysafe.AttemptInfo{Key: charge, Attempt: 1})
	trace.Lapse(t.Context(), retrysafe.AttemptInfo{Key: charge})
	p.OnOutcome(t.Context(), mqidem.Outcome{What: mqidem.OutcomeDone})
	p.OnBatch(t.Context(), outbox.Batch{Published: 1, Oldest: time.Second})
	locks := p.LockTrace()
	locks.Lock(context.Background())(lock.AcquireDone{Fence: 7})
	locks.Ended(t.Context(), lock.HoldDone{Took: time.Second, Err: lock.ErrLost})
}
