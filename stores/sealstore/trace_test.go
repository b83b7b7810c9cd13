package sealstore_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
)

// TestOrigin: a duplicate of sealed work reports the call that made the answer, also after the
// answer was forgotten.
func TestOrigin(t *testing.T) {
	t.Parallel()
	text, err := sealstore.NewKeyFile("2026-11")
	assert.NoError(t, err, "keys")
	ring, err := sealstore.ParseRing(text)
	assert.NoError(t, err, "ring")
	store := sealstore.New(memstore.New(nil), ring, nil)
	var last retrysafe.CallDone
	e := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Sweep: -1, Logger: slog.New(slog.DiscardHandler), Trace: &retrysafe.Trace{
		Call: func(ctx context.Context, _ retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
			return ctx, func(d retrysafe.CallDone) { last = d }
		},
		Origin: func(context.Context) string { return "call-1" },
	}})
	key := retrysafe.Key{Tenant: "ada", Operation: "charge", ID: "k1"}
	charge := func() (string, error) {
		res, err := retrysafe.Do(t.Context(), e, key, func(context.Context) (string, error) { return "ch_1", nil })
		return res.Value, err
	}
	for range 2 {
		got, err := charge()
		assert.NoError(t, err, "charge")
		assert.Equal(t, got, "ch_1", "answer")
	}
	assert.Equal(t, last.Origin, "call-1", "origin")
	assert.NoError(t, store.Forget(t.Context(), sealstore.Tenant{Namespace: "shop", Name: "ada"}), "forget")
	_, err = charge()
	assert.ErrorIs(t, err, retrysafe.ErrAnswerSealed, "a forgotten answer")
	assert.Equal(t, last.Origin, "call-1", "origin of a forgotten answer")
}
