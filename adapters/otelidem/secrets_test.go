package otelidem_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestNothingSecretIsShown: keys, bodies, queries, headers, names of locks and texts of errors are
// in no span and in no metric. What the test passes in has "secret" in it.
func TestNothingSecretIsShown(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	s := memstore.New(nil)
	e := p.engine(t, s)
	_, err := p.WatchInDoubt(s)
	assert.NoError(t, err, "watch")
	secret := errors.New("error-secret")
	for i, err := range []error{nil, secret, retrysafe.Permanent("code-secret", secret), retrysafe.NothingDone(secret)} {
		k := charge
		k.ID += string(rune('a' + i))
		for range 2 {
			_, _ = retrysafe.Do(t.Context(), e, k, func(context.Context) (string, error) { return "answer-secret", err },
				retrysafe.WithPayload("payload-secret"), retrysafe.WithBinding([]byte("binding-secret")))
		}
		_, _ = retrysafe.Do(t.Context(), e, k, tea, retrysafe.WithPayload("other-secret"))
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = retrysafe.Do(t.Context(), e, retrysafe.Key{Operation: "charge", ID: "panic-secret"}, func(context.Context) (string, error) { panic("panic-secret") })
	}()

	post(t, &httpidem.Transport{Base: p.Transport(nil), MinWait: time.Millisecond}, p.failing(t).URL)

	m := outbox.Message{ID: "id-secret", Topic: "orders", Key: "order-secret", Payload: []byte("body-secret"), Headers: map[string]string{"x": "header-secret"}}
	p.Prepare(t.Context(), &m)
	_ = p.Publisher(outbox.OneByOne(func(context.Context, outbox.Outgoing) error { return secret })).Publish(t.Context(), []outbox.Outgoing{{Message: m}})
	received := &mqidem.Message{ID: m.ID, Source: "orders", Key: m.Key, Body: m.Payload, Headers: map[string][]byte{"x": []byte("header-secret")}}
	_ = p.Consumer("memory", mqidem.Once(e, "stock", func(context.Context, *mqidem.Message) error { return secret }))(t.Context(), received)
	p.OnOutcome(t.Context(), mqidem.Outcome{What: mqidem.OutcomeAgain, Message: received, Err: secret})

	locks := lock.New(memlock.New(), &lock.Options{Trace: p.LockTrace()})
	assert.NoError(t, locks.With(t.Context(), "lock-secret", func(ctx context.Context, _ *lock.Lock) error {
		_, err := locks.TryLock(t.Context(), "lock-secret")
		assert.ErrorIs(t, err, lock.ErrHeld, "held")
		return nil
	}), "lock")

	shown, err := json.Marshal(p.spans())
	assert.NoError(t, err, "spans")
	metrics := strings.Join(p.metrics(t), "\n")
	assert.True(t, len(p.spans()) > 20 && strings.Count(metrics, "\n") > 20, "%d spans, and metrics\n%s", len(p.spans()), metrics)
	assert.Contains(t, string(shown), "path-secret", "this test sees attributes")
	for _, all := range []string{string(shown), metrics} {
		// The path is the operation of a middleware whose routes have no names. It is in the span.
		all = strings.ReplaceAll(all, "path-secret", "")
		at := strings.Index(all, "secret")
		assert.True(t, at < 0, "shown: %s", all[max(0, at-100):min(len(all), at+100)])
	}
	assert.True(t, !strings.Contains(metrics, "path-secret"), "metrics have no operation")
	p.measured(t, "lock.wait{outcome=locked} count 1", "lock.wait{outcome=held} count 1", "locks.live{} 0", "locks{cause=released} 1")
}

// TestLogs: a line that is written inside of a call has the names of the span.
func TestLogs(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	e := p.engine(t, memstore.New(nil))
	var out bytes.Buffer
	log := slog.New(p.LogHandler(slog.NewJSONHandler(&out, nil))).With("app", "shop")
	_, err := retrysafe.Do(t.Context(), e, charge, func(ctx context.Context) (string, error) {
		log.InfoContext(ctx, "charging")
		return "", nil
	})
	assert.NoError(t, err, "call")
	var line map[string]any
	assert.NoError(t, json.Unmarshal(out.Bytes(), &line), "line %s", &out)
	span := p.last()
	for name, want := range map[string]string{
		"app": "shop", "trace_id": span.SpanContext.TraceID().String(), "span_id": span.SpanContext.SpanID().String(),
		"retrysafe.layer": "fn", "retrysafe.operation": "charge", "retrysafe.key.hash": e.KeyHash(charge),
	} {
		assert.Equal(t, line[name], any(want), "%s", name)
	}
	out.Reset()
	log.InfoContext(t.Context(), "outside")
	assert.True(t, !strings.Contains(out.String(), "retrysafe.") && !strings.Contains(out.String(), "trace_id"), "a line outside: %s", &out)
}
