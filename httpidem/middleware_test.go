package httpidem_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func newMiddleware(t *testing.T, o *httpidem.Options) *httpidem.Middleware {
	t.Helper()
	if o.Tenant == nil {
		o.Tenant = httpidem.Global
	}
	return httpidem.New(retrysafe.New(memstore.New(nil), nil), o)
}

func keyed(body string) *http.Request {
	r := httptest.NewRequest("POST", "/orders", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", "k")
	return r
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		o    httpidem.Options
		want string
	}{
		"no tenant":              {httpidem.Options{}, "httpidem.Global"},
		"5xx released":           {httpidem.Options{Tenant: httpidem.Global, Answer: httpidem.AnswerOptions{After5xx: httpidem.After5xxRelease}}, "Reexecute"},
		"a safe method":          {httpidem.Options{Tenant: httpidem.Global, Request: httpidem.RequestOptions{Methods: []string{"GET"}}}, "never guarded"},
		"a header name":          {httpidem.Options{Tenant: httpidem.Global, KeySource: httpidem.KeySource{Header: []string{"no name"}}}, "no header name"},
		"an empty header name":   {httpidem.Options{Tenant: httpidem.Global, KeySource: httpidem.KeySource{Header: []string{""}}}, "no header name"},
		"policy":                 {httpidem.Options{Tenant: httpidem.Global, Policy: retrysafe.Policy{Lease: 1}}, "Lease"},
		"static status":          {httpidem.Options{Tenant: httpidem.Global, Answer: httpidem.AnswerOptions{Succeed: httpidem.StaticAnswer{Status: 500}}}, "200 to 299"},
		"status in progress":     {httpidem.Options{Tenant: httpidem.Global, Answer: httpidem.AnswerOptions{InProgress: &httpidem.StaticAnswer{Status: 409}}}, "200 to 299"},
		"constants":              {httpidem.Options{Tenant: httpidem.Global, Key: 77}, "constants"},
		"negative":               {httpidem.Options{Tenant: httpidem.Global, Limit: httpidem.LimitOptions{Body: -1}}, "positive"},
		"a key that is too long": {httpidem.Options{Tenant: httpidem.Global, KeySource: httpidem.KeySource{MinLength: 256}}, "MinLength"},
	} {
		err := tt.o.Validate(retrysafe.Policy{})
		assert.True(t, err != nil && strings.Contains(err.Error(), tt.want), "%s: %v", name, err)
		func() {
			defer func() { assert.True(t, recover() != nil, "%s: New panics", name) }()
			httpidem.New(retrysafe.New(memstore.New(nil), nil), &tt.o)
		}()
	}
}

func TestTenantErrors(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{Tenant: func(*http.Request) (string, error) { return "", errors.New("secret cause") }})
	w := httptest.NewRecorder()
	m.Handler(http.NotFoundHandler()).ServeHTTP(w, keyed("x"))
	assert.Equal(t, w.Code, 403, "status")
	assert.Contains(t, w.Body.String(), `"code":"tenant-missing"`, "code")
	assert.True(t, !strings.Contains(w.Body.String(), "secret"), "the cause is not told")
}

func TestHandlersSeeTheirAttempt(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	var key retrysafe.Key
	h := m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		a, ok := retrysafe.AttemptFrom(r.Context())
		assert.True(t, ok, "a guarded handler has an attempt")
		key = a.Key()
		body, err := io.ReadAll(r.Body)
		assert.Equal(t, fmt.Sprint(string(body), err, r.ContentLength), "the body<nil> 8", "body")
	}))
	h.ServeHTTP(httptest.NewRecorder(), keyed("the body"))
	assert.Equal(t, key, retrysafe.Key{Tenant: "global", Operation: "POST /orders", ID: "k"}, "key")
}

// TestHandlersMaySettle tests that a handler can finish the attempt itself, and that its answer is
// passed on.
func TestHandlersMaySettle(t *testing.T) {
	t.Parallel()
	m, starts := newMiddleware(t, &httpidem.Options{}), 0
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		starts++
		a, _ := retrysafe.AttemptFrom(r.Context())
		_ = a.Release(r.Context(), nil)
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}))
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, keyed("x"))
		assert.Equal(t, w.Code, 503, "status")
	}
	assert.Equal(t, starts, 2, "starts")
}

