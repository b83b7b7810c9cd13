package check_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// rightPer returns a server that acts once for each caller and key. A request for which caller
// returns nothing is refused.
func rightPer(t *testing.T, caller func(*http.Request) string) string {
	t.Helper()
	var mu sync.Mutex
	answers := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := caller(r)
		if who == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		name := who + " " + r.Header.Get("Idempotency-Key")
		if answers[name] == "" {
			answers[name] = fmt.Sprintf(`{"id":"pay_%d"}`, len(answers))
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(answers[name]))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/payments"
}

func examineCredentials(t *testing.T, url string, header http.Header, names ...string) *check.Report {
	t.Helper()
	report, err := check.Examine(t.Context(), check.Target{
		Request:     check.Request{URL: url, Header: header, Body: []byte(`{"amount":500}`)},
		Credentials: names,
	}, &check.Options{Only: []string{"no-credentials", "other-body"}, Rate: 1e6})
	assert.NoError(t, err, "examine and marshal")
	return report
}

func verdictOf(t *testing.T, report *check.Report, id string) check.Verdict {
	t.Helper()
	for _, r := range report.Results {
		if r.ID == id {
			t.Log(r.Summary)
			return r.Verdict
		}
	}
	t.Fatalf("no result of %s", id)
	return 0
}

// TestWrongCookies: each cookie of a request is made wrong, whichever is the session.
func TestWrongCookies(t *testing.T) {
	t.Parallel()
	url := rightPer(t, func(r *http.Request) string {
		if c, err := r.Cookie("session"); err == nil && c.Value == "ann" {
			return c.Value
		}
		return ""
	})
	for _, cookies := range []string{"session=ann; theme=dark", "theme=dark; session=ann"} {
		report := examineCredentials(t, url, http.Header{"Cookie": {cookies}})
		assert.Equal(t, verdictOf(t, report, "no-credentials"), check.Passed, "%s", cookies)
	}
}

// TestAnyCredentialsAreACaller: an API that takes any token for a caller of its own is not broken.
func TestAnyCredentialsAreACaller(t *testing.T) {
	t.Parallel()
	url := rightPer(t, func(r *http.Request) string { return r.Header.Get("Authorization") })
	report := examineCredentials(t, url, http.Header{"Authorization": {"Bearer ann"}})
	assert.Equal(t, verdictOf(t, report, "no-credentials"), check.Noted, "no-credentials")
}
