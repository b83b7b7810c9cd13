package http_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-resty/resty/v2"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// retrying are popular clients with their defaults: each sends a POST again on errors and on 5xx.
// They return status and body of the last answer.
var retrying = map[string]func(t *testing.T, url, key string) (int, string){
	"go-retryablehttp": func(t *testing.T, url, key string) (int, string) {
		t.Helper()
		c := retryablehttp.NewClient()
		c.Logger, c.RetryMax = nil, 4
		c.RetryWaitMin, c.RetryWaitMax = 20*time.Millisecond, 100*time.Millisecond
		// Return the last answer, and not the client's own error.
		c.ErrorHandler = retryablehttp.PassthroughErrorHandler
		r, err := retryablehttp.NewRequestWithContext(t.Context(), "POST", url, []byte("tea"))
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Authorization", "Bearer opaque")
		resp, err := c.Do(r)
		assert.NoError(t, err, "answer")
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, err, "body")
		return resp.StatusCode, string(body)
	},
	"resty": func(t *testing.T, url, key string) (int, string) {
		t.Helper()
		c := resty.New().SetRetryCount(4).SetRetryWaitTime(20 * time.Millisecond).SetRetryMaxWaitTime(100 * time.Millisecond)
		c.AddRetryCondition(func(r *resty.Response, err error) bool { return err != nil || r.StatusCode() >= 500 })
		resp, err := c.R().SetContext(t.Context()).SetHeader("Idempotency-Key", key).SetHeader("Authorization", "Bearer opaque").SetBody("tea").Post(url)
		assert.NoError(t, err, "answer")
		return resp.StatusCode(), resp.String()
	},
}

// failing is a service that has an effect and then fails, once for each key. It answers later
// requests.
type failing struct {
	*httptest.Server
	effects atomic.Int64
	fail    func(w http.ResponseWriter)
	failed  atomic.Bool
}

func newFailing(t *testing.T, acts bool, fail func(http.ResponseWriter)) *failing {
	t.Helper()
	f := &failing{fail: fail}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		first := !f.failed.Swap(true)
		if acts || !first {
			f.effects.Add(1)
		}
		if first {
			f.fail(w)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "effect %d", f.effects.Load())
	}))
	f.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(f.Close)
	return f
}

// TestRetryingClients: clients that always send again, and a service that fails after it has acted.
// Directly, the effect happens twice. Through the gateway it happens once, and the client gets the
// true outcome.
func TestRetryingClients(t *testing.T) {
	t.Parallel()
	cut := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	for name, do := range retrying {
		for what, tt := range map[string]struct {
			acts bool
			fail func(http.ResponseWriter)
			want string // status and a part of the body
		}{
			"breaks off after it acted": {true, cut, "409 outcome-unknown"},
			"500 after it acted":        {true, func(w http.ResponseWriter) { http.Error(w, "first answer", http.StatusInternalServerError) }, "500 first answer"},
			"503 after it acted":        {true, func(w http.ResponseWriter) { http.Error(w, "first answer", http.StatusServiceUnavailable) }, "503 first answer"},
			"half an answer": {true, func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", "100")
				_, _ = io.WriteString(w, "half")
			}, "409 outcome-unknown"},
			"503 before it acts": {false, func(w http.ResponseWriter) {
				w.Header().Set("Idempotency-Outcome", "not-executed")
				w.WriteHeader(http.StatusServiceUnavailable)
			}, "201 effect 1"},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				bare := newFailing(t, tt.acts, tt.fail)
				if what != "half an answer" { // not every client treats that as a failure
					_, _ = do(t, bare.URL+"/orders", "k")
					want := int64(1)
					if tt.acts {
						want = 2
					}
					assert.Equal(t, bare.effects.Load(), want, "effects without protection")
				}
				up := newFailing(t, tt.acts, tt.fail)
				base := frontOf(t, up.URL)
				for i := range 2 {
					status, body := do(t, base+"/orders", "k")
					wantStatus, part, _ := strings.Cut(tt.want, " ")
					assert.Equal(t, fmt.Sprint(status), wantStatus, "call %d (%s)", i, body)
					assert.Contains(t, body, part, "call %d", i)
				}
				assert.Equal(t, up.effects.Load(), int64(1), "effects")
			})
		}
		t.Run(name+", the service is down at first", func(t *testing.T) {
			t.Parallel()
			addr := "127.0.0.1:" + servers.FreePort(t)
			var effects atomic.Int64
			server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				effects.Add(1)
				w.WriteHeader(http.StatusCreated)
			})}
			t.Cleanup(func() { _ = server.Close() })
			base := frontOf(t, "http://"+addr)
			status, body := do(t, base+"/orders", "k")
			assert.NotEqual(t, status, 201, "while it is down (%s)", body)
			back, err := net.Listen("tcp", addr)
			assert.NoError(t, err, "listen again")
			go func() { _ = server.Serve(back) }()
			waits.Eventually(t, "an answer", func() bool {
				// A person presses again: the client itself gives up after a while.
				status, body = do(t, base+"/orders", "k")
				return status == 201
			})
			assert.Equal(t, status, 201, "in the end (%s)", body)
			assert.Equal(t, effects.Load(), int64(1), "effects")
		})
	}
}

func frontOf(t *testing.T, upstream string) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Logger: log})
	g, err := gateway.New(e, &gateway.Options{Upstreams: []string{upstream}, Logger: log})
	assert.NoError(t, err, "gateway")
	front := httptest.NewServer(g)
	t.Cleanup(func() { front.Close(); _ = g.Close() })
	return front.URL
}
