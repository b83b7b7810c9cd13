package otelidem

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/retrysafe/retrysafe/outbox"
)

// OutboxStats is the part of an [outbox.Outbox] that counts its messages.
type OutboxStats interface {
	Stats(context.Context) (outbox.Stats, error)
}

// WatchOutbox adds metrics of the messages in box: those that wait for the broker, the age of the
// oldest, and the dead ones. They are known also while no relay runs. The database is asked when
// metrics are collected, at most every ten seconds. While it does not answer, the last figures are
// shown, and another metric says how old they are. stop removes the metrics. Call it for one outbox
// of a process, since the metrics do not name it.
func (t *Telemetry) WatchOutbox(box OutboxStats) (stop func() error, err error) {
	g := &gauges{meter: t.meter}
	pending := g.count("retrysafe.outbox.pending", "{message}", "Messages that are committed and not published.")
	dead := g.count("retrysafe.outbox.dead", "{message}", "Messages that used up their tries: they hold up their keys.")
	oldest := g.seconds("retrysafe.outbox.oldest", "Age of the oldest message that is not published.")
	stale := g.seconds("retrysafe.outbox.stale", "Time since the messages of the outbox were last counted.")
	counts := newLastFigures(box.Stats)
	return g.register(func(ctx context.Context, to metric.Observer) {
		last, since, known := counts.read(ctx)
		to.ObserveFloat64(stale, since.Seconds())
		if !known {
			return // no figure is better than a wrong one
		}
		to.ObserveInt64(pending, int64(last.Pending))
		to.ObserveInt64(dead, int64(last.Dead))
		to.ObserveFloat64(oldest, growOlder(last.Oldest, since).Seconds())
	})
}
