package echoidem_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/echoidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

type answer struct {
	status   int
	body     string
	header   http.Header
	replayed bool
}

// post sends a request with a key.
func post(t *testing.T, url, key string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"what":"tea"}`))
	assert.NoError(t, err, "request")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	resp, err := testclient.HTTP.Transport.RoundTrip(r) // does not follow redirects
	assert.NoError(t, err, "answer")
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "body")
	assert.NoError(t, resp.Body.Close(), "close")
	return answer{resp.StatusCode, strings.TrimSpace(string(body)), resp.Header, resp.Header.Get("Idempotency-Replayed") == "true"}
}

func guard(t *testing.T) *httpidem.Middleware {
	t.Helper()
	return httpidem.New(engine(t, memstore.New(nil), retrysafe.Policy{}), &httpidem.Options{Tenant: httpidem.Global})
}

var errOfTheHandler = errors.New("of the handler")

// TestHandlers tests that, whatever echo's handlers answer or return as an error, the first caller
// gets what echo alone would send, and a duplicate gets the same. The middleware outside sees the
// error and what was sent.
func TestHandlers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handler echo.HandlerFunc
		status  int
		body    string
		err     error // as the middleware outside sees it
		runs    int64 // after two requests
		then    int   // the status of the second request if it is not a replay
	}{
		"JSON": {handler: func(c *echo.Context) error {
			var in struct{ What string }
			if err := c.Bind(&in); err != nil {
				return err
			}
			return c.JSON(http.StatusCreated, map[string]string{"got": in.What})
		}, status: 201, body: `{"got":"tea"}`, runs: 1},
		"no content": {handler: func(c *echo.Context) error { return c.NoContent(http.StatusNoContent) }, status: 204, runs: 1},
		"nothing":    {handler: func(*echo.Context) error { return nil }, status: 200, runs: 1},
		"a redirect": {handler: func(c *echo.Context) error { return c.Redirect(http.StatusSeeOther, "/there") }, status: 303, runs: 1},
		"an error with a status": {
			handler: func(*echo.Context) error { return echo.NewHTTPError(http.StatusUnprocessableEntity, "too hot") },
			status:  422, body: `{"message":"too hot"}`, err: echo.NewHTTPError(http.StatusUnprocessableEntity, "too hot"), runs: 1,
		},
		"an error": {
			handler: func(*echo.Context) error { return errOfTheHandler },
			status:  500, body: `{"message":"Internal Server Error"}`, err: errOfTheHandler, runs: 1,
		},
		"an error after the answer": {handler: func(c *echo.Context) error {
			_ = c.String(http.StatusAccepted, "said")
			return errOfTheHandler
		}, status: 202, body: "said", err: errOfTheHandler, runs: 1},
		"refused at the door": {
			handler: func(*echo.Context) error { return echo.ErrForbidden },
			status:  403, body: `{"message":"Forbidden"}`, err: echo.ErrForbidden, runs: 2, then: 403,
		},
		"nothing was done": {
			handler: func(*echo.Context) error { return retrysafe.NothingDone(errOfTheHandler) },
			status:  500, body: `{"message":"Internal Server Error"}`, err: errOfTheHandler, runs: 2, then: 500,
		},
		"in doubt": {
			handler: func(*echo.Context) error { return retrysafe.InDoubt(errOfTheHandler) },
			status:  500, body: `{"message":"Internal Server Error"}`, err: errOfTheHandler, runs: 1, then: 409,
		},
		"a flush": {handler: func(c *echo.Context) error {
			c.Response().WriteHeader(http.StatusOK)
			c.Response().(http.Flusher).Flush() //nolint:errcheck // as older libraries do
			_, err := io.WriteString(c.Response(), "later")
			return err
		}, status: 200, body: "later", runs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var runs, outside atomic.Int64
			r := router()
			r.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c *echo.Context) error {
					w, req := c.Response(), c.Request()
					err := next(c)
					assert.True(t, c.Response() == w && c.Request() == req, "response and request are as they were")
					sent, unwrapErr := echo.UnwrapResponse(w)
					assert.NoError(t, unwrapErr, "echo's response")
					assert.True(t, sent.Committed, "the answer is out when the error comes")
					if outside.Add(1) == 1 {
						assert.Equal(t, sent.Status, tt.status, "the status, seen outside")
						assert.Equal(t, err == nil, tt.err == nil, "an error, seen outside: %v", err)
						_, marked := retrysafe.Marked(err)
						assert.Equal(t, marked, false, "a mark, seen outside")
						if err != nil {
							assert.Equal(t, err.Error(), tt.err.Error(), "the error, seen outside")
						}
					}
					return err
				}
			})
			r.POST("/orders", func(c *echo.Context) error {
				runs.Add(1)
				return tt.handler(c)
			}, echoidem.Middleware(guard(t)))
			base := serve(t, r)
			first, again := post(t, base+"/orders", "k"), post(t, base+"/orders", "k")
			assert.Equal(t, first.status, tt.status, "the first status")
			assert.Equal(t, first.body, tt.body, "the first body")
			assert.Equal(t, runs.Load(), tt.runs, "runs")
			if tt.then != 0 {
				assert.Equal(t, again.status, tt.then, "the second status")
				return
			}
			assert.Equal(t, again.status, tt.status, "the second status")
			assert.Equal(t, again.body, tt.body, "the second body")
			assert.True(t, again.replayed, "a replay")
			assert.Equal(t, again.header.Get("Content-Type"), first.header.Get("Content-Type"), "content type")
		})
	}
}

// TestPanicOutside tests that echo's Recover outside the guard answers for a handler that panicked,
// and that the key is in doubt.
func TestPanicOutside(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	r := router()
	r.Use(middleware.Recover(), echoidem.Middleware(guard(t)))
	r.POST("/orders", func(c *echo.Context) error {
		runs.Add(1)
		_ = c.String(200, "half an answer")
		panic("broken")
	})
	base := serve(t, r)
	first := post(t, base+"/orders", "k")
	assert.Equal(t, first.status, 500, "the first answer: %s", first.body)
	again := post(t, base+"/orders", "k")
	assert.True(t, again.status == 409 && strings.Contains(again.body, "outcome-unknown"), "the repeat: %+v", again)
	assert.Equal(t, runs.Load(), int64(1), "runs")
}

// TestHijack tests that a handler can take the connection over, and that a duplicate does not run
// it again.
func TestHijack(t *testing.T) {
	t.Parallel()
	r := router()
	r.POST("/orders", func(c *echo.Context) error {
		conn, rw, err := http.NewResponseController(c.Response()).Hijack()
		if err != nil {
			return err
		}
		_, _ = rw.WriteString("HTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close\r\n\r\nmy")
		_ = rw.Flush()
		return conn.Close()
	}, echoidem.Middleware(guard(t)))
	base := serve(t, r)
	assert.Equal(t, post(t, base+"/orders", "k").body, "my", "the handler's own")
	assert.Equal(t, post(t, base+"/orders", "k").status, 409, "the repeat")
}

// TestEarly tests that an informational status is sent at once, and that another status can follow.
func TestEarly(t *testing.T) {
	t.Parallel()
	r := router()
	r.POST("/orders", func(c *echo.Context) error {
		c.Response().Header().Set("Link", "</style>")
		c.Response().WriteHeader(http.StatusEarlyHints)
		return c.NoContent(http.StatusCreated)
	}, echoidem.Middleware(guard(t)))
	base := serve(t, r)
	early := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
		assert.Equal(t, status, 103, "early")
		assert.Equal(t, h.Get("Link"), "</style>", "its field")
		early++
		return nil
	}})
	for i := range 2 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/orders", nil)
		assert.NoError(t, err, "request")
		req.Header.Set("Idempotency-Key", "k")
		resp, err := testclient.HTTP.Transport.RoundTrip(req)
		assert.NoError(t, err, "answer")
		assert.NoError(t, resp.Body.Close(), "close")
		assert.Equal(t, resp.StatusCode, 201, "status %d", i)
		assert.Equal(t, early, 1, "early answers: the replay has none")
	}
}
