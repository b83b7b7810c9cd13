package otelidem

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// gauges makes gauges that are observed together when metrics are collected.
type gauges struct {
	meter metric.Meter
	all   []metric.Observable
	errs  []error
}

func (g *gauges) count(name, unit, help string) metric.Int64Observable {
	made, err := g.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
	g.all, g.errs = append(g.all, made), append(g.errs, err)
	return made
}

func (g *gauges) seconds(name, help string) metric.Float64Observable {
	made, err := g.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(help))
	g.all, g.errs = append(g.all, made), append(g.errs, err)
	return made
}

// register calls observe at each collection, until stop is called. observe cannot fail: for the
// error of one callback a periodic reader of the SDK drops all metrics of the process.
func (g *gauges) register(observe func(context.Context, metric.Observer)) (stop func() error, err error) {
	if err := errors.Join(g.errs...); err != nil {
		return nil, err
	}
	r, err := g.meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		observe(ctx, to)
		return nil
	}, g.all...)
	if err != nil {
		return nil, err
	}
	return r.Unregister, nil
}
