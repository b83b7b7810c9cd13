package otelidem

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/storeapi"
)

// mostDoubts is the most records that are counted, so that a collection does not read through a
// store that is full of them.
const mostDoubts = 10_000

// mostCauses is the most causes that are told apart, since an error can name one of its own.
const mostCauses = 50

// WatchInDoubt adds metrics of the records in doubt in s: their number by cause, and the age of the
// oldest. They are those of all processes, also of one that died before it reported any. The store
// is asked when metrics are collected, at most every ten seconds. stop removes the metrics. The
// error wraps errors.ErrUnsupported if s cannot list its records.
func (t *Telemetry) WatchInDoubt(s storeapi.Store) (stop func() error, err error) {
	lister, ok := s.(storeapi.Lister)
	if !ok {
		return nil, errors.Join(errors.New("otelidem: the store does not list records"), errors.ErrUnsupported)
	}
	open, err := t.meter.Int64ObservableGauge("retrysafe.doubts.open", metric.WithUnit("{record}"),
		metric.WithDescription("Records in doubt, by cause (crash: their process died). Counted up to 10000."))
	if err != nil {
		return nil, err
	}
	oldest, err := t.meter.Float64ObservableGauge("retrysafe.doubts.oldest", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest record in doubt."))
	if err != nil {
		return nil, err
	}
	d := &openDoubts{store: lister}
	r, err := t.meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		causes, age, err := d.now(ctx)
		if err != nil {
			return err // not known: no figure is better than a wrong one
		}
		for cause, n := range causes {
			to.ObserveInt64(open, n, metric.WithAttributes(attrCause.String(cause)))
		}
		to.ObserveFloat64(oldest, age.Seconds())
		return nil
	}, open, oldest)
	if err != nil {
		return nil, err
	}
	return r.Unregister, nil
}

// openDoubts counts the records in doubt.
type openDoubts struct {
	store storeapi.Lister

	mu     sync.Mutex
	at     time.Time
	causes map[string]int64
	oldest time.Duration
	err    error
}

func (d *openDoubts) now(ctx context.Context) (map[string]int64, time.Duration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.at) <= 10*time.Second {
		return d.causes, d.oldest, d.err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	causes, oldest := map[string]int64{storeapi.CauseCrash: 0}, time.Duration(0)
	err := admin.EachInDoubt(ctx, d.store, mostDoubts, func(cause string, age time.Duration) {
		oldest = max(oldest, age)
		if _, known := causes[cause]; !known && len(causes) >= mostCauses {
			cause = "other"
		}
		causes[cause]++
	})
	if err != nil {
		err = errors.New("otelidem: the store could not be asked what is in doubt")
	}
	d.at, d.causes, d.oldest, d.err = time.Now(), causes, oldest, err
	return d.causes, d.oldest, d.err
}
