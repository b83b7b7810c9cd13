package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestClassOfAnAnswer: a handler that writes nothing has answered 200, and one that takes the
// connection has switched protocols. One that cuts the connection before it has answered has no
// status.
func TestClassOfAnAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"nothing written": {func(http.ResponseWriter, *http.Request) {}, "2xx"},
		"a cut":           {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "none"},
		"an unusual one":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) }, "other"},
		"a switch": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			assert.NoError(t, err, "hijack")
			_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
			_ = conn.Close()
		}, "1xx"},
	} {
		g := &Gateway{monitor: NewMonitor(nil)}
		ended := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			g.serveObserved(w, r, "default", nil, c.serve)
		}))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		assert.NoError(t, err, "request")
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
		}
		<-ended
		server.Close()
		shown := httptest.NewRecorder()
		g.monitor.Handler().ServeHTTP(shown, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		for _, class := range statusClasses {
			want := map[bool]string{true: "1", false: "0"}[class == c.want]
			assert.True(t, strings.Contains(shown.Body.String(), `retrysafe_answers_total{class="`+class+`",route="default"} `+want), "%s: class %s is not %s", name, class, want)
		}
	}
}
