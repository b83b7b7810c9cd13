package report_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

const pages = "https://github.com/retrysafe/retrysafe/blob/main/docs/checks.md#"

// key and other are the keys of the requests in the sample.
const (
	key   = "4f2c9c4e-6a53-4f0e-9d0c-0d5b1f6a7e10"
	other = "b1c1a2f0-77d3-4c62-8a53-9f3d0f8f2c55"
)

func curlLine(key string) string {
	return `curl -i -X POST http://localhost:8080/orders -H "Authorization: $AUTHORIZATION" -H 'Content-Type: application/json'` +
		" -H 'Idempotency-Key: " + key + "' --data-binary '{\"item\":\"teapot\",\"amount\":4200}'"
}

// sampleReport is a report with all verdicts.
func sampleReport() *check.Report {
	ms := time.Millisecond
	return &check.Report{
		Target: "POST http://localhost:8080/orders", Oracle: "GET /orders, $.total",
		Started: time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC), Took: 4100 * ms, Requests: 312,
		Results: []check.Result{
			{
				ID: "replayed", Title: "a duplicate gets the first answer", Page: pages + "replayed", Severity: check.Serious,
				Verdict: check.Passed, Summary: "5 duplicates got the first answer, and the operation took effect once", Took: 48 * ms,
			},
			{
				ID: "concurrent-duplicates", Title: "of many requests at once with one key, one takes effect", Page: pages + "concurrent-duplicates",
				Severity: check.Critical, Verdict: check.Broken, Took: 310 * ms,
				Summary: "10 requests at once with one key took effect 3 times",
				Help:    "Claim the key before the work begins, with a unique index or SET NX. Look at whether the claim succeeded, and not at whether the key was there.",
				Exchanges: []check.Exchange{
					{
						Step: "the first of 10 at once", Curl: curlLine(key), Status: 201, Took: 31 * ms,
						Header: http.Header{
							"Content-Type": {"application/json"}, "Date": {"Sat, 14 Mar 2026 09:26:54 GMT"}, "Location": {"/orders/17"},
						},
						Body: `{"id":17,"item":"teapot","amount":4200,"status":"paid"}` + "\n",
					},
					{
						Step: "one that took effect too", Curl: curlLine(key), Status: 201, Took: 34 * ms,
						Header: http.Header{
							"Content-Type": {"application/json"}, "Date": {"Sat, 14 Mar 2026 09:26:55 GMT"}, "Location": {"/orders/18"},
						},
						Body: `{"id":18,"item":"teapot","amount":4200,"status":"paid"}` + "\n",
					},
				},
			},
			{
				ID: "other-body", Title: "a key that comes with another body is refused", Page: pages + "other-body", Severity: check.Serious,
				Verdict: check.Broken, Summary: "the key with another body was answered 201 Created with the first answer", Took: 22 * ms,
				Help: "Store a digest of the request with the key, and answer 422 if it differs.",
				Exchanges: []check.Exchange{
					{Step: "the first request", Curl: curlLine(other), Status: 201, Took: 12 * ms, Body: `{"id":19}`},
					{Step: "the key with another body", Curl: strings.Replace(curlLine(other), "4200", "4201", 1), Status: 201, Took: 3 * ms, Body: `{"id":19}`},
					{Step: "once more, while the service starts", Curl: strings.Replace(curlLine(other), "4200", "4201", 1), Took: 2 * ms, Error: "connection refused"},
				},
			},
			{
				ID: "replay-marked", Title: "a replayed answer is marked", Page: pages + "replay-marked", Severity: check.Minor,
				Verdict: check.Noted, Summary: "replayed answers have no mark, so a client cannot tell them from the first answer", Took: 9 * ms,
			},
			{
				ID: "after-restart", Title: "a duplicate after a restart gets the first answer", Page: pages + "after-restart", Severity: check.Critical,
				Verdict: check.Undecided, Summary: "the service was not restarted", Help: "Give the command that starts the service again: --restart.", Took: 0,
			},
			{
				ID: "kept-as-promised", Title: "answers are kept as long as promised", Page: pages + "kept-as-promised", Severity: check.Serious,
				Verdict: check.Skipped,
			},
		},
	}
}

// assertGolden compares what was written with a file in testdata, which UPDATE=1 writes.
func assertGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		assert.NoError(t, os.WriteFile(path, []byte(got), 0o600), "write")
	}
	want, err := os.ReadFile(path)
	assert.NoError(t, err, "read; UPDATE=1 go test ./report writes it")
	assert.Equal(t, got, string(want), "%s; UPDATE=1 go test ./report writes it", path)
}
