package gateway_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestEarlyHead tests a service that sends the head of its answer before the body, and before or
// after it has read the request: every answer to an unguarded request arrives whole.
func TestEarlyHead(t *testing.T) {
	t.Parallel()
	answer := strings.Repeat("whole ", 40)
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		early := r.URL.Path == "/early"
		if early {
			_ = rc.EnableFullDuplex() // not needed over HTTP/2
			w.WriteHeader(http.StatusCreated)
			_ = rc.Flush()
		}
		n, err := io.Copy(io.Discard, r.Body)
		if !early {
			w.WriteHeader(http.StatusCreated)
			_ = rc.Flush()
		}
		fmt.Fprint(w, n, err, answer)
	})
	plain, tls := httptest.NewServer(service), httptest.NewUnstartedServer(service)
	t.Cleanup(plain.Close)
	tls.EnableHTTP2 = true
	tls.StartTLS()
	t.Cleanup(tls.Close)
	trust := x509.NewCertPool()
	trust.AddCert(tls.Certificate())
	for protocol, up := range map[string]*httptest.Server{"HTTP/1.1": plain, "HTTP/2": tls} {
		base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{up.URL}, UpstreamCAs: trust})
		for _, http2 := range []bool{false, true} {
			for _, size := range []int{1, 9 << 10, 600 << 10} {
				for _, chunked := range []bool{false, true} {
					for _, path := range []string{"/late", "/early"} {
						t.Run(fmt.Sprint(protocol, http2, size, chunked, path), func(t *testing.T) {
							t.Parallel()
							transport := &http.Transport{Protocols: new(http.Protocols)}
							transport.Protocols.SetHTTP1(!http2)
							transport.Protocols.SetUnencryptedHTTP2(http2)
							t.Cleanup(transport.CloseIdleConnections)
							client := &http.Client{Transport: transport, Timeout: 2 * time.Minute}
							times := 100
							if size > 100<<10 {
								times = 10
							}
							for i := range times {
								var body io.Reader = bytes.NewReader(make([]byte, size))
								if chunked {
									body = struct{ io.Reader }{body} // of unknown length
								}
								resp, err := client.Post(base+path, "text/plain", body)
								assert.NoError(t, err, "answer %d", i)
								got, err := io.ReadAll(resp.Body)
								_ = resp.Body.Close()
								assert.NoError(t, err, "body %d", i)
								assert.Equal(t, string(got), fmt.Sprint(size, nil, answer), "answer %d", i)
							}
						})
					}
				}
			}
		}
	}
}
