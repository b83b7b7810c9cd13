package main

import (
	"encoding/json"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// newService takes orders over HTTP. The middleware answers duplicates. The transaction below it
// detects them too, so the middleware may run the handler again after any failure.
func newService(s *shop, records *retrysafe.Engine) http.Handler {
	m := httpidem.New(records, &httpidem.Options{Tenant: httpidem.Global, Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute}})
	return m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.SKU == "" || o.Customer == "" {
			http.Error(w, "send {\"customer\": …, \"sku\": …}", http.StatusBadRequest)
			return
		}
		a, _ := retrysafe.AttemptFrom(r.Context())
		placed, err := s.placeOrder(r.Context(), a.Key(), o)
		if err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(placed) // the client may be gone
	}))
}
