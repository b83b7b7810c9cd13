package gateway_test

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
)

// kept holds the last request as it was sent.
type kept struct{ last *http.Request }

func (k *kept) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	again := func() *http.Request {
		c := r.Clone(context.Background())
		c.Body, c.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		return c
	}
	k.last = again()
	return testclient.HTTP.Transport.RoundTrip(again())
}

// TestSignedRoutes tests that a signed request runs once and its retry is replayed, and that a
// copy, a changed request and an unsigned one do not reach the service.
func TestSignedRoutes(t *testing.T) {
	t.Parallel()
	secret := []byte("a secret of thirty-two bytes, no less")
	file := filepath.Join(t.TempDir(), "callers.keys")
	assert.NoError(t, os.WriteFile(file, []byte("shop hmac-sha256 "+base64.StdEncoding.EncodeToString(secret)+" principal=the-shop\n"), 0o600), "keys")
	var runs atomic.Int64
	var account atomic.Value
	base := fromFile(t, `
key_header: [Idempotency-Key, X-Action]
defaults: {signature: {keys: `+file+`, require: idempotency-key, if_present: x-account}}
routes:
  - {match: "POST /open", signature: none}
  - {match: "* /any/**", signature: {keys: `+file+`}, key: optional}
`, func(_ http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		account.Store(r.Header.Get("X-Account"))
	})
	key, err := httpsig.SharedKey(secret)
	assert.NoError(t, err, "key")
	wire := new(kept)
	client := &http.Client{Transport: &httpsig.Transport{Base: wire, Signer: &httpsig.Signer{KeyID: "shop", Key: key, Cover: []string{"x-account", "x-action"}}}}
	send := func(path, id string, change func(*http.Request)) *http.Response {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(`{"amount":7}`))
		assert.NoError(t, err, "request")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Account", "7")
		r.Header.Set("Connection", "x-account") // would remove it
		if id != "" {
			r.Header.Set("Idempotency-Key", id)
		}
		if change != nil {
			change(r)
		}
		resp, err := client.Do(r)
		assert.NoError(t, err, "send")
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	code := func(r *http.Response) string {
		if p, ok := httpidem.ProblemFrom(r); ok {
			return p.Code
		}
		return r.Status
	}
	assert.Equal(t, code(send("/payments", "k", nil)), "200 OK", "signed")
	assert.Equal(t, account.Load(), any("7"), "what was signed arrives, whatever Connection says")
	assert.Equal(t, send("/payments", "k", nil).Header.Get("Idempotency-Replayed"), "true", "a retry, with another signature")
	copied, err := testclient.HTTP.Transport.RoundTrip(wire.last)
	assert.NoError(t, err, "copy")
	assert.Equal(t, code(copied), "nonce-used", "a copy")
	assert.Equal(t, code(send("/payments", "", nil)), "signature-refused", "without a key, which is required")
	assert.Equal(t, runs.Load(), int64(1), "runs")

	resign := func(change func(*http.Request)) string {
		// an attacker in between changes a request that has not arrived yet
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/payments", strings.NewReader(`{"amount":7}`))
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", "other")
		assert.NoError(t, (&httpsig.Signer{KeyID: "shop", Key: key}).Sign(r), "sign")
		change(r)
		resp, err := testclient.HTTP.Transport.RoundTrip(r)
		assert.NoError(t, err, "send")
		t.Cleanup(func() { _ = resp.Body.Close() })
		return code(resp)
	}
	for name, change := range map[string]func(*http.Request){
		"another body":    func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"amount":8}`)) },
		"another path":    func(r *http.Request) { r.URL.Path = "/any/payments" },
		"a query":         func(r *http.Request) { r.URL.RawQuery = "x=1" },
		"another method":  func(r *http.Request) { r.Method = http.MethodPatch },
		"another key":     func(r *http.Request) { r.Header.Set("Idempotency-Key", "more") },
		"no key":          func(r *http.Request) { r.Header.Del("Idempotency-Key") },
		"a key elsewhere": func(r *http.Request) { r.Header.Set("X-Action", "more") },
		"an account":      func(r *http.Request) { r.Header.Set("X-Account", "8") },
	} {
		assert.Equal(t, resign(change), "signature-refused", "%s", name)
	}
	assert.Equal(t, resign(func(r *http.Request) { r.Header.Del("Signature"); r.Header.Del("Signature-Input") }), "signature-missing", "stripped")
	assert.Equal(t, runs.Load(), int64(1), "runs, whatever was tried")
	assert.Equal(t, resign(func(*http.Request) {}), "200 OK", "as it was signed")

	for _, method := range []string{"GET", "PUT", "DELETE", "POST"} {
		assert.Equal(t, code(sendOnly(t, method, base+"/any/thing", "x")), "signature-missing", "%s of a route with * as its method", method)
	}
	plain := sendOnly(t, "POST", base+"/open", "x")
	assert.Equal(t, plain.StatusCode, 200, "a route that needs no signature")
	status := sendOnly(t, "GET", base+"/.retrysafe/status?method=POST&path=/payments", "", "Idempotency-Key", "k")
	assert.Equal(t, code(status), "signature-missing", "a status is for the signer alone")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/.retrysafe/status?method=POST&path=/payments", nil)
	assert.NoError(t, err, "request")
	r.Header.Set("Idempotency-Key", "k")
	told, err := client.Do(r)
	assert.NoError(t, err, "status")
	defer told.Body.Close()
	text, err := io.ReadAll(told.Body)
	assert.NoError(t, err, "status")
	assert.Contains(t, string(text), `"state":"completed"`, "the signer's own key")
}
