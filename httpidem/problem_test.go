package httpidem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
)

// TestProblemPages tests that each code has a page that says what happened, whether anything was
// done and what to do, and that each page's code exists, or is said to be reserved.
func TestProblemPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/problems/*-*.md")
	assert.NoError(t, err, "pages")
	index, err := os.ReadFile("../docs/problems/README.md")
	assert.NoError(t, err, "index")
	have := map[string]bool{}
	for _, path := range pages {
		if strings.HasSuffix(path, ".zh-CN.md") {
			continue
		}
		code := strings.TrimSuffix(filepath.Base(path), ".md")
		have[code] = true
		text, err := os.ReadFile(path)
		assert.NoError(t, err, "page")
		for _, part := range []string{"# " + code + "\n", "## What happened", "## Was anything done?", "## What to do"} {
			assert.Contains(t, string(text), part, "page of %s", code)
		}
		assert.Contains(t, string(index), "["+code+"]", "index")
		if strings.Contains(string(text), "Reserved:") {
			continue
		}
		p := httpidem.NewProblem(code, nil) // panics if there is none
		assert.Contains(t, string(text), fmt.Sprint(p.Status), "status on the page of %s", code)
	}
	for _, code := range httpidem.Codes() {
		assert.True(t, have[code], "%s has a page", code)
	}
	assert.True(t, len(httpidem.Codes()) >= 18, "codes")
}

// TestProblemsNameTheHeader tests that a client that sent no key, or one that is too short, learns
// where this service looks for it.
func TestProblemsNameTheHeader(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), nil)
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	h := httpidem.New(e, &httpidem.Options{
		Credentials: new(httpidem.Credentials),
		Key:         httpidem.Required, KeySource: httpidem.KeySource{Header: []string{"X-Request-Key", "X-Old-Key"}, MinLength: 30},
	}).Handler(http.NotFoundHandler())
	for key, want := range map[string]string{
		"": "Send a random key in X-Request-Key or X-Old-Key,", "not a key\x7f": "In X-Old-Key, ", "short": "at least 30 characters in X-Request-Key or X-Old-Key,",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", nil)
		if key != "" {
			r.Header.Set(map[bool]string{true: "X-Request-Key", false: "X-Old-Key"}[key == "short"], key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Contains(t, w.Body.String(), want, "what a key %q is told", key)
	}
}
