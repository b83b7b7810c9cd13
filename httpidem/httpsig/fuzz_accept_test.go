package httpsig_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// FuzzAccept changes a signed request in transit, and checks that a request that is still accepted
// asks for the same.
func FuzzAccept(f *testing.F) {
	w := newWorld(f, func(o *httpsig.Options) {
		o.Nonces = noncesFunc(func(context.Context, string, string, time.Duration) error { return nil })
	})
	r := payment(f)
	wire := w.sign(r, w.signer("hmac"))
	v := httpsig.New(&w.options)
	for _, change := range []string{"", " ", "\r\n", "x", "%2F", "\r\nIdempotency-Key: x", ", ", ";", "\"", ":"} {
		for _, at := range []string{"POST", "/pay", "alice", "?", "Host", "bank", "Idempotency", "7c5a", "Signature", "keyid", "rent", "Content-Digest"} {
			f.Add(uint16(strings.Index(wire, at)), uint8(1), change)
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, cut uint8, put string) {
		from := min(int(at), len(wire))
		to := min(from+int(cut), len(wire))
		got, err := http.ReadRequest(bufio.NewReader(strings.NewReader(wire[:from] + put + wire[to:])))
		if err != nil {
			return
		}
		accepted, err := v.Accept(got.WithContext(t.Context()))
		if err != nil {
			return
		}
		body, err := io.ReadAll(accepted.Body)
		assert.NoError(t, err, "body")
		assert.True(t, bytes.Equal(body, []byte(`{"note":"rent"}`)), "body %q", body)
		assert.Equal(t, accepted.Method, "POST", "method")
		assert.True(t, accepted.URL.Path == "/pay/alice" && accepted.URL.EscapedPath() == "/pay/alice", "path %q", accepted.URL.EscapedPath())
		assert.Equal(t, accepted.URL.RawQuery, "amount=100", "query")
		host := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(accepted.Host), ":80"), ":")
		assert.Equal(t, host, "bank.example", "host")
		assert.Equal(t, accepted.Header["Idempotency-Key"], []string{"7c5a9f3b2d1e4860"}, "idempotency key")
		assert.Equal(t, accepted.Header["Content-Type"], []string{"application/json"}, "content type")
		assert.Equal(t, len(accepted.Header["Content-Encoding"]), 0, "content coding")
		assert.Equal(t, keyID(accepted.Context()), "hmac", "key id")
	})
}
