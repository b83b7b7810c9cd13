package forms_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/forms"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// FuzzAccept checks that a client gets the refusal with its status, whatever it accepts, and HTML
// only if it has named it.
func FuzzAccept(f *testing.F) {
	for _, accept := range []string{"", "*/*", "text/html", "text/html;q=0", "application/json, text/html;q=0.5", "text/html;q=x", ";;,,", "TEXT/HTML; q=\"0.1\""} {
		f.Add(accept)
	}
	answer := forms.ErrorHandler(nil)
	f.Fuzz(func(t *testing.T, accept string) {
		r, w := httptest.NewRequest("POST", "/", nil), httptest.NewRecorder()
		r.Header["Accept"] = []string{accept}
		answer(w, r, httpidem.NewProblem("outcome-unknown", nil))
		assert.Equal(t, w.Code, 409, "status")
		isPage := strings.HasPrefix(w.Header().Get("Content-Type"), "text/html")
		assert.True(t, isPage || w.Header().Get("Content-Type") == "application/problem+json", "one of the two")
		assert.True(t, !isPage || strings.Contains(strings.ToLower(accept), "text/html"), "a page for %q", accept)
	})
}
