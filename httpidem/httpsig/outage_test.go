package httpsig_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestOutageCostsNothing tests a store that does not answer, or whose reply is lost so that the
// nonce is used up: the client gets 503, signs again after Retry-After, and makes one payment.
func TestOutageCostsNothing(t *testing.T) {
	t.Parallel()
	for _, fault := range []storetest.Fault{storetest.LoseRequest, storetest.LoseReply, storetest.BlockReply} {
		synctest.Test(t, func(t *testing.T) {
			store := storetest.NewFaulty(memstore.New(nil), func(op string, call int) storetest.Fault {
				if op == "issue" && call <= 2 {
					return fault
				}
				return 0
			})
			engine := retrysafe.New(store, &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
			defer func() { _ = engine.Shutdown(context.Background()) }()
			key := must[httpsig.Key](t)(httpsig.SharedKey(secret(32)))
			signed := httpsig.New(&httpsig.Options{Keys: httpsig.Keyring{"shop": {key}}, Nonces: httpsig.NoncesOn(engine)})
			idem := httpidem.New(engine, &httpidem.Options{Tenant: httpsig.Tenant})
			payments, codes := 0, []int{}
			server := signed.Handler(idem.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { payments++ })))
			wire := roundTripper(func(r *http.Request) (*http.Response, error) {
				var b bytes.Buffer
				if err := r.Write(&b); err != nil {
					return nil, err
				}
				w := httptest.NewRecorder()
				server.ServeHTTP(w, parse(t, b.String()))
				codes = append(codes, w.Code)
				return w.Result(), nil
			})
			client := &http.Client{Transport: &httpidem.Transport{
				NewKey: rand.Text, Base: &httpsig.Transport{Base: wire, Signer: &httpsig.Signer{KeyID: "shop", Key: key}},
			}}
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://bank.example/payments", strings.NewReader("42 EUR"))
			assert.NoError(t, err, "request")
			resp, err := client.Do(r)
			assert.NoError(t, err, "answer")
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			assert.Equal(t, codes, []int{503, 503, 200}, "answers")
			assert.Equal(t, payments, 1, "payments")
		})
	}
}

// TestSlowBodies tests that a slow body ends in time, and that its nonce is not used up.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	key, err := httpsig.SharedKey([]byte("a secret of thirty-two bytes, no less"))
	assert.NoError(t, err, "key")
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 bytes or more")})
	t.Cleanup(func() { _ = engine.Shutdown(context.Background()) })
	runs := 0
	v := httpsig.New(&httpsig.Options{
		Keys: httpsig.Keyring{"shop": {key}}, Nonces: httpsig.NoncesOn(engine), BodyTime: 2 * time.Second,
	})
	server := httptest.NewServer(v.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ })))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("a body"))
	assert.NoError(t, err, "request")
	assert.NoError(t, (&httpsig.Signer{KeyID: "shop", Key: key}).Sign(r), "sign")
	slow := r.Clone(t.Context())
	drip, end := io.Pipe()
	defer end.Close()
	slow.Body = drip
	resp, err := testclient.HTTP.Transport.RoundTrip(slow)
	if err == nil { // or the connection was closed in the middle of the request
		assert.Equal(t, resp.StatusCode, http.StatusBadRequest, "a body that does not come")
		_ = resp.Body.Close()
	}
	assert.Equal(t, runs, 0, "runs")
	resp, err = testclient.HTTP.Transport.RoundTrip(r)
	assert.NoError(t, err, "the true one")
	assert.Equal(t, resp.StatusCode, http.StatusOK, "the true one")
	_ = resp.Body.Close()
	assert.Equal(t, runs, 1, "runs")
}
