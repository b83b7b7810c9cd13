package httpidem_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestContractsThatCannotBeKept tests that Validate refuses a contract that the other options
// contradict, and says what to change.
func TestContractsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	reexecute := retrysafe.Policy{OnDoubt: retrysafe.Reexecute}
	for name, c := range map[string]struct {
		o    httpidem.Options
		base retrysafe.Policy
		want string // empty: valid
	}{
		"acp under Refuse":             {httpidem.Options{Contract: httpidem.ContractACP}, retrysafe.Policy{}, "Contract acp runs a request again after an answer of 500 or above, and work under Refuse starts at most once; set OnDoubt to Reexecute"},
		"acp under Reexecute":          {httpidem.Options{Contract: httpidem.ContractACP}, reexecute, ""},
		"acp with its own policy":      {httpidem.Options{Contract: httpidem.ContractACP, Policy: reexecute}, retrysafe.Policy{}, ""},
		"acp with Refuse of its own":   {httpidem.Options{Contract: httpidem.ContractACP, Policy: retrysafe.Policy{OnDoubt: retrysafe.Refuse}}, reexecute, "set OnDoubt to Reexecute"},
		"acp that keeps 5xx":           {httpidem.Options{Contract: httpidem.ContractACP, Answer: httpidem.AnswerOptions{After5xx: httpidem.After5xxKeep}}, retrysafe.Policy{}, ""},
		"acp by the status":            {httpidem.Options{Contract: httpidem.ContractACP, Answer: httpidem.AnswerOptions{After5xx: httpidem.After5xxAuto}}, retrysafe.Policy{}, ""},
		"acp that guards nothing":      {httpidem.Options{Contract: httpidem.ContractACP, Key: httpidem.Off}, retrysafe.Policy{}, ""},
		"stripe under Refuse":          {httpidem.Options{Contract: httpidem.ContractStripe}, retrysafe.Policy{}, ""},
		"ietf under Refuse":            {httpidem.Options{Contract: httpidem.ContractIETF}, retrysafe.Policy{}, ""},
		"stripe that releases 5xx":     {httpidem.Options{Contract: httpidem.ContractStripe, Answer: httpidem.AnswerOptions{After5xx: httpidem.After5xxRelease}}, retrysafe.Policy{}, "After5xx is After5xxRelease, which runs work again"},
		"duplicates that are rejected": {httpidem.Options{Contract: httpidem.ContractIETF}, retrysafe.Policy{Duplicate: retrysafe.Reject}, "Contract ietf answers a duplicate with the first answer"},
		"custom rejects duplicates":    {httpidem.Options{Contract: httpidem.ContractCustom}, retrysafe.Policy{Duplicate: retrysafe.Reject}, ""},
		"keys that are derived":        {httpidem.Options{Contract: httpidem.ContractStripe, Key: httpidem.Params}, retrysafe.Policy{}, "Contract stripe is about keys that clients choose"},
		"tokens":                       {httpidem.Options{Contract: httpidem.ContractACP, Key: httpidem.Token}, reexecute, "Contract acp is about keys that clients choose"},
		"no contract":                  {httpidem.Options{Contract: httpidem.ContractACP + 1}, retrysafe.Policy{}, "Contract is 5; use the constants"},
	} {
		c.o.Tenant = httpidem.Global
		err := c.o.Validate(c.base)
		if c.want == "" {
			assert.NoError(t, err, "%s", name)
			continue
		}
		assert.True(t, err != nil, "%s is refused", name)
		assert.Contains(t, err.Error(), c.want, "%s", name)
		assert.Equal(t, strings.Count(err.Error(), "httpidem: "), 1, "one error for %s: %v", name, err)
	}
}

// TestContractOfARoute tests that a route with another contract gets its defaults, and not those of
// the first.
func TestContractOfARoute(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute}, Sweep: -1})
	defer func() { _ = e.Shutdown(t.Context()) }()
	m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global})
	assert.Equal(t, m.Options().Contract, httpidem.ContractCustom, "default")
	acp := m.With(func(o *httpidem.Options) { o.Contract = httpidem.ContractACP })
	o := acp.Options()
	assert.Equal(t, o.Key, httpidem.Required, "Key of acp")
	assert.Equal(t, o.Request.Fingerprint, httpidem.FingerprintJSON, "Fingerprint of acp")
	assert.Equal(t, o.Answer.After5xx, httpidem.After5xxRelease, "After5xx of acp")
	o = acp.With(func(o *httpidem.Options) { o.Contract = httpidem.ContractStripe }).Options()
	assert.Equal(t, o.Key, httpidem.Optional, "Key of stripe")
	assert.Equal(t, o.Answer.After5xx, httpidem.After5xxKeep, "After5xx of stripe")
	w := httptest.NewRecorder()
	acp.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	assert.Contains(t, w.Body.String(), `"code":"idempotency_key_required"`, "a POST without a key")
	assert.Equal(t, strings.Join(m.ExposedHeaders(), " "), strings.Join(httpidem.ExposedHeaders(), " "), "headers of custom for pages")
	assert.Equal(t, strings.Join(acp.ExposedHeaders(), " "), "Idempotent-Replayed Idempotency-Stored Retry-After Location Link Idempotency-Key", "headers of acp for pages")
}

