package integration_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestGatewayOnAFullDisk: nothing runs that cannot be recorded, the answer is clear, finished work is still answered, and when there is
// room again it goes on without a restart.
func TestGatewayOnAFullDisk(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		effects.Add(1)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strings.Repeat("x", 3000))
	}))
	t.Cleanup(up.Close)
	db := openDB(t, "sqlite", sqliteDSN(newFile(t), "max_page_count(80)")) // the limit belongs to a connection
	store := migrated(t, db, nil)
	quiet := slog.New(slog.DiscardHandler)
	engine := retrysafe.New(store, &retrysafe.Options{Sweep: -1, Logger: quiet})
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = engine.Shutdown(gone)
	})
	g, err := gateway.New(engine, &gateway.Options{Upstreams: []string{up.URL}, Logger: quiet})
	assert.NoError(t, err, "gateway")
	front := httptest.NewServer(g)
	t.Cleanup(func() { g.Close(); front.Close() })
	post := func(key string) (status int, body, retryAfter string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/orders", strings.NewReader("x"))
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Authorization", "Bearer opaque")
		resp, err := http.DefaultClient.Do(r)
		assert.NoError(t, err, "answer")
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		assert.NoError(t, err, "body")
		return resp.StatusCode, string(b), resp.Header.Get("Retry-After")
	}
	status, first, _ := post("good")
	assert.Equal(t, status, 201, "while there is room (%s)", first)

	execSQL(t, db, "CREATE TABLE filler (x BLOB)")
	for full := false; !full; {
		_, err := db.ExecContext(t.Context(), "INSERT INTO filler VALUES (zeroblob(500))")
		full = err != nil
	}
	// Small records may still find room in pages that are not full; in the end nothing fits.
	before, refused := effects.Load(), 0
	for i := range 40 {
		ran := effects.Load()
		status, body, retry := post(fmt.Sprint("full-", i))
		if status == http.StatusServiceUnavailable {
			refused++
			assert.Contains(t, body, `"code":"store-unavailable"`, "the answer")
			assert.NotEqual(t, retry, "", "Retry-After")
			assert.Equal(t, effects.Load(), ran, "effects of a request that was refused")
		}
		if refused == 3 {
			break
		}
	}
	assert.Equal(t, refused, 3, "requests that were refused")
	status, again, _ := post("good")
	assert.Equal(t, fmt.Sprint(status, again == first), "201 true", "finished work is answered all the same")

	execSQL(t, db, "DELETE FROM filler")
	status, _, _ = post("room")
	assert.Equal(t, status, 201, "when there is room again")
	assert.True(t, effects.Load() > before, "it ran")
}
