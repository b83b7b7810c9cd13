package once

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestServiceThatBeginsHTTP2: a request that was prepared for HTTP/1.1, over which net/http does
// not send it twice, is not sent over HTTP/2. The next one is prepared for that.
func TestServiceThatBeginsHTTP2(t *testing.T) {
	t.Parallel()
	var effects, handshakes atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		effects.Add(1)
		w.Header().Set("X-Proto", r.Proto)
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if handshakes.Add(1) > 1 {
			return nil, nil //nolint:nilnil // the configuration of the server
		}
		old := s.TLS.Clone()
		old.GetConfigForClient, old.NextProtos = nil, []string{"http/1.1"}
		return old, nil
	}}
	s.StartTLS()
	defer s.Close()
	trust := x509.NewCertPool()
	trust.AddCert(s.Certificate())
	transport := NewTransport(trust)
	defer transport.CloseIdleConnections()
	send := func() (*Delivery, *http.Response, error) {
		d := new(Delivery)
		r, err := http.NewRequestWithContext(d.Follow(context.Background()), http.MethodPost, s.URL, http.NoBody)
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", "k")
		resp, err := transport.RoundTrip(r)
		return d, resp, err
	}
	d, _, err := send() //nolint:bodyclose // there is none
	assert.True(t, err != nil && d.NotSent(err), "the first request is not sent: %v", err)
	assert.ErrorIs(t, d.Stopped(), errNowHTTP2, "why")
	assert.Equal(t, effects.Load(), int64(0), "effects")
	_, resp, err := send()
	assert.NoError(t, err, "the second request")
	_ = resp.Body.Close()
	assert.Equal(t, resp.Header.Get("X-Proto"), "HTTP/2.0", "its protocol")
	assert.Equal(t, effects.Load(), int64(1), "effects")
}
