package redis_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// shopFront is a service behind the middleware, which counts its runs by key.
type shopFront struct {
	*httptest.Server
	runs  atomic.Int64
	began sync.Map // of keys
	takes time.Duration
}

func newShopFront(t *testing.T, e *retrysafe.Engine) *shopFront {
	t.Helper()
	f := new(shopFront)
	m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global})
	inner := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.began.Store(r.Header.Get("Idempotency-Key"), true)
		n := f.runs.Add(1)
		if f.takes > 0 {
			time.Sleep(f.takes)
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d", n)
	}))
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if limit, err := time.ParseDuration(r.Header.Get("X-Limit")); err == nil {
			// Many services set such a limit for each request.
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			r = r.WithContext(ctx)
		}
		inner.ServeHTTP(w, r)
	}))
	f.Config.ErrorLog = nil
	t.Cleanup(f.Close)
	return f
}

// toldAnswer is the answer that a client of a shopFront got.
type toldAnswer struct {
	status     int
	code, body string
	retryAfter bool
	took       time.Duration
	err        error
}

// sendRequest sends one request, for which the service sets a time limit. Any goroutine may call
// it.
func (f *shopFront) sendRequest(t *testing.T, key, limit string) (got toldAnswer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+"/orders", strings.NewReader("tea"))
	if err != nil {
		return toldAnswer{err: err}
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Limit", limit)
	begun := time.Now()
	resp, err := f.Client().Do(r)
	got.took = time.Since(begun)
	if err != nil {
		got.err = err
		return got
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	got.status, got.body, got.err = resp.StatusCode, string(body), err
	got.retryAfter = resp.Header.Get("Retry-After") != ""
	var p struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(body, &p)
	got.code = p.Code
	return got
}

func (f *shopFront) postOrder(t *testing.T, key string) toldAnswer {
	t.Helper()
	got := f.sendRequest(t, key, "")
	assert.NoError(t, got.err, "request")
	return got
}
