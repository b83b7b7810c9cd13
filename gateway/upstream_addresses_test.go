package gateway_test

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// sendAs sends a POST as a client that calls the gateway by another name. An empty key: unguarded.
func sendAs(t *testing.T, base, host, key, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/orders", strings.NewReader(body))
	assert.NoError(t, err, "request")
	r.Host = host
	r.Header.Set("Authorization", "Bearer opaque")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := testclient.HTTP.Transport.RoundTrip(r)
	assert.NoError(t, err, "%s", key)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "body")
	return resp, string(answer)
}

// TestAnswersNameNoUpstream tests that no answer leads a client to the service itself, first or
// replayed, guarded or not, small or streamed, and that browsers accept its cookies.
func TestAnswersNameNoUpstream(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		host, _, _ := net.SplitHostPort(r.Host)
		h, at := w.Header(), "http://"+r.Host+"/base/orders/1"
		if string(body) == "events" {
			h.Set("Content-Type", "text/event-stream")
		}
		h.Set("Link", "<"+at+">; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		h.Set("Location", at)
		h.Set("Content-Location", "https://"+r.Host+"/base/orders/1")
		h.Set("Refresh", "0; url="+at)
		h.Set("Set-Cookie", "session=1; Path=/; Domain="+host)
		w.WriteHeader(http.StatusCreated)
		if string(body) == "large" {
			body = bytes.Repeat(body, 1<<20)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(up.Close)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{nobody(t), up.URL + "/base"}})
	for _, body := range []string{"small", "events", "large"} {
		for i, key := range []string{"k" + body[:3], "k" + body[:3], ""} {
			name := []string{"guarded", "a duplicate", "unguarded"}[i]
			resp, answer := sendAs(t, base, "shop.example", key, body)
			if body == "large" && i == 1 {
				assert.Contains(t, answer, `"location":"/orders/1"`, "what is known of an answer that is too large to keep")
				continue
			}
			said := fmt.Sprint(resp.StatusCode, resp.Header["Location"], resp.Header["Content-Location"], resp.Header["Refresh"], resp.Header["Link"])
			assert.Equal(t, said, "201 [/orders/1] [/orders/1] [0; url=/orders/1] [</orders/1>; rel=preload]", "%s, %s", body, name)
			if i != 1 { // cookies are not kept
				assert.Equal(t, resp.Header.Get("Set-Cookie"), "session=1; Path=/", "%s, %s: the cookie", body, name)
			}
		}
	}
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, h["Link"]))
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/orders", http.NoBody)
	assert.NoError(t, err, "request")
	resp, err := testclient.HTTP.Transport.RoundTrip(r)
	assert.NoError(t, err, "a page with early hints")
	assert.NoError(t, resp.Body.Close(), "close")
	assert.Equal(t, hints, []string{"103 [</orders/1>; rel=preload]"}, "early hints")
}

// TestKeepHost tests which Host the service gets, and that URLs that it makes of the client's pass
// unchanged.
func TestKeepHost(t *testing.T) {
	t.Parallel()
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Location", "http://"+r.Host+"/orders/1")
		w.Header().Set("X-Host", r.Host+" for "+r.Header.Get("X-Forwarded-Host"))
		w.WriteHeader(http.StatusCreated)
	})
	plain, tls := httptest.NewServer(service), httptest.NewUnstartedServer(service)
	t.Cleanup(plain.Close)
	tls.EnableHTTP2 = true
	tls.StartTLS()
	t.Cleanup(tls.Close)
	trust := x509.NewCertPool()
	trust.AddCert(tls.Certificate())
	for protocol, up := range map[string]*httptest.Server{"HTTP/1.1": plain, "HTTP/2": tls} {
		for _, keep := range []bool{false, true} {
			o := &gateway.Options{Upstreams: []string{up.URL}, UpstreamCAs: trust, KeepHost: keep}
			base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
			host, location := up.Listener.Addr().String(), "/orders/1"
			if keep {
				host, location = "shop.example:8443", "http://shop.example:8443/orders/1"
			}
			// The second guarded request of HTTP/1.1 has a kept connection, and the third is too
			// large to be sent on the goroutine of the request.
			for i, body := range []string{"a", "b", strings.Repeat("x", 32<<10), "", "b"} {
				key := fmt.Sprint("k", i)
				if i > 2 {
					key = ""
				}
				resp, _ := sendAs(t, base, "shop.example:8443", key, body)
				assert.Equal(t, resp.Header.Get("X-Host"), host+" for shop.example:8443", "%s, keep_host %v: the Host of request %d", protocol, keep, i)
				assert.Equal(t, resp.Header.Get("Location"), location, "%s, keep_host %v: Location of answer %d", protocol, keep, i)
			}
		}
	}

	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{plain.URL}, KeepHost: true})
	for head, want := range map[string]string{
		"POST /orders HTTP/1.0\r\n": "201 " + plain.Listener.Addr().String() + " for",
		"POST /orders HTTP/1.0\r\nIdempotency-Key: key-of-more-than-22-characters\r\n":                        "201 " + plain.Listener.Addr().String() + " for",
		"POST /orders HTTP/1.1\r\nHost: shop.example%2f..\r\n":                                                "400 ",
		"POST http://shop.example:1/orders HTTP/1.1\r\nHost: other.example\r\n":                               "201 shop.example:1 for shop.example:1",
		"POST /orders HTTP/1.1\r\nHost: [::1]:1\r\nIdempotency-Key: another-key-of-22-characters-or-more\r\n": "201 [::1]:1 for [::1]:1",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		assert.NoError(t, err, "dial")
		_, err = io.WriteString(conn, head+"Connection: close\r\nContent-Length: 1\r\n\r\nx")
		assert.NoError(t, err, "send")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		assert.NoError(t, err, "answer to %q", head)
		assert.Equal(t, fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("X-Host")), want, "%q", head)
		assert.NoError(t, conn.Close(), "close")
	}
}
