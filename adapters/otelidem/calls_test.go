package otelidem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/otelidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func tea(context.Context) (string, error) { return "tea", nil }

// TestSpanOfACall: a call is one span with what an operator asks for, a part of its caller's trace
// and the parent of what its work does.
func TestSpanOfACall(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	e := p.engine(t, memstore.New(nil))
	ctx, outer := p.provider.Tracer("test").Start(t.Context(), "request")
	_, err := retrysafe.Do(ctx, e, charge, func(ctx context.Context) (string, error) {
		_, inner := p.provider.Tracer("test").Start(ctx, "work")
		inner.End()
		return "tea", nil
	})
	assert.NoError(t, err, "call")
	outer.End()
	spans := p.spans()
	assert.Equal(t, len(spans), 3, "spans")
	work, call := spans[0], spans[1]
	assert.Equal(t, call.Name, "retrysafe fn", "name")
	assert.Equal(t, call.Parent.SpanID(), outer.SpanContext().SpanID(), "parent of the call")
	assert.Equal(t, work.Parent.SpanID(), call.SpanContext.SpanID(), "parent of the work")
	rec, err := e.Lookup(t.Context(), charge)
	assert.NoError(t, err, "look up")
	assert.Equal(t, text(call.Attributes), fmt.Sprintf(
		"attempt=1 duplicate=false fence=%d key.hash=%s layer=fn operation=charge outcome=executed store.calls=3", rec.Fence, e.KeyHash(charge)), "attributes")
	assert.Equal(t, call.Events[0].Name, "retrysafe.begun", "event")
	assert.Equal(t, call.Status.Code, codes.Unset, "status")
	assert.Equal(t, len(call.Links), 0, "links")
}

// TestReplayLinksToTheFirst: a duplicate has a link to the span that made its answer, also in
// another process.
func TestReplayLinksToTheFirst(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	one, two := newProbe(t), newProbe(t)
	_, err := retrysafe.Do(t.Context(), one.engine(t, s), charge, tea)
	assert.NoError(t, err, "first")
	res, err := retrysafe.Do(t.Context(), two.engine(t, s), charge, tea)
	assert.NoError(t, err, "duplicate")
	assert.Equal(t, res.Value, "tea", "its answer")
	first, replay := one.last(), two.last()
	assert.Equal(t, len(replay.Links), 1, "links")
	assert.Equal(t, replay.Links[0].SpanContext.TraceID(), first.SpanContext.TraceID(), "trace of the link")
	assert.Equal(t, replay.Links[0].SpanContext.SpanID(), first.SpanContext.SpanID(), "span of the link")
	assert.Contains(t, text(replay.Attributes), "duplicate=true", "attributes")
	assert.Contains(t, text(replay.Attributes), "outcome=replayed", "attributes")
	two.measured(t, "duplicates{layer=fn outcome=replayed} 1", "calls{layer=fn outcome=replayed} 1")
}

// TestUnsampled: a span that is never seen is not stored as the origin of an answer.
func TestUnsampled(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	p := newProbe(t, func(o *otelidem.Options) {
		o.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	})
	_, err := retrysafe.Do(t.Context(), p.engine(t, s), charge, tea)
	assert.NoError(t, err, "call")
	rec, err := s.Lookup(t.Context(), storeapi.StoreKey{Namespace: "shop", Layer: "fn", Key: charge})
	assert.NoError(t, err, "look up")
	assert.Equal(t, rec.Answer.Codec, "json", "codec")
	p.measured(t, "calls{layer=fn outcome=executed} 1")
}

// TestDoubts: an attempt in doubt is an error with its cause, and is counted by it, also while it
// is open.
func TestDoubts(t *testing.T) {
	t.Parallel()
	s, p := memstore.New(nil), newProbe(t)
	e := p.engine(t, s)
	stop, err := p.WatchInDoubt(s)
	assert.NoError(t, err, "watch")
	_, err = retrysafe.Do(t.Context(), e, charge, func(context.Context) (string, error) { return "", errors.New("body-secret") })
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "call")
	span := p.last()
	assert.Equal(t, span.Status.Code, codes.Error, "status")
	assert.Equal(t, span.Status.Description, "doubt", "description")
	assert.Contains(t, text(span.Attributes), "cause=error", "attributes")
	_, err = retrysafe.Do(t.Context(), e, charge, tea)
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "duplicate")
	assert.Contains(t, text(p.last().Attributes), "outcome=in-doubt", "attributes of the duplicate")
	p.measured(t, "doubts{cause=error layer=fn} 1", "doubts.open{cause=error} 1", "doubts.open{cause=crash} 0",
		"duplicates{layer=fn outcome=in-doubt} 1", "attempts.live{layer=fn} 0")
	assert.NoError(t, stop(), "stop")
	assert.True(t, !contains(p.metrics(t), "doubts.open"), "no figures after the end")
	_, err = p.WatchInDoubt(struct{ storeapi.Store }{s})
	assert.ErrorIs(t, err, errors.ErrUnsupported, "a store that cannot list")
}

// TestMetrics: live attempts, calls of the store and their time.
func TestMetrics(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	e := p.engine(t, memstore.New(nil))
	_, err := retrysafe.Do(t.Context(), e, charge, func(context.Context) (string, error) {
		p.measured(t, "attempts.live{layer=fn} 1")
		return "tea", nil
	})
	assert.NoError(t, err, "call")
	p.measured(t, "attempts.live{layer=fn} 0", "call.duration{layer=fn outcome=executed} count 1", "store.duration{store.op=acquire} count 1",
		"store.duration{store.op=complete} count 1", "call.store.calls{layer=fn} sum 3")
	a, _, err := e.Begin(t.Context(), retrysafe.Key{Operation: "charge", ID: "2"})
	assert.NoError(t, err, "begin")
	p.measured(t, "attempts.live{layer=fn} 1")
	assert.NoError(t, a.Release(context.Background(), nil), "release")
	p.measured(t, "attempts.live{layer=fn} 0")
	assert.Contains(t, text(p.last().Attributes), "cause=nothing-done", "cause of the release")
	assert.Contains(t, text(p.last().Attributes), "store.calls=2", "calls of the store, the release too")
}
