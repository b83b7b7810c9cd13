package httpidem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestShortKeyIsExplained: a caller without a credential gets the reason why its key is too short,
// and both ways out.
func TestShortKeyIsExplained(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{Tenant: func(*http.Request) (string, error) { return "", nil }})
	w := httptest.NewRecorder()
	r := request("", "x")
	r.Header.Set("Idempotency-Key", `"cGo6YnJvd3Nlcg"`) // 64 bits, as a browser makes them
	m.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
	for _, part := range []string{`"code":"key-too-short"`, "can be guessed", "at least 22 characters", "or send a credential"} {
		assert.Contains(t, w.Body.String(), part, "the refusal")
	}
}

func request(key, body string) *http.Request {
	r := keyed(body)
	r.Header.Set("Idempotency-Key", key)
	return r
}

// TestWhatAHandlerLeavesBehind tests that a goroutine that outlives its request reads and writes
// nothing of another request.
func TestWhatAHandlerLeavesBehind(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 10 << 10} { // copied, and handed over
		leftBehind(t, strings.Repeat("ann's body", size), strings.Repeat("bob's body", size))
	}
}

func leftBehind(t *testing.T, anns, bobs string) {
	t.Helper()
	m := newMiddleware(t, &httpidem.Options{})
	var bodies []io.Reader
	var writers []http.ResponseWriter
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bodies, writers = append(bodies, r.Body), append(writers, w)
		if len(writers) == 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "bob's ")
		_, err := io.WriteString(writers[0], "ann's secret")
		assert.True(t, err != nil, "a write after a panic is refused")
		writers[0].WriteHeader(500)
		_ = http.NewResponseController(writers[0]).Flush()
		_, _ = io.WriteString(w, "answer")
	}))
	func() {
		defer func() { _ = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), request("a", anns))
	}()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request("b", bobs))
	assert.Equal(t, w.Body.String(), "bob's answer", "bob's answer")
	ann, err := io.ReadAll(bodies[0])
	assert.Equal(t, fmt.Sprint(string(ann), err), anns+"<nil>", "what is left of ann's handler reads")
}

// TestSettledAndCrashed tests that nothing can write any more after a handler that has finished its
// attempt and then panics.
func TestSettledAndCrashed(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	var kept http.ResponseWriter
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept = w
		a, _ := retrysafe.AttemptFrom(r.Context())
		_ = a.LeaveInDoubt(r.Context(), errWork)
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() { _ = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), request("k", "x"))
	}()
	_, err := io.WriteString(kept, "late")
	assert.True(t, err != nil, "a write after the end is refused")
}

// TestOuterFieldsAreNotStored tests that outer handlers set their fields again for each answer,
// also if they set them late.
func TestOuterFieldsAreNotStored(t *testing.T) {
	t.Parallel()
	for name, flush := range map[string]bool{"whole": false, "flushed": true} {
		m, n := newMiddleware(t, &httpidem.Options{}), 0
		inner := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Own", "1")
			_, _ = io.WriteString(w, "plain")
			if flush {
				_ = http.NewResponseController(w).Flush()
			}
		}))
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			w.Header().Set("X-Request-Id", fmt.Sprint(n))
			if n == 1 {
				w.Header().Set("Content-Encoding", "gzip")
			}
			inner.ServeHTTP(&late{w}, r)
		})
		for i := range 2 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request("k", "x"))
			assert.Equal(t, w.Header().Get("X-Request-Id"), fmt.Sprint(i+1), "%s: answer %d: the outer field", name, i)
			assert.Equal(t, w.Header().Get("X-Own"), "1", "%s: answer %d: the handler's field", name, i)
			if i == 1 {
				assert.Equal(t, w.Header().Get("Content-Encoding")+w.Header().Get("X-Late"), "late", "%s: the repeat is not marked as the first was", name)
			}
		}
	}
}

// late sets a field when the head is sent, as compressors do.
type late struct{ http.ResponseWriter }

func (l *late) WriteHeader(status int) {
	l.Header().Set("X-Late", "late")
	l.ResponseWriter.WriteHeader(status)
}

func (l *late) Flush() {}

