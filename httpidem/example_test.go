package httpidem_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/memstore"
)

// userOf comes from the login: a stable id, not a credential that rotates.
func userOf(r *http.Request) (string, error) { return r.Header.Get("X-User-Id"), nil }

func createOrder(w http.ResponseWriter, r *http.Request) {
	attempt, guarded := retrysafe.AttemptFrom(r.Context()) // absent where no key was sent
	w.WriteHeader(http.StatusCreated)
	if guarded {
		fmt.Fprintf(w, "order made by attempt %d", attempt.N())
	}
}

func ExampleNew() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), nil)
	defer engine.Shutdown(ctx)

	idem := httpidem.New(engine, &httpidem.Options{
		Tenant: userOf,
		Policy: retrysafe.Policy{Wait: 5 * time.Second},
	})
	mux := http.NewServeMux()
	mux.Handle("POST /orders", idem.Handler(http.HandlerFunc(createOrder)))
	mux.Handle("POST /votes", idem.With(func(o *httpidem.Options) {
		o.Policy.Duplicate = retrysafe.Reject // a repeat is told so, not answered again
	}).Handler(http.HandlerFunc(createOrder)))

	server := httptest.NewServer(mux)
	defer server.Close()
	for range 2 {
		r, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/orders", strings.NewReader("tea"))
		r.Header.Set("X-User-Id", "ann")
		r.Header.Set("Idempotency-Key", "8e03978e-40d5-43e8-bc93-6894a57f9324")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Printf("%d %s, replayed: %q\n", resp.StatusCode, body, resp.Header.Get("Idempotency-Replayed"))
	}
	// Output:
	// 201 order made by attempt 1, replayed: ""
	// 201 order made by attempt 1, replayed: "true"
}
