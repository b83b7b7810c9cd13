package ginidem_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/ginidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

type answer struct {
	status   int
	body     string
	header   http.Header
	trailer  http.Header
	replayed bool
}

// post sends a request, without a key if that is empty.
func post(t *testing.T, url, key string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"what":"tea"}`))
	assert.NoError(t, err, "request")
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := testclient.HTTP.Transport.RoundTrip(r) // does not follow redirects
	assert.NoError(t, err, "answer")
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "body")
	assert.NoError(t, resp.Body.Close(), "close")
	return answer{resp.StatusCode, string(body), resp.Header, resp.Trailer, resp.Header.Get("Idempotency-Replayed") == "true"}
}

func guard(t *testing.T) *httpidem.Middleware {
	t.Helper()
	return httpidem.New(engine(t, memstore.New(nil), retrysafe.Policy{}), &httpidem.Options{Tenant: httpidem.Global})
}

// TestHandlers tests that, whatever gin's handlers answer, the first caller gets what gin alone
// would send, and a duplicate gets the same. Handlers after the middleware run once, and the
// middleware outside sees what was sent.
func TestHandlers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handlers []gin.HandlerFunc
		status   int
		body     string
		field    string // X-A of the answer
		runs     int64  // after two requests; each handler of a chain counts
		again    bool   // the second request runs too
	}{
		"JSON": {[]gin.HandlerFunc{func(c *gin.Context) {
			var in struct{ What string }
			assert.NoError(t, c.BindJSON(&in), "bind")
			c.JSON(http.StatusCreated, gin.H{"got": in.What})
		}}, 201, `{"got":"tea"}`, "", 1, false},
		"a status alone": {[]gin.HandlerFunc{func(c *gin.Context) {
			c.Status(http.StatusNoContent)
			c.Header("X-A", "after the status")
		}}, 204, "", "after the status", 1, false},
		"nothing":        {[]gin.HandlerFunc{func(*gin.Context) {}}, 200, "", "", 1, false},
		"a string":       {[]gin.HandlerFunc{func(c *gin.Context) { c.String(http.StatusTeapot, "short and %s", "stout") }}, 418, "short and stout", "", 1, false},
		"a changed mind": {[]gin.HandlerFunc{func(c *gin.Context) { c.Status(500); c.Status(202) }}, 202, "", "", 1, false},
		"a chain": {[]gin.HandlerFunc{func(c *gin.Context) {
			c.Header("X-A", "inside")
			c.Next()
			assert.Equal(t, c.Writer.Status(), 201, "the status, seen inside")
			assert.Equal(t, c.Writer.Size(), 4, "the size, seen inside")
			assert.True(t, c.Writer.Written(), "written, seen inside")
		}, func(c *gin.Context) { c.Data(201, "text/plain", []byte("done")) }}, 201, "done", "inside", 2, false},
		"a chain that is aborted": {[]gin.HandlerFunc{func(c *gin.Context) {
			c.AbortWithStatusJSON(http.StatusUnprocessableEntity, gin.H{"error": "too hot"})
		}, func(*gin.Context) { t.Error("a handler behind Abort ran") }}, 422, `{"error":"too hot"}`, "", 1, false},
		"an error alone": {[]gin.HandlerFunc{func(c *gin.Context) { _ = c.AbortWithError(http.StatusBadRequest, errors.New("of the handler")) }}, 400, "", "", 1, false},
		"a panic inside": {[]gin.HandlerFunc{gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) {
			c.String(500, "sorry")
		}), func(*gin.Context) { panic("broken") }}, 500, "sorry", "", 2, false},
		"refused at the door": {[]gin.HandlerFunc{func(c *gin.Context) { c.AbortWithStatus(http.StatusForbidden) }}, 403, "", "", 2, true},
		"a stream": {[]gin.HandlerFunc{func(c *gin.Context) {
			n := 0
			c.Stream(func(w io.Writer) bool {
				n++
				_, _ = io.WriteString(w, "x")
				return n < 3
			})
		}}, 200, "xxx", "", 1, false},
		"a flush":    {[]gin.HandlerFunc{func(c *gin.Context) { c.Writer.Flush(); _, _ = c.Writer.WriteString("later") }}, 200, "later", "", 1, false},
		"a redirect": {[]gin.HandlerFunc{func(c *gin.Context) { c.Redirect(http.StatusSeeOther, "/there") }}, 303, "", "", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			var seen atomic.Value
			r := gin.New()
			r.Use(func(c *gin.Context) {
				w, req := c.Writer, c.Request
				c.Next()
				seen.Store([2]int{c.Writer.Status(), max(c.Writer.Size(), 0)})
				assert.True(t, c.Writer == w && c.Request == req, "writer and request are as they were")
			}, ginidem.Middleware(guard(t)))
			var chain []gin.HandlerFunc
			for _, h := range tt.handlers {
				chain = append(chain, func(c *gin.Context) {
					runs.Add(1)
					h(c)
				})
			}
			r.POST("/orders", chain...)
			base := serve(t, r)
			for i := range 2 {
				a := post(t, base+"/orders", "k")
				assert.Equal(t, a.status, tt.status, "status %d", i)
				assert.Equal(t, strings.TrimSpace(a.body), tt.body, "body %d", i)
				assert.Equal(t, a.header.Get("X-A"), tt.field, "field %d", i)
				assert.Equal(t, a.replayed, i == 1 && !tt.again, "replayed %d", i)
				assert.Equal(t, seen.Load(), any([2]int{tt.status, len(a.body)}), "what the outer middleware saw")
			}
			assert.Equal(t, runs.Load(), tt.runs, "runs")
		})
	}
}

// TestPanicOutside tests that gin.Recovery outside the guard answers for a handler that panicked,
// and that the key is in doubt.
func TestPanicOutside(t *testing.T) {
	t.Parallel()
	r := gin.New()
	r.Use(gin.RecoveryWithWriter(io.Discard), ginidem.Middleware(guard(t)))
	var runs atomic.Int64
	r.POST("/orders", func(c *gin.Context) {
		runs.Add(1)
		c.Header("X-A", "half")
		c.String(200, "half an answer")
		panic("broken")
	})
	base := serve(t, r)
	first := post(t, base+"/orders", "k")
	assert.Equal(t, first.status, 500, "the first answer")
	assert.Equal(t, first.body+first.header.Get("X-A"), "", "what the handler had said")
	again := post(t, base+"/orders", "k")
	assert.Equal(t, again.status, 409, "the repeat")
	assert.True(t, strings.Contains(again.body, "outcome-unknown"), "the repeat: %s", again.body)
	assert.Equal(t, runs.Load(), int64(1), "runs")
	post(t, base+"/orders", "")
	assert.Equal(t, runs.Load(), int64(2), "runs without a key")
}

// TestHijack tests that a handler can take the connection over, and that a duplicate does not run
// it again.
func TestHijack(t *testing.T) {
	t.Parallel()
	r := gin.New()
	r.POST("/orders", ginidem.Middleware(guard(t)), func(c *gin.Context) {
		conn, rw, err := c.Writer.Hijack()
		assert.NoError(t, err, "hijack")
		_, _ = rw.WriteString("HTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close\r\n\r\nmy")
		_ = rw.Flush()
		_ = conn.Close()
	})
	r.POST("/late", ginidem.Middleware(guard(t)), func(c *gin.Context) {
		c.String(200, "said")
		_, _, err := c.Writer.Hijack()
		assert.True(t, err != nil, "a connection is taken after the body")
	})
	base := serve(t, r)
	assert.Equal(t, post(t, base+"/orders", "k").body, "my", "the handler's own")
	again := post(t, base+"/orders", "k")
	assert.Equal(t, again.status, 409, "the repeat: %s", again.body)
	assert.Equal(t, post(t, base+"/late", "k").body, "said", "after a body")
}

// TestRoutesThatAreNone tests that gin's own handler answers a request that matches no route, with
// its own status.
func TestRoutesThatAreNone(t *testing.T) {
	t.Parallel()
	r := gin.New()
	r.Use(ginidem.Middleware(guard(t)))
	r.NoRoute(func(c *gin.Context) { c.String(c.Writer.Status(), "nothing here") })
	base := serve(t, r)
	for i := range 2 {
		a := post(t, base+"/nowhere", "k")
		assert.Equal(t, a.status, 404, "status")
		assert.Equal(t, a.body, "nothing here", "body")
		assert.Equal(t, a.replayed, i == 1, "replayed")
	}
}

// TestEarly tests that an informational status is sent at once, and that another status can follow.
func TestEarly(t *testing.T) {
	t.Parallel()
	r := gin.New()
	r.POST("/orders", ginidem.Middleware(guard(t)), func(c *gin.Context) {
		c.Header("Link", "</style>")
		c.Writer.WriteHeader(http.StatusEarlyHints)
		c.Status(http.StatusCreated)
	})
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

// TestTrailer tests that a trailer of an answer without a body is sent as a trailer, not as a
// header field.
func TestTrailer(t *testing.T) {
	t.Parallel()
	r := gin.New()
	r.POST("/orders", ginidem.Middleware(guard(t)), func(c *gin.Context) {
		c.Header("Trailer", "X-After")
		c.Writer.WriteHeaderNow()
		c.Header("X-After", "yes")
	})
	a := post(t, serve(t, r)+"/orders", "k")
	assert.Equal(t, a.header.Get("X-After"), "", "in the head")
	assert.Equal(t, a.trailer.Get("X-After"), "yes", "in the trailer")
}
