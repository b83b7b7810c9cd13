package otelidem

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are what the metrics are counted with.
type instruments struct {
	calls       metric.Int64Counter
	callTime    metric.Float64Histogram
	duplicates  metric.Int64Counter
	live        metric.Int64UpDownCounter
	perCall     metric.Int64Histogram
	doubts      metric.Int64Counter
	lost        metric.Int64Counter
	unconfirmed metric.Int64Counter
	lapsed      metric.Int64Counter
	storeTime   metric.Float64Histogram
	storeErrors metric.Int64Counter

	deliveries metric.Int64Counter
	published  metric.Int64Counter
	delay      metric.Float64Histogram

	lockWait  metric.Float64Histogram
	locksLive metric.Int64UpDownCounter
	lockEnds  metric.Int64Counter
}

// timeBuckets are the bounds of times, those of the gateway's Prometheus metrics.
var timeBuckets = metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)

func newInstruments(m metric.Meter) (*instruments, error) {
	i, errs := new(instruments), []error(nil)
	counter := func(to *metric.Int64Counter, name, unit, help string) {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
		*to, errs = c, append(errs, err)
	}
	level := func(to *metric.Int64UpDownCounter, name, unit, help string) {
		c, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(help))
		*to, errs = c, append(errs, err)
	}
	timer := func(to *metric.Float64Histogram, name, help string) {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(help), timeBuckets)
		*to, errs = h, append(errs, err)
	}
	counter(&i.calls, "retrysafe.calls", "{call}", "Guarded calls that have ended, by outcome.")
	timer(&i.callTime, "retrysafe.call.duration", "Time of a guarded call, waiting included.")
	counter(&i.duplicates, "retrysafe.duplicates", "{call}", "Calls that ran nothing because of an earlier call for their key.")
	level(&i.live, "retrysafe.attempts.live", "{attempt}", "Attempts whose work runs now.")
	counter(&i.doubts, "retrysafe.doubts", "{attempt}", "Attempts that ended in doubt, by cause.")
	counter(&i.lost, "retrysafe.attempts.lost", "{attempt}", "Attempts whose context the engine has ended before their work returned.")
	counter(&i.unconfirmed, "retrysafe.answers.unconfirmed", "{answer}", "Answers that the store has not confirmed in time.")
	counter(&i.lapsed, "retrysafe.claims.lapsed", "{claim}", "Claims whose reply was lost that are not given back.")
	timer(&i.storeTime, "retrysafe.store.duration", "Time of a call of the store.")
	counter(&i.storeErrors, "retrysafe.store.errors", "{call}", "Calls of the store that failed.")
	counter(&i.deliveries, "retrysafe.deliveries", "{message}", "Deliveries of messages to a consumer, by outcome.")
	counter(&i.published, "retrysafe.outbox.messages", "{message}", "Messages of an outbox that were handed to the broker, by outcome.")
	timer(&i.delay, "retrysafe.outbox.delay", "Time from Add to the broker's confirmation, of the oldest message of a batch.")
	timer(&i.lockWait, "retrysafe.lock.wait", "Time until a lock was held or refused, by outcome.")
	level(&i.locksLive, "retrysafe.locks.live", "{lock}", "Locks that are held now.")
	counter(&i.lockEnds, "retrysafe.locks", "{lock}", "Locks that have ended, by cause.")
	perCall, err := m.Int64Histogram("retrysafe.call.store.calls", metric.WithUnit("{call}"),
		metric.WithDescription("Calls of the store that a guarded call has made."), metric.WithExplicitBucketBoundaries(0, 1, 2, 3, 4, 5, 7, 10, 20, 50))
	i.perCall = perCall
	return i, errors.Join(append(errs, err)...)
}
