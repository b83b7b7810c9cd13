package http_test

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
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// startGuarded starts a gateway with the store in front of a service. post sends an order through
// it.
func startGuarded(t *testing.T, store storeapi.Store, upstream string) (post func(key string) (status int, body, retryAfter string)) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: quiet})
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = engine.Shutdown(gone)
	})
	g, err := gateway.New(engine, &gateway.Options{Upstreams: []string{upstream}, Logger: quiet})
	assert.NoError(t, err, "gateway")
	front := httptest.NewServer(g)
	t.Cleanup(func() { _ = g.Close(); front.Close() })
	return func(key string) (status int, body, retryAfter string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/orders", strings.NewReader("x"))
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Authorization", "Bearer opaque")
		resp, err := testclient.HTTP.Do(r)
		assert.NoError(t, err, "answer")
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		assert.NoError(t, err, "body")
		return resp.StatusCode, string(b), resp.Header.Get("Retry-After")
	}
}

// TestGatewayOnAFullDisk: nothing runs that cannot be recorded, the answer says so, finished work
// is still answered, and when there is space again the gateway works without a restart.
func TestGatewayOnAFullDisk(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		effects.Add(1)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strings.Repeat("x", 3000))
	}))
	t.Cleanup(up.Close)
	// The limit belongs to a connection.
	db := sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t), "max_page_count(80)"))
	post := startGuarded(t, teststores.SQLite(t, db, nil), up.URL)
	status, first, _ := post("good")
	assert.Equal(t, status, 201, "while there is room (%s)", first)

	sqltest.Exec(t, db, "CREATE TABLE filler (x BLOB)")
	for full := false; !full; {
		_, err := db.ExecContext(t.Context(), "INSERT INTO filler VALUES (zeroblob(500))")
		// It may also be locked, since the gateway writes too.
		full = err != nil && strings.Contains(err.Error(), "full")
	}
	// Small records may still fit in pages that are not full; in the end nothing fits.
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

	sqltest.Exec(t, db, "PRAGMA busy_timeout = 5000") // the gateway may be writing
	sqltest.Exec(t, db, "DELETE FROM filler")
	status, _, _ = post("room")
	assert.Equal(t, status, 201, "when there is room again")
	assert.True(t, effects.Load() > before, "it ran")
}

// TestGatewayOnALockedFile: while another transaction holds the file's lock, nothing new runs and
// finished work is answered. After the lock is released, the key that was refused runs once,
// without a restart.
func TestGatewayOnALockedFile(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "effect %d", effects.Add(1))
	}))
	t.Cleanup(up.Close)
	path := sqltest.NewFile(t)
	store, _ := teststores.OpenSQLite(t, path, &sqlstore.Options{LockWait: time.Second})
	post := startGuarded(t, store, up.URL)
	_, first, _ := post("good")
	release := sqltest.HoldFile(t, path)
	defer release()
	for range 2 {
		status, body, retry := post("locked")
		assert.Equal(t, status, 503, "while it is locked (%s)", body)
		assert.Contains(t, body, `"code":"store-unavailable"`, "the answer")
		assert.NotEqual(t, retry, "", "Retry-After")
	}
	status, body, _ := post("good")
	assert.Equal(t, fmt.Sprint(status, body), "201"+first, "finished work")
	assert.Equal(t, effects.Load(), int64(1), "effects while it is locked")
	release()
	for range 2 {
		status, body, _ := post("locked")
		assert.Equal(t, fmt.Sprint(status, body), "201effect 2", "when the lock is given back")
	}
}
