package check_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestInterrupted: an examination that is ended says so, with how far it came.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	t.Cleanup(server.Close)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	report, err := check.Examine(ctx, check.Target{Request: check.Request{URL: server.URL, Body: []byte(`{"a":1}`)}},
		&check.Options{OnEvent: func(e check.Event) {
			if e.Index == 3 && e.Result != nil {
				interrupt()
			}
		}})
	assert.ErrorIs(t, err, context.Canceled, "examine")
	want := fmt.Sprintf("interrupted; 3 of %d checks were done", len(check.Checks()))
	assert.Contains(t, err.Error(), want, "error")
	assert.True(t, !strings.Contains(err.Error(), "context"), "error: %s", err)
	assert.Equal(t, len(report.Results), 3, "results")
	assert.True(t, report.Interrupted, "the report says so")

	early, end := context.WithCancel(t.Context())
	end()
	_, err = check.Examine(early, check.Target{Request: check.Request{URL: server.URL, Body: []byte(`{"a":1}`)}}, nil)
	assert.True(t, errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "context"), "error: %v", err)
}
