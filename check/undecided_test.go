package check_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestNothingDecided: a report without any decision says why, and what to give.
func TestNothingDecided(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	t.Cleanup(server.Close)
	target := check.Target{Request: check.Request{URL: server.URL, Body: []byte(`{"a":1}`)}}
	report, err := check.Examine(t.Context(), target, &check.Options{Only: []string{"new-key", "expiry"}})
	assert.NoError(t, err, "examine")
	err = report.Undecided()
	assert.True(t, err != nil, "no check was decided")
	assert.Contains(t, err.Error(), "--count", "what to give")
	assert.Contains(t, err.Error(), "--kept", "what to give")

	report, err = check.Examine(t.Context(), target, &check.Options{Only: []string{"new-key"}, Skip: []string{"new-key"}})
	assert.NoError(t, err, "examine")
	assert.Contains(t, fmt.Sprint(report.Undecided()), "left out", "why")

	report.Results = append(report.Results, check.Result{Verdict: check.Passed})
	assert.NoError(t, report.Undecided(), "one check was decided")
}

// recorder is a T that keeps what is written to it.
type recorder struct {
	ctx    context.Context //nolint:containedctx // T has a method that returns it
	failed []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Context() context.Context  { return r.ctx }
func (r *recorder) Errorf(f string, a ...any) { r.failed = append(r.failed, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...) }

// TestRunOfNothing: a test that decided nothing fails.
func TestRunOfNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	t.Cleanup(server.Close)
	r := &recorder{ctx: t.Context()}
	check.Run(r, check.Target{Request: check.Request{URL: server.URL, Body: []byte(`{"a":1}`)}},
		&check.Options{Only: []string{"new-key"}})
	assert.True(t, len(r.failed) == 1 && strings.Contains(r.failed[0], "no check could be decided"), "it fails: %v", r.failed)
}