// TestContractEchoesTheField tests that the key comes back in the field that it was sent in, and
// that a value that is no key does not.
func TestContractEchoesTheField(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1})
	defer func() { _ = e.Shutdown(t.Context()) }()
	h := httpidem.New(e, &httpidem.Options{
		Contract:  httpidem.ContractStripe,
		Tenant:    httpidem.Global,
		KeySource: httpidem.KeySource{Header: []string{"Idempotency-Key", "X-Request-Id"}},
		Limit:     httpidem.LimitOptions{Age: &httpidem.Age{Field: "header:Date", Max: time.Minute}},
	}).Handler(http.NotFoundHandler())
	for _, c := range []struct{ name, value, want string }{{"X-Request-Id", "abc", "abc"}, {"X-Request-Id", "a b", ""}} {
		r, w := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
		r.Header.Set(c.name, c.value)
		h.ServeHTTP(w, r)
		assert.Equal(t, w.Code, http.StatusBadRequest, "the request says no time")
		assert.Equal(t, w.Header().Get(c.name), c.want, "field of the key in the answer")
		assert.Equal(t, w.Header().Get("Idempotency-Key"), "", "the other field")
	}
}

// TestContractRate tests the refusal of a caller that asks too often.
func TestContractRate(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1})
	defer func() { _ = e.Shutdown(t.Context()) }()
	h := httpidem.New(e, &httpidem.Options{
		Contract: httpidem.ContractStripe,
		Tenant:   httpidem.Global,
		Limit:    httpidem.LimitOptions{Rate: retrysafe.Rate{PerSecond: 1e-3, Burst: 1}},
	}).Handler(http.NotFoundHandler())
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	assert.Equal(t, w.Code, http.StatusTooManyRequests, "status")
	assert.Contains(t, w.Body.String(), `{"error":{"type":"invalid_request_error","code":"rate_limit","message":`, "document")
}

// TestContractWithOneOperation tests that a key is refused at another endpoint, as Stripe does, if
// all requests are one operation.
func TestContractWithOneOperation(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1})
	defer func() { _ = e.Shutdown(t.Context()) }()
	h := httpidem.New(e, &httpidem.Options{
		Contract: httpidem.ContractStripe,
		Tenant:   httpidem.Global,
		Request:  httpidem.RequestOptions{Operation: func(*http.Request) string { return "v1" }},
	}).Handler(http.NotFoundHandler())
	send := func(path string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(http.MethodPost, path, nil), httptest.NewRecorder()
		r.Header.Set("Idempotency-Key", "k")
		h.ServeHTTP(w, r)
		return w
	}
	assert.Equal(t, send("/charges").Code, http.StatusNotFound, "the first request")
	w := send("/refunds")
	assert.Equal(t, w.Code, http.StatusBadRequest, "the key at another endpoint")
	assert.Contains(t, w.Body.String(), `"type":"idempotency_error"`, "document")
}

// TestContractDocuments tests refusals that no contract names, by their status.
func TestContractDocuments(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute}, Sweep: -1})
	defer func() { _ = e.Shutdown(t.Context()) }()
	for contract, want := range map[httpidem.Contract]map[int]string{
		httpidem.ContractStripe: {409: `{"error":{"type":"invalid_request_error",`, 502: `{"error":{"type":"api_error",`, 503: `{"error":{"type":"api_error",`},
		httpidem.ContractACP:    {409: `{"type":"invalid_request",`, 502: `{"type":"processing_error",`, 503: `{"type":"service_unavailable",`},
	} {
		m := httpidem.New(e, &httpidem.Options{Contract: contract, Tenant: httpidem.Global})
		for status, begin := range want {
			w := httptest.NewRecorder()
			m.Problem(w, httptest.NewRequest(http.MethodPost, "/", nil), httpidem.NewProblem("outcome-unknown", nil).WithStatus(status))
			assert.Equal(t, w.Code, status, "status under %v", contract)
			assert.True(t, strings.HasPrefix(w.Body.String(), begin+`"code":"outcome_unknown","message":"`), "%v, %d: %s", contract, status, w.Body)
		}
	}
}
