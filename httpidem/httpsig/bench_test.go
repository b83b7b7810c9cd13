package httpsig_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// BenchmarkAccept verifies a request with a body of 1 kB: everything except the call of the store.
func BenchmarkAccept(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 64)
	for _, id := range []string{"hmac", "ed", "ec"} {
		w := newWorld(b, func(o *httpsig.Options) {
			o.Nonces = noncesFunc(func(context.Context, string, string, time.Duration) error { return nil })
		})
		b.Run(string(w.keys[id].Algorithm()), func(b *testing.B) {
			r, err := http.NewRequestWithContext(b.Context(), "POST", "http://bank.example/pay/alice?amount=100", bytes.NewReader(body))
			assert.NoError(b, err, "request")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", "7c5a9f3b2d1e4860")
			r = parse(b, w.sign(r, w.signer(id)))
			v := httpsig.New(&w.options)
			reader := bytes.NewReader(body)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				reader.Reset(body)
				r.Body = io.NopCloser(reader)
				if _, err := v.Accept(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSign signs the same request.
func BenchmarkSign(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 64)
	w := newWorld(b)
	for _, id := range []string{"hmac", "ed", "ec"} {
		b.Run(string(w.keys[id].Algorithm()), func(b *testing.B) {
			s := w.signer(id)
			b.ReportAllocs()
			for b.Loop() {
				r, err := http.NewRequestWithContext(b.Context(), "POST", "http://bank.example/pay/alice?amount=100", bytes.NewReader(body))
				if err == nil {
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Idempotency-Key", "7c5a9f3b2d1e4860")
					err = s.Sign(r)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
