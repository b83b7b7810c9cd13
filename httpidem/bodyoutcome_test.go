package httpidem_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestOutcomeInBody tests which answers release the key, which are replayed, and which of them a
// duplicate under Succeed gets as they are.
func TestOutcomeInBody(t *testing.T) {
	t.Parallel()
	outcome := &httpidem.BodyOutcome{Field: "$.result.code", Done: []string{"0", "200", "true"}, NotRun: []string{"503", "busy"}}
	for name, tt := range map[string]struct {
		status      int
		media, body string
		runs        int    // of a request and its duplicate
		succeeds    string // what a duplicate gets under Succeed
	}{
		"done":                {200, jsonType, `{"result":{"code":0}}`, 1, "static"},
		"done, as text":       {200, jsonType, `{"result":{"code":"200"}}`, 1, "static"},
		"done, as a fraction": {201, jsonType + "; charset=utf-8", ` {"result": {"code": 2.0e2} } `, 1, "static"},
		"done, as true":       {200, "application/problem+json", `{"result":{"code":true}}`, 1, "static"},
		"refused":             {200, jsonType, `{"result":{"code":500}}`, 1, "first"},
		"not run":             {200, jsonType, `{"result":{"code":503}}`, 2, "first"},
		"not run, as text":    {299, jsonType, `{"result":{"code":"busy"}}`, 2, "first"},
		"no code":             {200, jsonType, `{"result":{}}`, 1, "first"},
		"no object":           {200, jsonType, `{"result":7}`, 1, "first"},
		"a list":              {200, jsonType, `{"result":{"code":[503]}}`, 1, "first"},
		"null":                {200, jsonType, `{"result":{"code":null}}`, 1, "first"},
		"cut off":             {200, jsonType, `{"result":{"code":503}`, 1, "first"},
		"no JSON":             {200, "text/plain", `{"result":{"code":503}}`, 1, "first"},
		"another status":      {404, jsonType, `{"result":{"code":503}}`, 1, "first"},
		"a redirect":          {303, jsonType, `{"result":{"code":503}}`, 1, "static"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, flush := range []bool{false, true} {
				for _, policy := range []retrysafe.Policy{{}, {Duplicate: retrysafe.Succeed}} {
					runs := 0
					m := newMiddleware(t, &httpidem.Options{Answer: httpidem.AnswerOptions{Outcome: outcome, Succeed: httpidem.StaticAnswer{Body: []byte("static")}}, Policy: policy})
					h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						runs++
						w.Header().Set("Content-Type", tt.media)
						w.WriteHeader(tt.status)
						_, _ = io.WriteString(w, tt.body)
						if flush {
							_ = http.NewResponseController(w).Flush()
						}
					}))
					var last string
					for range 2 {
						w := httptest.NewRecorder()
						h.ServeHTTP(w, keyed("x"))
						last = w.Body.String()
					}
					want := tt.body
					if policy.Duplicate == retrysafe.Succeed && tt.succeeds == "static" {
						want = "static"
					}
					assert.Equal(t, fmt.Sprint(runs, " ", last), fmt.Sprint(tt.runs, " ", want), "flush %t, %v", flush, policy.Duplicate)
				}
			}
		})
	}
}

// TestOutcomeInBodyIsNotAlone tests that what the handler says counts more.
func TestOutcomeInBodyIsNotAlone(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]int{"executed": 1, "not-executed": 2} {
		runs := 0
		m := newMiddleware(t, &httpidem.Options{Answer: httpidem.AnswerOptions{Outcome: &httpidem.BodyOutcome{Field: "/code", Done: []string{"0"}, NotRun: []string{"1"}}}})
		h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			runs++
			w.Header().Set("Content-Type", jsonType)
			w.Header().Set("Idempotency-Outcome", said)
			_, _ = io.WriteString(w, `{"code":`+map[string]string{"executed": "1", "not-executed": "0"}[said]+"}")
		}))
		for range 2 {
			h.ServeHTTP(httptest.NewRecorder(), keyed("x"))
		}
		assert.Equal(t, runs, want, "runs, %s", said)
	}
}

func TestOutcomeInBodyIsChecked(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]httpidem.Options{
		"Done has no value":     {Answer: httpidem.AnswerOptions{Outcome: &httpidem.BodyOutcome{Field: "/code"}}},
		"no member of a body":   {Answer: httpidem.AnswerOptions{Outcome: &httpidem.BodyOutcome{Field: "header:X-Code", Done: []string{"0"}}}},
		"is no field":           {Answer: httpidem.AnswerOptions{Outcome: &httpidem.BodyOutcome{Done: []string{"0"}}}},
		"in Done and in NotRun": {Answer: httpidem.AnswerOptions{Outcome: &httpidem.BodyOutcome{Field: "/code", Done: []string{"0"}, NotRun: []string{"0"}}}},
		"KeepNever":             {Answer: httpidem.AnswerOptions{Outcome: &httpidem.BodyOutcome{Field: "/code", Done: []string{"0"}}, Keep: httpidem.KeepNever}},
	} {
		o.Tenant = httpidem.Global
		err := o.Validate(retrysafe.Policy{})
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%q: %v", want, err)
	}
}

// FuzzOutcomeInBody: no answer of a service makes the middleware panic, or releases a key that no
// value is listed for.
func FuzzOutcomeInBody(f *testing.F) {
	for _, body := range []string{`{"code":503}`, `{"code":0}`, `{"code":1e400}`, `{"code":"503","code":0}`, `[]`, `{"code":-0.0}`, "\xff"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		runs := 0
		m := newMiddleware(t, &httpidem.Options{Answer: httpidem.AnswerOptions{Outcome: &httpidem.BodyOutcome{Field: "/code", Done: []string{"0"}, NotRun: []string{"503"}}}})
		h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			runs++
			w.Header().Set("Content-Type", jsonType)
			_, _ = io.WriteString(w, body)
		}))
		for range 2 {
			h.ServeHTTP(httptest.NewRecorder(), keyed("x"))
		}
		if runs == 2 && !strings.Contains(body, "503") && !strings.ContainsAny(body, `.eE\`) {
			t.Fatalf("%q releases the key", body)
		}
	})
}
