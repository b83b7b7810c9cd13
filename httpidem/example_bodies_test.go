package httpidem_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// postJSON sends bodies to h, one after the other, and prints the answers.
func postJSON(h http.Handler, bodies ...string) {
	for _, body := range bodies {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	}
}

// Clients that send their key in the body.
func ExampleOptions_keyField() {
	engine := retrysafe.New(memstore.New(nil), nil)
	defer engine.Shutdown(context.Background())
	guard := httpidem.New(engine, &httpidem.Options{
		Key: httpidem.Required, KeySource: httpidem.KeySource{Field: "/idempotency_key"},
		Tenant: httpidem.Global,
	})
	payments := 0
	postJSON(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		payments++
		fmt.Fprintln(w, "payment", payments)
	})), `{"idempotency_key":"a1","amount":5}`, `{"idempotency_key":"a1","amount":5}`, `{"idempotency_key":"b2","amount":5}`)
	// Output:
	// 200 payment 1
	// 200 payment 1
	// 200 payment 2
}

// A service that answers a refusal with 200: one that says that nothing was done lets the retry
// run.
func ExampleBodyOutcome() {
	engine := retrysafe.New(memstore.New(nil), nil)
	defer engine.Shutdown(context.Background())
	guard := httpidem.New(engine, &httpidem.Options{
		Answer:    httpidem.AnswerOptions{Outcome: &httpidem.BodyOutcome{Field: "/code", Done: []string{"0", "200"}, NotRun: []string{"503"}}},
		KeySource: httpidem.KeySource{Field: "/key"},
		Tenant:    httpidem.Global,
	})
	codes := []int{503, 0}
	postJSON(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"code":%d}`, codes[0])
		codes = codes[1:]
	})), `{"key":"a1"}`, `{"key":"a1"}`, `{"key":"a1"}`)
	// Output:
	// 200 {"code":503}
	// 200 {"code":0}
	// 200 {"code":0}
}

// Events of a third party by their id. Its handshake has none, and passes each time.
func ExampleMissing() {
	engine := retrysafe.New(memstore.New(nil), nil)
	defer engine.Shutdown(context.Background())
	guard := httpidem.New(engine, &httpidem.Options{
		Key: httpidem.Fields, Request: httpidem.RequestOptions{
			Fields: []string{"/event_id"}, AnyPayload: true, Missing: httpidem.MissingPass,
			Operation: func(*http.Request) string { return "slack" },
		},
		Answer: httpidem.AnswerOptions{InProgress: &httpidem.StaticAnswer{Status: http.StatusAccepted}},
		Tenant: httpidem.Global, // the handler verifies the sender's signature
	})
	events := 0
	postJSON(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var handshake struct{ Challenge string }
		if json.Unmarshal(body, &handshake) == nil && handshake.Challenge != "" {
			fmt.Fprintln(w, handshake.Challenge)
			return
		}
		events++
		fmt.Fprintln(w, "event", events)
	})), `{"type":"url_verification","challenge":"c1"}`, `{"event_id":"Ev1"}`, `{"event_id":"Ev1","retry":1}`)
	// Output:
	// 200 c1
	// 200 event 1
	// 200 event 1
}
