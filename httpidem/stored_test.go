package httpidem_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestOperatorsAnswerHasDate: an answer that an operator gave is replayed with the Date of the
// replay (RFC 9110, section 6.6.1).
func TestOperatorsAnswerHasDate(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), nil)
	var key retrysafe.Key
	var fence retrysafe.Fence
	m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global})
	s := httptest.NewServer(m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		a, _ := retrysafe.AttemptFrom(r.Context())
		key, fence = a.Key(), a.Fence()
		_ = a.LeaveInDoubt(r.Context(), retrysafe.ErrClosed)
	})))
	t.Cleanup(s.Close)
	post := func() *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/orders", nil)
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", "a-key-of-twenty-two-bytes")
		resp, err := http.DefaultClient.Do(r)
		assert.NoError(t, err, "answer")
		assert.NoError(t, resp.Body.Close(), "body")
		return resp
	}
	post()
	answer, err := httpidem.StoredAnswer(201, http.Header{"Location": {"/orders/1"}}, []byte("done"))
	assert.NoError(t, err, "answer")
	err = e.Layer("http").Resolve(t.Context(), key, retrysafe.Resolution{Fence: fence, Outcome: retrysafe.Done, Answer: answer})
	assert.NoError(t, err, "resolve")
	resp := post()
	assert.Equal(t, resp.StatusCode, 201, "status of the replay")
	_, err = http.ParseTime(resp.Header.Get("Date"))
	assert.NoError(t, err, "Date of the replay: %q", resp.Header["Date"])
	assert.Equal(t, resp.Header["Content-Type"], nil, "what no one has set")
}

// TestStoredAnswerOfALine: a field of an operator's answer does not begin another field.
func TestStoredAnswerOfALine(t *testing.T) {
	t.Parallel()
	for _, h := range []http.Header{
		{"Location": {"/x\r\nSet-Cookie: a=b"}}, {"Location": {"/x\nA: b"}}, {"Location": {"/x", "\x00"}}, {"A\nB": {"x"}}, {"X": {"\x7f"}},
	} {
		if _, err := httpidem.StoredAnswer(201, h, nil); err == nil {
			t.Errorf("%q is stored", h)
		}
	}
	if _, err := httpidem.StoredAnswer(201, http.Header{"X": {"a\tb", "grüße"}}, nil); err != nil {
		t.Error(err)
	}
}
