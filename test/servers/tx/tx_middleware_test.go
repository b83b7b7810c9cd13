package tx_test

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
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestTxUnderMiddleware: the recipe for money. The middleware may run the handler again after any
// failure that follows the commit: the database has the record, and there is one effect.
func TestTxUnderMiddleware(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, s, _ *shops.Shop) {
		t.Helper()
		for name, outer := range map[string]storeapi.Store{"its own store": memstore.New(nil), "the same database": s.Store} {
			e := teststores.Engine(t, outer)
			runs := 0
			m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global, Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute}})
			server := httptest.NewServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				a, _ := retrysafe.AttemptFrom(r.Context())
				body, _ := io.ReadAll(r.Body)
				res, err := s.Order(r.Context(), string(body))
				if runs++; runs == 1 {
					panic(http.ErrAbortHandler) // the order is there, but the client gets no answer
				}
				if err != nil {
					http.Error(w, "try again", http.StatusServiceUnavailable)
					return
				}
				fmt.Fprintf(w, "order %d, attempt %d, replayed %v", res.Value, a.Number(), res.Replayed)
			})))
			defer server.Close()
			send := func() (*http.Response, error) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(name))
				assert.NoError(t, err, "a request")
				r.Header.Set("Idempotency-Key", strings.ReplaceAll(name, " ", "-")+"-8e03978e-40d5-43e8-bc93-6894a57f9324")
				return testclient.HTTP.Do(r)
			}
			if resp, err := send(); err == nil {
				_ = resp.Body.Close()
				t.Fatalf("the first answer came through: %d", resp.StatusCode)
			}
			var answers []string
			for range 2 {
				var resp *http.Response
				waits.Until(t.Context(), func() bool {
					// The release of the first attempt may still be in progress.
					var err error
					if resp, err = send(); err == nil && resp.StatusCode != http.StatusOK {
						_ = resp.Body.Close()
					}
					return err == nil && resp.StatusCode == http.StatusOK
				})
				body, err := io.ReadAll(resp.Body)
				assert.NoError(t, err, "the answer")
				_ = resp.Body.Close()
				answers = append(answers, string(body))
			}
			assert.Contains(t, answers[0], "attempt 2, replayed true", "the second run meets the database")
			assert.Equal(t, answers[1], answers[0], "a repeat")
			assert.Equal(t, runs, 2, "runs of the handler")
			assert.Equal(t, s.Orders(t, name), 1, "orders")
		}
		page, err := s.Store.List(t.Context(), storeapi.ListRequest{Namespace: "app", Layer: "tx"})
		assert.NoError(t, err, "List")
		assert.Equal(t, len(page.Records), 2, "what keys shows of the transactions")
	})
}
