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
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// userOf returns the user of the login: a stable id, not a credential that rotates.
func userOf(r *http.Request) (string, error) { return r.Header.Get("X-User-Id"), nil }

func createOrder(w http.ResponseWriter, r *http.Request) {
	attempt, guarded := retrysafe.AttemptFrom(r.Context()) // not guarded if no key was sent
	w.WriteHeader(http.StatusCreated)
	if guarded {
		fmt.Fprintf(w, "order made by attempt %d", attempt.Number())
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
		o.Policy.Duplicate = retrysafe.Reject // a duplicate gets 409, not the answer
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

// A handler that accepts long work at once, and stores its answer for duplicates when it is done.
func ExampleDetach() {
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!")})
	defer e.Shutdown(context.Background())
	m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global})
	done := make(chan struct{})
	report := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		finish, ok := httpidem.Detach(w)
		if !ok { // no key was sent
			fmt.Fprint(w, "the report")
			return
		}
		w.WriteHeader(http.StatusAccepted)
		go func() {
			defer close(done)
			finish(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the report") }))
		}()
	}))
	send := func() {
		r := httptest.NewRequest("POST", "/reports", nil)
		r.Header.Set("Idempotency-Key", "report-2026-11")
		w := httptest.NewRecorder()
		report.ServeHTTP(w, r)
		fmt.Printf("%d %q\n", w.Code, w.Body.String())
	}
	send()
	<-done
	send()
	// Output:
	// 202 ""
	// 200 "the report"
}

// A client that has lost its answer asks for the outcome of its key. Asking runs nothing.
func ExampleMiddleware_Status() {
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!")})
	defer e.Shutdown(context.Background())
	m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global})
	mux := http.NewServeMux()
	mux.Handle("POST /orders", m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})))
	mux.Handle("GET /.retrysafe/status", m.Status())
	send := func(method, target string) {
		r := httptest.NewRequest(method, target, nil)
		r.Header.Set("Idempotency-Key", "8e03978e-40d5-43e8-bc93-6894a57f9324")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(strings.TrimSpace(fmt.Sprintln(method, w.Code, w.Body)))
	}
	send("GET", "/.retrysafe/status?method=POST&path=/orders")
	send("POST", "/orders")
	send("GET", "/.retrysafe/status?method=POST&path=/orders")
	// Output:
	// GET 404 {"state":"absent"}
	// POST 201
	// GET 200 {"state":"completed","attempt":1,"http_status":201}
}

// A service that finds out whether a seat is taken before it does anything answers 409 then. It
// lists the status, and a retry with the same key runs.
func ExampleOptions_notRun() {
	engine := retrysafe.New(memstore.New(nil), nil)
	defer engine.Shutdown(context.Background())
	taken := true
	seats := httpidem.New(engine, &httpidem.Options{Tenant: userOf, Answer: httpidem.AnswerOptions{NotRun: []int{http.StatusConflict}}}).Handler(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if taken {
				w.WriteHeader(http.StatusConflict)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}))
	ask := func() {
		r := httptest.NewRequest("POST", "/seats/12", http.NoBody)
		r.Header.Set("X-User-Id", "ann")
		r.Header.Set("Idempotency-Key", "8e03978e-40d5-43e8-bc93-6894a57f9324")
		w := httptest.NewRecorder()
		seats.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	ask()
	taken = false
	ask()
	fmt.Println(httpidem.NotRun(http.StatusConflict), httpidem.NotRun(http.StatusTooManyRequests))
	// Output:
	// 409
	// 201
	// false true
}
