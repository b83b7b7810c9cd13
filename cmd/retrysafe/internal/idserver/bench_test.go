package idserver_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/idserver"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/memranges"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A client that discards answers.
type nobody struct{ header http.Header }

func (n *nobody) Header() http.Header         { return n.header }
func (n *nobody) Write(p []byte) (int, error) { return len(p), nil }
func (n *nobody) WriteHeader(int)             {}

// BenchmarkHandler measures an id without the server of net/http.
func BenchmarkHandler(b *testing.B) {
	r := memranges.New()
	_, err := r.Create(b.Context(), "order", 1, 100_000)
	assert.NoError(b, err, "Create")
	s, err := idserver.New(b.Context(), &idserver.Options{
		Store: memstore.New(nil), Workers: &idgen.WorkersOptions{Max: 64, Layout: idgen.Fast(), Unsafe: true}, Ranges: r, Log: slog.New(slog.DiscardHandler),
	})
	assert.NoError(b, err, "New")
	defer s.Close(b.Context())
	for _, path := range []string{"/api/snowflake/get/x", "/api/segment/get/order"} {
		b.Run(path[5:], func(b *testing.B) {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
			assert.NoError(b, err, "request")
			w := &nobody{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				s.ServeHTTP(w, req)
			}
		})
	}
}
