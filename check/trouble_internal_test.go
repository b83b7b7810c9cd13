package check

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestTroubleEnds: what was switched on is switched off, with a context that has not ended,
// although the examination is interrupted in between.
func TestTroubleEnds(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	t.Cleanup(server.Close)
	on := false
	trouble := &Trouble{
		On:  func(context.Context) error { on = true; interrupt(); return nil },
		Off: func(ctx context.Context) error { on = ctx.Err() != nil; return ctx.Err() },
	}
	_, err := Examine(ctx, Target{Request: Request{URL: server.URL, Body: []byte("{}")}, TooMany: trouble},
		&Options{Only: []string{"after-too-many"}})
	assert.ErrorIs(t, err, context.Canceled, "examine")
	assert.True(t, !on, "the trouble is off")
}
