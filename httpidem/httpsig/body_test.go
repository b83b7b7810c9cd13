package httpsig_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func zeros(n int) io.ReadCloser { return io.NopCloser(bytes.NewReader(make([]byte, n))) }

// TestBodies tests that bodies of every kind arrive as they were signed, and that bodies that are
// too large or cut off are refused.
func TestBodies(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]io.Reader{
		"none": nil, "empty": strings.NewReader(""), "a reader of unknown length": io.MultiReader(strings.NewReader("tea"), strings.NewReader(" and milk")),
		"NoBody": http.NoBody, "the largest": bytes.NewReader(make([]byte, 1<<20)), "an unknown length, empty": io.MultiReader(),
	} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			var want []byte
			if body != nil {
				want, _ = io.ReadAll(body)
				body = bytes.NewReader(want)
				if strings.Contains(name, "unknown") {
					body = io.MultiReader(body)
				}
			}
			w := newWorld(t)
			r, err := http.NewRequestWithContext(t.Context(), method, "http://bank.example/", body)
			assert.NoError(t, err, "request")
			wire := w.sign(r, w.signer("hmac"))
			assert.Equal(t, strings.Contains(wire, "Content-Digest"), method == "POST" || len(want) > 0, "%s %s: a digest", method, name)
			assert.Equal(t, w.send(wire), "accepted", "%s %s (%s)", method, name, w.reason())
			assert.Equal(t, *w.body.Load(), string(want), "%s %s: body", method, name)
			assert.Equal(t, w.last.Load().ContentLength, int64(len(want)), "%s %s: length", method, name)
			body = bytes.NewReader(want)
		}
	}
	w := newWorld(t, func(o *httpsig.Options) { o.MaxBody = 10 })
	wire := w.sign(payment(t), w.signer("hmac"))
	assert.Equal(t, w.send(wire), "body-too-large", "too large")
	chunked := replace(t, replace(t, wire, "Content-Length: 15", "Transfer-Encoding: chunked"), `{"note":"rent"}`, "f\r\n{\"note\":\"rent\"}\r\n0\r\n\r\n")
	assert.Equal(t, w.send(chunked), "body-too-large", "too large, in chunks")
	get, err := http.NewRequestWithContext(t.Context(), "GET", "http://bank.example/", http.NoBody)
	assert.NoError(t, err, "request")
	get.Header.Set("Content-Digest", "sha-256=:AAAA:") // of another body
	bodiless := w.sign(get, w.signer("hmac"))
	hidden := parse(t, bodiless)
	hidden.Body = zeros(1)
	assert.Equal(t, w.serve(hidden), "signature-refused", "more than was announced")
	assert.Equal(t, w.send(bodiless), "accepted", "a digest of before is not sent (%s)", w.reason())
	limited := parse(t, wire)
	limited.Body = http.MaxBytesReader(nil, limited.Body, 5)
	w.options.MaxBody = 0
	assert.Equal(t, w.serve(limited), "body-too-large", "a limit of an outer handler")
	assert.Equal(t, w.send(strings.TrimSuffix(wire, `rent"}`)), "body-incomplete", "cut")
	read := parse(t, wire)
	_, _ = io.ReadAll(read.Body)
	assert.Equal(t, w.serve(read), "body-incomplete", "read before")
	assert.Equal(t, w.store.Len(), 1, "nonces: that of the GET")
	assert.Equal(t, w.send(chunked), "accepted", "the same body in chunks (%s)", w.reason())
	assert.Equal(t, w.last.Load().TransferEncoding, nil, "it is whole now")
}

// TestTrailersAreDropped tests that trailers are dropped, since no signature covers them.
func TestTrailersAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wire := w.sign(payment(t), w.signer("hmac"))
	wire = replace(t, wire, "Content-Length: 15", "Transfer-Encoding: chunked\r\nTrailer: X-Role")
	wire = replace(t, wire, `{"note":"rent"}`, "f\r\n{\"note\":\"rent\"}\r\n0\r\nX-Role: admin\r\n\r\n")
	assert.Equal(t, w.send(wire), "accepted", "%s", w.reason())
	assert.Equal(t, len(w.last.Load().Trailer), 0, "trailers")
}
