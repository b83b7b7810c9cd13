package once

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestServiceThatChangesItsProtocol: a service that chooses another protocol than before gets each
// request once, with a body and without one, guarded or not.
func TestServiceThatChangesItsProtocol(t *testing.T) {
	t.Parallel()
	var effects, open atomic.Int64
	var old atomic.Bool
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		effects.Add(1)
		w.Header().Set("X-Saw", r.Proto+string(body))
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if !old.Load() {
			return nil, nil //nolint:nilnil // the configuration of the server
		}
		config := s.TLS.Clone()
		config.GetConfigForClient, config.NextProtos = nil, []string{"http/1.1"}
		return config, nil
	}}
	s.StartTLS()
	defer s.Close()
	trust := x509.NewCertPool()
	trust.AddCert(s.Certificate())
	transport := NewTransport(trust)
	defer transport.CloseIdleConnections()
	for i, onlyHTTP1 := range []bool{true, true, false, false, true, true, false, false} {
		old.Store(onlyHTTP1)
		waitFor(t, "all connections are closed", func() bool {
			transport.CloseIdleConnections() // net/http's is idle a little after its answer
			return open.Load() == 0
		})
		for _, guarded := range []bool{false, true} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, http.NoBody)
			assert.NoError(t, err, "request")
			body := strings.Repeat("x", i%2)
			if body != "" {
				r.Body, r.ContentLength = NewBody([]byte(body)), 1
			}
			r.Header.Set("Idempotency-Key", "k")
			d := new(Delivery)
			send := transport.RoundTrip
			if guarded {
				send = func(r *http.Request) (*http.Response, error) { return transport.Send(r, d) }
			}
			before := effects.Load()
			resp, err := send(r)
			assert.NoError(t, err, "request %d, guarded: %v", i, guarded)
			_, err = io.Copy(io.Discard, resp.Body)
			assert.NoError(t, err, "answer %d, guarded: %v", i, guarded)
			_ = resp.Body.Close()
			want := map[bool]string{true: "HTTP/1.1", false: "HTTP/2.0"}[onlyHTTP1] + body
			assert.Equal(t, resp.Header.Get("X-Saw"), want, "request %d, guarded: %v", i, guarded)
			assert.Equal(t, effects.Load(), before+1, "effects of request %d, guarded: %v", i, guarded)
		}
	}
}
