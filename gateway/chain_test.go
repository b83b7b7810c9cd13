package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
)

// TestServiceWithAGuard tests a service that has the middleware itself and gets requests past the
// gateway too: what the middleware refuses is not kept for the key, so the next try gets the
// answer.
func TestServiceWithAGuard(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	inner := httpidem.New(newEngine(t, memstore.New(nil), retrysafe.Policy{}), &httpidem.Options{Credentials: new(httpidem.Credentials)})
	up := httptest.NewServer(inner.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-end
		w.WriteHeader(http.StatusCreated)
	})))
	t.Cleanup(up.Close)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{up.URL}})
	first := make(chan string)
	go func() { first <- told(t, up.URL, "POST", "k", "x") }()
	<-begun
	resp, body, err := send(t, base, "POST", "k", "x")
	assert.NoError(t, err, "request")
	assert.Contains(t, body, `"code":"in-progress"`, "while it runs")
	assert.Equal(t, resp.Header.Get("Idempotency-Outcome"), "", "what is between service and gateway stays there")
	close(end)
	assert.Equal(t, <-first, "201", "past the gateway")
	assert.Equal(t, told(t, base, "POST", "k", "x"), "201", "the next try")
	resp, _, err = send(t, up.URL, "POST", "k", "y")
	assert.NoError(t, err, "request")
	assert.Equal(t, resp.StatusCode, http.StatusUnprocessableEntity, "another payload, past the gateway")
	assert.Equal(t, resp.Header.Get("Idempotency-Outcome"), "", "a client without a gateway")
}
