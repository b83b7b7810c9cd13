package otelidem

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// mostDoubts is the most records that are counted, so that a collection does not read through a
// store that is full of them.
const mostDoubts = 10_000

// mostCauses is the most causes that are told apart, since an error can name one of its own.
const mostCauses = 50

// WatchInDoubt adds metrics of the records in doubt in s: their number by cause, and the age of the
// oldest. They are those of all processes, also of one that died before it reported any. The store
// is asked when metrics are collected, at most every ten seconds. While it does not answer, the
// last figures are shown, and another metric says how old they are. stop removes the metrics. The
// error wraps errors.ErrUnsupported if s cannot list its records.
func (t *Telemetry) WatchInDoubt(s storeapi.Store) (stop func() error, err error) {
	lister, ok := s.(storeapi.Lister)
	if !ok {
		return nil, errors.Join(errors.New("otelidem: the store does not list records"), errors.ErrUnsupported)
	}
	g := &gauges{meter: t.meter}
	open := g.count("retrysafe.doubts.open", "{record}", "Records in doubt, by cause (crash: their process died). Counted up to 10000.")
	oldest := g.seconds("retrysafe.doubts.oldest", "Age of the oldest record in doubt.")
	stale := g.seconds("retrysafe.doubts.stale", "Time since the records in doubt were last counted.")
	counts := newLastFigures(func(ctx context.Context) (openDoubts, error) { return countDoubts(ctx, lister) })
	return g.register(func(ctx context.Context, to metric.Observer) {
		last, since, known := counts.read(ctx)
		to.ObserveFloat64(stale, since.Seconds())
		if !known {
			return // not known: no figure is better than a wrong one
		}
		for cause, n := range last.causes {
			to.ObserveInt64(open, n, metric.WithAttributes(attrCause.String(cause)))
		}
		to.ObserveFloat64(oldest, growOlder(last.oldest, since).Seconds())
	})
}

// openDoubts are the records in doubt.
type openDoubts struct {
	causes map[string]int64
	oldest time.Duration
}

func countDoubts(ctx context.Context, s storeapi.Lister) (openDoubts, error) {
	found := openDoubts{causes: map[string]int64{storeapi.CauseCrash: 0}}
	err := admin.EachInDoubt(ctx, s, mostDoubts, func(cause string, age time.Duration) {
		found.oldest = max(found.oldest, age)
		if _, known := found.causes[cause]; !known && len(found.causes) >= mostCauses {
			cause = "other"
		}
		found.causes[cause]++
	})
	return found, err
}
