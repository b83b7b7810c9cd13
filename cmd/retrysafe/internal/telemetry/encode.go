package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// encodeMetrics returns metrics as OTLP has them. Aggregations that no instrument of retrysafe has
// are left out.
func encodeMetrics(m *metricdata.ResourceMetrics) *metricspb.ResourceMetrics {
	all := &metricspb.ResourceMetrics{
		SchemaUrl: m.Resource.SchemaURL(),
		Resource:  &resourcepb.Resource{Attributes: encodeAttributes(m.Resource.Attributes())},
	}
	for _, s := range m.ScopeMetrics {
		scope := &metricspb.ScopeMetrics{
			SchemaUrl: s.Scope.SchemaURL,
			Scope:     &commonpb.InstrumentationScope{Name: s.Scope.Name, Version: s.Scope.Version, Attributes: encodeAttributes(s.Scope.Attributes.ToSlice())},
		}
		for i := range s.Metrics {
			if one := encodeMetric(&s.Metrics[i]); one != nil {
				scope.Metrics = append(scope.Metrics, one)
			}
		}
		all.ScopeMetrics = append(all.ScopeMetrics, scope)
	}
	return all
}

func encodeMetric(m *metricdata.Metrics) *metricspb.Metric {
	one := &metricspb.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
	switch data := m.Data.(type) {
	case metricdata.Gauge[int64]:
		one.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: encodePoints(data.DataPoints)}}
	case metricdata.Gauge[float64]:
		one.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: encodePoints(data.DataPoints)}}
	case metricdata.Sum[int64]:
		one.Data = encodeSum(data)
	case metricdata.Sum[float64]:
		one.Data = encodeSum(data)
	case metricdata.Histogram[int64]:
		one.Data = encodeHistogram(data)
	case metricdata.Histogram[float64]:
		one.Data = encodeHistogram(data)
	default:
		return nil
	}
	return one
}

func encodeSum[N int64 | float64](s metricdata.Sum[N]) *metricspb.Metric_Sum {
	return &metricspb.Metric_Sum{Sum: &metricspb.Sum{
		DataPoints: encodePoints(s.DataPoints), AggregationTemporality: encodeTemporality(s.Temporality), IsMonotonic: s.IsMonotonic,
	}}
}

func encodePoints[N int64 | float64](points []metricdata.DataPoint[N]) []*metricspb.NumberDataPoint {
	all := make([]*metricspb.NumberDataPoint, len(points))
	for i, p := range points {
		one := &metricspb.NumberDataPoint{
			Attributes: encodeAttributes(p.Attributes.ToSlice()), StartTimeUnixNano: unixNanoseconds(p.StartTime), TimeUnixNano: unixNanoseconds(p.Time),
			Exemplars: encodeExemplars(p.Exemplars),
		}
		switch v := any(p.Value).(type) {
		case int64:
			one.Value = &metricspb.NumberDataPoint_AsInt{AsInt: v}
		case float64:
			one.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: v}
		}
		all[i] = one
	}
	return all
}

func encodeHistogram[N int64 | float64](h metricdata.Histogram[N]) *metricspb.Metric_Histogram {
	all := make([]*metricspb.HistogramDataPoint, len(h.DataPoints))
	for i, p := range h.DataPoints {
		sum := float64(p.Sum)
		one := &metricspb.HistogramDataPoint{
			Attributes: encodeAttributes(p.Attributes.ToSlice()), StartTimeUnixNano: unixNanoseconds(p.StartTime), TimeUnixNano: unixNanoseconds(p.Time),
			Count: p.Count, Sum: &sum, BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds, Exemplars: encodeExemplars(p.Exemplars),
		}
		if v, ok := p.Min.Value(); ok {
			least := float64(v)
			one.Min = &least
		}
		if v, ok := p.Max.Value(); ok {
			most := float64(v)
			one.Max = &most
		}
		all[i] = one
	}
	return &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{DataPoints: all, AggregationTemporality: encodeTemporality(h.Temporality)}}
}

func encodeExemplars[N int64 | float64](exemplars []metricdata.Exemplar[N]) []*metricspb.Exemplar {
	all := make([]*metricspb.Exemplar, len(exemplars))
	for i, e := range exemplars {
		one := &metricspb.Exemplar{
			FilteredAttributes: encodeAttributes(e.FilteredAttributes), TimeUnixNano: unixNanoseconds(e.Time), SpanId: e.SpanID, TraceId: e.TraceID,
		}
		switch v := any(e.Value).(type) {
		case int64:
			one.Value = &metricspb.Exemplar_AsInt{AsInt: v}
		case float64:
			one.Value = &metricspb.Exemplar_AsDouble{AsDouble: v}
		}
		all[i] = one
	}
	return all
}

func encodeTemporality(t metricdata.Temporality) metricspb.AggregationTemporality {
	if t == metricdata.DeltaTemporality {
		return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
}

// unixNanoseconds returns a time as OTLP has it: 0 means that it is not known.
func unixNanoseconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(0, t.UnixNano())) //nolint:gosec // not negative
}

func encodeAttributes(attributes []attribute.KeyValue) []*commonpb.KeyValue {
	all := make([]*commonpb.KeyValue, len(attributes))
	for i, a := range attributes {
		all[i] = &commonpb.KeyValue{Key: string(a.Key), Value: encodeValue(a.Value)}
	}
	return all
}

// encodeValue returns the value of an attribute. Lists, which only the environment's attributes of
// the resource could have, are sent as text.
func encodeValue(v attribute.Value) *commonpb.AnyValue {
	switch v.Type() {
	case attribute.BOOL:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.AsBool()}}
	case attribute.INT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v.AsInt64()}}
	case attribute.FLOAT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v.AsFloat64()}}
	case attribute.STRINGSLICE:
		list := new(commonpb.ArrayValue)
		for _, s := range v.AsStringSlice() {
			list.Values = append(list.Values, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}})
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	default:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v.Emit()}}
	}
}