// TestABodyThatWasReadBefore tests that such a body does not count as an empty one; otherwise two
// different requests would share a fingerprint.
func TestABodyThatWasReadBefore(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{Tenant: func(r *http.Request) (string, error) { return r.FormValue("user"), nil }, KeySource: httpidem.KeySource{MinLength: 1}})
	starts := 0
	h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { starts++ }))
	for _, chunked := range []bool{false, true} {
		r := request("k", "user=ann&amount=1")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if chunked {
			r.ContentLength = -1
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, w.Code, 400, "chunked %v: status", chunked)
		assert.Contains(t, w.Body.String(), "body-incomplete", "chunked %v: code", chunked)
	}
	assert.Equal(t, starts, 0, "starts")
}

// TestOperationIsAsSent tests that the operation has the path as sent: outer handlers may cut the
// path, and requests that differ in that part must not share keys.
func TestOperationIsAsSent(t *testing.T) {
	t.Parallel()
	m, starts := newMiddleware(t, &httpidem.Options{}), 0
	inner := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { starts++ }))
	mux := http.NewServeMux()
	mux.Handle("/eu/", http.StripPrefix("/eu", inner))
	mux.Handle("/us/", http.StripPrefix("/us", inner))
	for _, path := range []string{"/eu/charge", "/us/charge", "/eu/charge"} {
		r := httptest.NewRequest("POST", path, strings.NewReader("x"))
		r.Header.Set("Idempotency-Key", "k")
		mux.ServeHTTP(httptest.NewRecorder(), r)
	}
	assert.Equal(t, starts, 2, "starts")
}

// TestCallbacksThatPanic tests that a callback that panics ends the attempt.
func TestCallbacksThatPanic(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), nil)
	m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global, Answer: httpidem.AnswerOptions{Classify: func(int, http.Header) retrysafe.Outcome { panic("keep") }}})
	func() {
		defer func() { assert.Equal(t, recover(), any("keep"), "the panic goes on up") }()
		m.Handler(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), request("k", "x"))
	}()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, e.Shutdown(gone), "nothing is left running")
}

// TestNestedGuards tests that the inner one of two guards sees that the outer one holds the key.
func TestNestedGuards(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	h := m.Handler(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) })))
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("k", "x"))
		assert.Equal(t, w.Code, 201, "status")
	}
}

// TestSucceedIsNotForRefusals tests that a duplicate of a refusal gets a refusal.
func TestSucceedIsNotForRefusals(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{Policy: retrysafe.Policy{Duplicate: retrysafe.Succeed}})
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPaymentRequired) }))
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("k", "x"))
		assert.Equal(t, w.Code, 402, "status")
	}
}

func TestOddFieldNames(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	odd := strings.ToLower("Set-Cookie")
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header()[odd] = []string{"a=b"} }))
	for i := range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("k", "x"))
		assert.Equal(t, len(w.Header()[odd]), 1-i, "cookies of answer %d", i)
	}
}

func TestOperationMayBeEmpty(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{Request: httpidem.RequestOptions{Operation: func(*http.Request) string { return "" }}})
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, request("k", "x"))
	assert.Equal(t, w.Code, 200, "status")
}

// TestRecoveredPanics tests that an outer handler that answers for a panic does not send the
// handler's fields.
func TestRecoveredPanics(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	inner := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/1")
		w.WriteHeader(201)
		panic("broken")
	}))
	w := httptest.NewRecorder()
	func() {
		defer func() {
			_ = recover()
			w.WriteHeader(500)
		}()
		inner.ServeHTTP(w, request("k", "x"))
	}()
	assert.Equal(t, fmt.Sprint(w.Code, w.Header().Get("Location")), "500", "answer")
}

func TestProblemsForHandlers(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
		var p *httpidem.Problem
		errors.As(err, &p)
		w.WriteHeader(p.Status)
		_, _ = fmt.Fprintf(w, "%s %d", p.Code, p.RetrySeconds())
	}})
	w := httptest.NewRecorder()
	m.Problem(w, keyed("x"), httpidem.NewProblem("upstream-unreachable", nil).WithRetryAfter(1500))
	assert.Equal(t, w.Body.String(), "upstream-unreachable 1", "answer")
	assert.True(t, bytes.HasPrefix([]byte(httpidem.NewProblem("in-progress", errWork).Error()), []byte("in-progress: ")), "error")
}

var errWork = errors.New("secret cause")
