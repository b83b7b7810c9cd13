package httpidem_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// The first answer is lost. The client retries with the same key, and the payment is made once.
func ExampleTransport() {
	engine := retrysafe.New(memstore.New(nil), nil)
	defer engine.Shutdown(context.Background())
	var payments, requests atomic.Int64
	idem := httpidem.New(engine, &httpidem.Options{Tenant: httpidem.Global})
	guarded := idem.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { payments.Add(1) }))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			w = httptest.NewRecorder()
			defer panic(http.ErrAbortHandler) // cuts the connection
		}
		guarded.ServeHTTP(w, r)
	}))
	defer server.Close()

	// a key for each request that needs one
	client := &http.Client{Transport: &httpidem.Transport{NewKey: rand.Text}}
	resp, err := client.Post(server.URL+"/payments", "text/plain", strings.NewReader("42 EUR"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "requests:", requests.Load(), "payments:", payments.Load())
	// Output:
	// 200 requests: 2 payments: 1
}

// stepKey returns a context with the key of one step of the action that ctx works on. The key is
// the same in every attempt, and different for each step and each caller. It is a digest, so that
// the provider does not see the caller's key.
func stepKey(ctx context.Context, step string) context.Context {
	attempt, guarded := retrysafe.AttemptFrom(ctx)
	if !guarded {
		return ctx
	}
	key, err := attempt.Key().MarshalText() // tenant, operation and id
	if err != nil {
		return ctx
	}
	sum := sha256.Sum256(append(key, "/"+step...))
	return httpidem.ContextWithKey(ctx, hex.EncodeToString(sum[:]))
}

// One key passes through services: the key of the outgoing call is derived from the key of the
// request that is being handled. If the handler runs again, the provider sees the same key.
func ExampleContextWithKey() {
	ctx := context.Background()
	seen := map[string]int{}
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen[r.Header.Get("Idempotency-Key")]++
	}))
	defer provider.Close()

	client := &http.Client{Transport: &httpidem.Transport{}}
	engine := retrysafe.New(memstore.New(nil), nil)
	defer engine.Shutdown(ctx)
	idem := httpidem.New(engine, &httpidem.Options{
		Tenant: userOf,
		// the provider knows the key, so running again is safe
		Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute},
	})
	runs := 0
	shop := idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charge, _ := http.NewRequestWithContext(stepKey(r.Context(), "charge"), "POST", provider.URL, strings.NewReader("42 EUR"))
		resp, err := client.Do(charge)
		if err == nil {
			_ = resp.Body.Close()
		}
		if runs++; err != nil || runs == 1 { // the first run charges, and then fails
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	for range 2 {
		r := httptest.NewRequestWithContext(ctx, "POST", "/orders", strings.NewReader("tea"))
		r.Header.Set("X-User-Id", "ann")
		r.Header.Set("Idempotency-Key", "8e03978e-40d5-43e8-bc93-6894a57f9324")
		w := httptest.NewRecorder()
		shop.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	for key, n := range seen {
		fmt.Println("the provider saw one key of", len(key), "characters", n, "times")
	}
	// Output:
	// 500
	// 201
	// the provider saw one key of 64 characters 2 times
}

// A client that wants to know the reason parses the problem. The body of the answer stays whole.
func ExampleProblemFrom() {
	w := httptest.NewRecorder()
	httpidem.NewProblem("in-progress", nil).WithRetryAfter(2*time.Second).ServeHTTP(w, nil)

	if p, ok := httpidem.ProblemFrom(w.Result()); ok {
		fmt.Println(p.Status, p.Code, p.RetrySeconds(), "s")
	}
	// Output:
	// 409 in-progress 2 s
}

// Most keys are sent as they are; others are quoted.
func ExampleFormatKey() {
	for _, key := range []string{"8e03978e", "order 7, step 2"} {
		line, err := httpidem.FormatKey(key)
		fmt.Println(line, err)
	}
	// Output:
	// 8e03978e <nil>
	// "order 7, step 2" <nil>
}
