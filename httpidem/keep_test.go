package httpidem_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// secretNumber must not be in a store.
const secretNumber = "4111 1111 1111 1111"

// cards answers with a secret in its head and its body. The query says how.
func cards(runs *int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*runs++
		w.Header().Set("Location", "/cards/"+secretNumber)
		if r.URL.Query().Has("refused") {
			w.WriteHeader(http.StatusPaymentRequired)
		} else {
			w.WriteHeader(http.StatusCreated)
		}
		if r.URL.Query().Has("empty") {
			return
		}
		_, _ = io.WriteString(w, secretNumber)
		if r.URL.Query().Has("flushed") {
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, secretNumber)
		}
		if r.URL.Query().Has("large") {
			_, _ = io.WriteString(w, strings.Repeat(secretNumber, 100))
		}
	})
}

func post(h http.Handler, target, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", target, strings.NewReader("body"))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantNotKept wants a 409 answer-not-kept that has no part of the answer.
func wantNotKept(t *testing.T, w *httptest.ResponseRecorder, status int, what string) {
	t.Helper()
	var p httpidem.Problem
	assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), "%s: %s", what, w.Body)
	assert.True(t, w.Code == 409 && p.Code == "answer-not-kept" && p.AnswerStatus == status, "%s: %d %s", what, w.Code, w.Body)
	assert.True(t, !strings.Contains(w.Body.String(), "4111") && p.AnswerSHA256 == "" && p.AnswerLength == nil && p.Location == "", "%s: %s", what, w.Body)
}

// TestKeepNever: the first caller gets the answer, and the store gets only its status. Duplicates
// get the status, and the work does not run again.
func TestKeepNever(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		duplicate retrysafe.Duplicate
		query     string
		first     int
		check     func(*testing.T, *httptest.ResponseRecorder)
	}{
		"an answer": {query: "", first: 201},
		"a refusal": {query: "?refused", first: 402},
		"no body":   {query: "?empty", first: 201},
		"flushed":   {query: "?flushed", first: 201},
		"too large": {query: "?large", first: 201},
		"under Succeed": {duplicate: retrysafe.Succeed, first: 201, check: func(t *testing.T, w *httptest.ResponseRecorder) {
			t.Helper()
			assert.True(t, w.Code == 200 && w.Header().Get("Idempotency-Replayed") == "true", "%d %s", w.Code, w.Body)
		}},
		"a refusal under Succeed": {duplicate: retrysafe.Succeed, query: "?refused", first: 402},
		"under Reject": {duplicate: retrysafe.Reject, first: 201, check: func(t *testing.T, w *httptest.ResponseRecorder) {
			t.Helper()
			assert.True(t, w.Code == 409 && strings.Contains(w.Body.String(), "already-done"), "%d %s", w.Code, w.Body)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs, store := 0, memstore.New(nil)
			m := httpidem.New(retrysafe.New(store, &retrysafe.Options{Sweep: -1}), &httpidem.Options{
				Tenant: httpidem.Global,
				Answer: httpidem.AnswerOptions{Keep: httpidem.KeepNever},
				Policy: retrysafe.Policy{Duplicate: tt.duplicate, MaxAnswer: 1000},
			})
			h := m.Handler(cards(&runs))
			first := post(h, "/cards"+tt.query, "k")
			assert.True(t, first.Code == tt.first && strings.Contains(first.Header().Get("Location"), "4111"), "the first: %d %s", first.Code, first.Body)
			assert.Equal(t, strings.Contains(first.Body.String(), secretNumber), tt.query != "?empty", "the first has the body")
			again := post(h, "/cards"+tt.query, "k")
			if tt.check != nil {
				tt.check(t, again)
			} else {
				wantNotKept(t, again, tt.first, "a duplicate")
			}
			assert.Equal(t, runs, 1, "runs")
			rec, err := store.Lookup(t.Context(), storeapi.StoreKey{Namespace: "app", Layer: "http", Key: retrysafe.Key{Tenant: "global", Operation: "POST /cards", ID: "k"}})
			assert.NoError(t, err, "look")
			assert.Equal(t, rec.State, retrysafe.StateCompleted, "state")
			assert.Equal(t, string(rec.Answer.Body), "HTTP/1.1 "+map[int]string{201: "201 Created", 402: "402 Payment Required"}[tt.first]+"\r\n\r\n", "what is stored")
			assert.True(t, rec.Answer.Digest == [32]byte{} && rec.Answer.Size == int64(len(rec.Answer.Body)), "nothing says how long it was: %v", rec.Answer)
		})
	}
}

// TestKeepNeverContradicts: options that need a stored answer are refused.
func TestKeepNeverContradicts(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]*httpidem.Options{
		"KeepCookies": {Answer: httpidem.AnswerOptions{KeepCookies: true}},
		"stripe":      {Contract: httpidem.ContractStripe},
		"constants":   {Answer: httpidem.AnswerOptions{Keep: 9}},
	} {
		o.Tenant = httpidem.Global
		if o.Answer.Keep == 0 {
			o.Answer.Keep = httpidem.KeepNever
		}
		err := o.Validate(retrysafe.Policy{})
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", want, err)
	}
}

// TestSealedAnswers: a duplicate gets the answer as long as the tenant's key is there. After that,
// and in a process without keys, it gets answer-not-kept, never the cipher text.
func TestSealedAnswers(t *testing.T) {
	t.Parallel()
	inner, runs := memstore.New(nil), 0
	sealed := sealstore.New(inner, sealstore.NewRing("a"), nil)
	guard := func(s storeapi.Store) http.Handler {
		return httpidem.New(retrysafe.New(s, &retrysafe.Options{Sweep: -1}), &httpidem.Options{Tenant: httpidem.Global}).Handler(cards(&runs))
	}
	h := guard(sealed)
	for _, target := range []string{"/cards", "/cards?empty", "/cards?flushed"} {
		first, again := post(h, target, target), post(h, target, target)
		assert.True(t, again.Code == first.Code && again.Body.String() == first.Body.String() && again.Header().Get("Idempotency-Replayed") == "true",
			"%s: %d %s", target, again.Code, again.Body)
		wantNotKept(t, post(guard(inner), target, target), 0, "without keys")
	}
	assert.NoError(t, sealed.Forget(t.Context(), sealstore.Tenant{Namespace: "app", Name: "global"}), "forget")
	for _, target := range []string{"/cards", "/cards?empty", "/cards?flushed"} {
		wantNotKept(t, post(h, target, target), 0, "of a forgotten tenant")
	}
	assert.Equal(t, runs, 3, "runs")
	succeed := httpidem.New(retrysafe.New(sealed, &retrysafe.Options{Sweep: -1}), &httpidem.Options{
		Tenant: httpidem.Global, Policy: retrysafe.Policy{Duplicate: retrysafe.Succeed},
	})
	wantNotKept(t, post(succeed.Handler(cards(&runs)), "/cards", "/cards"), 0, "under Succeed: it may have been a refusal")
}
