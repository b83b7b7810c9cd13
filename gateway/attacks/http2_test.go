package attacks_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestTooLargeOverHTTP2 tests that a body that is refused ends its own request, and not the others
// of its connection.
func TestTooLargeOverHTTP2(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "", created)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	reused := false
	for i, want := range []int{201, 413, 201} {
		body := "tea"
		if want == 413 {
			body = strings.Repeat("x", 2<<20)
		}
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+x.addr+"/orders", strings.NewReader(body))
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", strings.Trim(strings.TrimPrefix(key(i), "Idempotency-Key: "), "\r\n"))
		resp, err := transport.RoundTrip(r)
		assert.NoError(t, err, "send %d", i)
		_ = resp.Body.Close()
		assert.Equal(t, resp.StatusCode, want, "request %d", i)
		assert.Equal(t, reused, i > 0, "request %d goes over the connection of the first", i)
	}
}

// TestSpaceInAPath tests a path with a space. Over HTTP/2 a path may have any bytes, which would
// make another request line in HTTP/1.1.
func TestSpaceInAPath(t *testing.T) {
	t.Parallel()
	reached := false
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer up.Close()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Logger: silent})
	defer e.Shutdown(t.Context())
	g, err := gateway.New(e, &gateway.Options{Upstreams: []string{up.URL}, Logger: silent})
	assert.NoError(t, err, "gateway")
	defer g.Close()
	for _, path := range []string{"/a b", "/a?x=1 HTTP/1.1", "/a?x\ty", "/a\x7f"} {
		r := httptest.NewRequest(http.MethodPost, "/a", nil)
		r.RequestURI, r.ProtoMajor = path, 2
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		assert.Equal(t, w.Code, 400, "path %q", path)
	}
	assert.True(t, !reached, "none reaches the service")
}