func TestWith(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	votes := m.With(func(o *httpidem.Options) {
		o.Policy.Duplicate = retrysafe.Reject
		o.Request.Operation = func(*http.Request) string { return "vote" }
		o.Request.Methods = append(o.Request.Methods, "PUT")
	})
	none := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	codes := func(m *httpidem.Middleware) (codes []int) {
		for range 2 {
			w := httptest.NewRecorder()
			m.Handler(none).ServeHTTP(w, keyed("x"))
			codes = append(codes, w.Code)
		}
		return codes
	}
	assert.Equal(t, codes(m), []int{200, 200}, "the first one replays")
	assert.Equal(t, codes(votes), []int{200, 409}, "the changed one rejects, and has keys of its own")
}

// TestController tests that flush and deadlines work by methods of the wrapper, and that nothing
// bypasses it.
func TestController(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	var errs [4]error
	s := httptest.NewServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		errs[0] = rc.SetReadDeadline(time.Now().Add(time.Minute))
		errs[1] = rc.SetWriteDeadline(time.Now().Add(time.Minute))
		errs[2] = rc.EnableFullDuplex()
		_, _ = io.WriteString(w, "part")
		errs[3] = rc.Flush()
		_, unwraps := w.(interface{ Unwrap() http.ResponseWriter })
		assert.True(t, !unwraps, "the wrapper has no Unwrap")
	})))
	defer s.Close()
	r := keyed("x").Clone(t.Context())
	r.URL.Scheme, r.URL.Host, r.RequestURI = "http", strings.TrimPrefix(s.URL, "http://"), ""
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(t, err, "request")
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	assert.Equal(t, fmt.Sprint(string(body), err), "part<nil>", "body")
	for i, err := range errs {
		assert.NoError(t, err, "controller call %d", i)
	}
}

// TestFlushedPartsArriveEarly tests that all but the last byte of what was flushed arrives before
// the handler ends.
func TestFlushedPartsArriveEarly(t *testing.T) {
	t.Parallel()
	m, hold := newMiddleware(t, &httpidem.Options{}), make(chan struct{})
	s := httptest.NewServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first line\n!")
		_ = http.NewResponseController(w).Flush()
		<-hold
	})))
	defer s.Close()
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, nil)
	assert.NoError(t, err, "request")
	r.Header.Set("Idempotency-Key", "k")
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(t, err, "request")
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	line, err := in.ReadString('\n')
	assert.Equal(t, fmt.Sprint(line, err), "first line\n<nil>", "while the handler works")
	release()
	rest, err := io.ReadAll(in)
	assert.Equal(t, fmt.Sprint(string(rest), err), "!<nil>", "the last byte")
}

func TestInformationalAnswers(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	s := httptest.NewServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusCreated)
	})))
	defer s.Close()
	hints := 0
	r, err := http.NewRequestWithContext(withTrace(t.Context(), func(code int, h textproto.MIMEHeader) {
		if code == 103 && h.Get("Link") != "" {
			hints++
		}
	}), "POST", s.URL, nil)
	assert.NoError(t, err, "request")
	r.Header.Set("Idempotency-Key", "k")
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(t, err, "request")
	defer resp.Body.Close()
	assert.Equal(t, fmt.Sprint(resp.StatusCode, hints, resp.Header["Link"]), "201 1 []", "status, hints, field")
}

// TestOuterHeadersStay tests that every answer has what handlers outside have set (CORS), and that
// what the handler set belongs to its answer.
func TestOuterHeadersStay(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	inner := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.Equal(t, w.Header().Get("Access-Control-Allow-Origin"), "*", "the handler sees outer fields")
		w.Header().Del("X-Unwanted")
		w.Header().Set("X-Own", "1")
	}))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("X-Unwanted", "1")
		inner.ServeHTTP(w, r)
	})
	for _, body := range []string{"x", "x", "other"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, keyed(body))
		assert.Equal(t, w.Header().Get("Access-Control-Allow-Origin"), "*", "answer %d", w.Code)
		if w.Code == 200 && w.Header().Get("Idempotency-Replayed") == "" {
			assert.Equal(t, w.Header().Get("X-Unwanted")+w.Header().Get("X-Own"), "1", "fields")
		}
	}
}

// TestWritesAfterTheEnd tests that a goroutine that outlives its handler does not write into
// another request's memory.
func TestWritesAfterTheEnd(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	var kept http.ResponseWriter
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { kept = w }))
	h.ServeHTTP(httptest.NewRecorder(), keyed("x"))
	_, err := io.WriteString(kept, "too late")
	assert.True(t, err != nil, "an error")
}
