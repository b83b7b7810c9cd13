package httpidem_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// over sends one guarded request to s and reads the answer with its trailers.
func over(t *testing.T, s *httptest.Server, key string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/orders", strings.NewReader("body"))
	assert.NoError(t, err, "request")
	r.Header.Set("Idempotency-Key", key)
	resp, err := s.Client().Do(r)
	assert.NoError(t, err, "answer")
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "body")
	return resp, string(body)
}

// TestTrailers tests that trailers reach the first client and duplicates, flushed or not, over both
// versions of HTTP, and that no client gets those that are for the middleware.
func TestTrailers(t *testing.T) {
	t.Parallel()
	for _, flush := range []bool{false, true} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("flush %v http2 %v", flush, http2), func(t *testing.T) {
				t.Parallel()
				m := newMiddleware(t, &httpidem.Options{})
				s := httptest.NewUnstartedServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Trailer", "X-Sum, X-Missing")
					_, _ = io.WriteString(w, "part")
					if flush {
						_ = http.NewResponseController(w).Flush()
					}
					w.Header().Set("X-Sum", "4")
					w.Header().Set(http.TrailerPrefix+"X-Late", "5")
					w.Header().Set(http.TrailerPrefix+"Idempotency-Outcome", "executed")
					w.Header().Set("X-Other", "6")
				})))
				s.EnableHTTP2 = http2
				if http2 {
					s.StartTLS()
				} else {
					s.Start()
				}
				t.Cleanup(s.Close)
				for _, replayed := range []string{"", "true"} {
					resp, body := over(t, s, "k")
					assert.Equal(t, fmt.Sprint(body, resp.ProtoMajor), fmt.Sprint("part", map[bool]int{false: 1, true: 2}[http2]), "replayed %q", replayed)
					assert.Equal(t, resp.Header.Get("Idempotency-Replayed"), replayed, "replayed")
					resp.Trailer.Del("Idempotency-Stored")
					resp.Trailer.Del("X-Missing")
					assert.Equal(t, resp.Trailer, http.Header{"X-Sum": {"4"}, "X-Late": {"5"}}, "replayed %q: trailers", replayed)
					assert.Equal(t, resp.Header.Get("X-Other")+resp.Header.Get("X-Sum"), "", "replayed %q: a field that came too late", replayed)
				}
			})
		}
	}
}

// TestTrailersWithoutRoom tests that an answer whose trailers are too large to be stored is not
// kept, and that its first client gets it whole.
func TestTrailersWithoutRoom(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	sum := strings.Repeat("4", 40<<10)
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/1")
		_, _ = io.WriteString(w, "part")
		w.Header().Set(http.TrailerPrefix+"X-Sum", sum)
		w.Header().Set(http.TrailerPrefix+"X-Also", sum)
	}))
	first, again := httptest.NewRecorder(), httptest.NewRecorder()
	h.ServeHTTP(first, keyed("x"))
	assert.Equal(t, fmt.Sprint(first.Body.String(), len(first.Result().Trailer.Get("X-Sum"))), fmt.Sprint("part", len(sum)), "the first")
	h.ServeHTTP(again, keyed("x"))
	assert.Equal(t, again.Code, 409, "a repeat")
	for _, part := range []string{`"code":"answer-not-kept"`, `"answer_length":4`, `"location":"/orders/1"`} {
		assert.Contains(t, again.Body.String(), part, "a repeat")
	}
}

// TestHijack tests that after the handler has taken the connection over, the key is completed
// without an answer.
func TestHijack(t *testing.T) {
	t.Parallel()
	for _, wrote := range []string{"", "head and "} {
		m, runs, kept := newMiddleware(t, &httpidem.Options{}), 0, make(chan struct{}, 2)
		guarded := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			runs++
			if wrote != "" {
				_, _ = io.WriteString(w, wrote)
			}
			conn, rw, err := http.NewResponseController(w).Hijack()
			assert.NoError(t, err, "hijack")
			defer conn.Close()
			_, _ = rw.WriteString("anything at all\n")
			_ = rw.Flush()
			_, err = w.Write([]byte("x"))
			assert.ErrorIs(t, err, http.ErrHijacked, "a write after it")
		}))
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			guarded.ServeHTTP(w, r)
			kept <- struct{}{}
		}))
		t.Cleanup(s.Close)
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		assert.NoError(t, err, "dial")
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\nbody")
		said, err := io.ReadAll(bufio.NewReader(conn))
		assert.NoError(t, err, "read")
		assert.True(t, strings.HasSuffix(string(said), "anything at all\n"), "what came: %q", said)
		assert.Equal(t, strings.HasPrefix(string(said), "HTTP/1.1 200"), wrote != "", "what was written before it: %q", said)
		<-kept // the connection ends before the handler does, and the key is completed after it
		resp, body := over(t, s, "k")
		assert.Equal(t, resp.StatusCode, 409, "a repeat")
		assert.Contains(t, body, "answer-not-kept", "a repeat")
		assert.True(t, !strings.Contains(body, "sha256"), "no digest of what nobody saw: %s", body)
		assert.Equal(t, runs, 1, "runs")
	}
}

// TestHijackOverHTTP2 tests that the handler gets an error, since it is not possible.
func TestHijackOverHTTP2(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{})
	s := httptest.NewUnstartedServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _, err := http.NewResponseController(w).Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported, "hijack")
		_, _ = io.WriteString(w, "answer")
	})))
	s.EnableHTTP2, s.TLS = true, &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	for range 2 {
		_, body := over(t, s, "k")
		assert.Equal(t, body, "answer", "answer")
	}
}

// TestReadFrom tests io.Copy into a guarded answer, below and above the limit.
func TestReadFrom(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10, 100_000, 3 << 20} {
		m := newMiddleware(t, &httpidem.Options{})
		s := httptest.NewServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			to, ok := w.(io.ReaderFrom)
			assert.True(t, ok, "the writer reads")
			n, err := to.ReadFrom(struct{ io.Reader }{strings.NewReader(strings.Repeat("x", size))})
			assert.Equal(t, fmt.Sprint(n, err), fmt.Sprint(size, nil), "read")
		})))
		t.Cleanup(s.Close)
		resp, body := over(t, s, "k")
		assert.Equal(t, len(body), size, "the first")
		assert.Equal(t, resp.StatusCode, 200, "the first")
		resp, body = over(t, s, "k")
		if size > 1<<20 {
			assert.Equal(t, resp.StatusCode, 409, "too large to keep")
			continue
		}
		assert.Equal(t, len(body), size, "the replay")
	}
}

// TestDetach tests that the client has its answer, the work continues, and duplicates get its late
// answer.
func TestDetach(t *testing.T) {
	t.Parallel()
	_, ok := httpidem.Detach(httptest.NewRecorder())
	assert.True(t, !ok, "what is not guarded")
	for name, tt := range map[string]struct {
		late http.HandlerFunc
		want string
	}{
		"an answer": {func(w http.ResponseWriter, r *http.Request) {
			_, ok := retrysafe.AttemptFrom(r.Context())
			assert.True(t, ok, "the attempt")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "late")
		}, "201 late true"},
		"nothing done": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, "202 soon "},
		"a doubt": {func(_ http.ResponseWriter, r *http.Request) {
			a, _ := retrysafe.AttemptFrom(r.Context())
			_ = a.LeaveInDoubt(r.Context(), nil)
		}, "409 outcome-unknown "},
		"an end in the middle": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "409 outcome-unknown "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, end := newMiddleware(t, &httpidem.Options{}), make(chan func(http.Handler), 2)
			s := httptest.NewServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				finish, ok := httpidem.Detach(wrapped{w})
				assert.True(t, ok, "detach")
				end <- finish
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, "soon")
			})))
			t.Cleanup(s.Close)
			say := func() string {
				resp, body := over(t, s, "k")
				if _, code, is := strings.Cut(body, `"code":"`); is {
					body, _, _ = strings.Cut(code, `"`)
				}
				return fmt.Sprint(resp.StatusCode, " ", body, " ", resp.Header.Get("Idempotency-Replayed"))
			}
			assert.Equal(t, say(), "202 soon ", "the first")
			assert.Equal(t, say(), "409 in-progress ", "meanwhile")
			(<-end)(tt.late)
			assert.Equal(t, say(), tt.want, "after the end")
		})
	}
}

type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestDetachCrash tests that if the goroutine that finishes panics, the key is in doubt, and the
// panic goes on.
func TestDetachCrash(t *testing.T) {
	t.Parallel()
	m, end := newMiddleware(t, &httpidem.Options{}), make(chan func(http.Handler), 1)
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		finish, _ := httpidem.Detach(w)
		end <- finish
	}))
	h.ServeHTTP(httptest.NewRecorder(), keyed("k"))
	func() {
		defer func() { assert.Equal(t, recover(), any("crash"), "the panic goes on") }()
		(<-end)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("crash") }))
	}()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, keyed("k"))
	assert.Equal(t, w.Code, 409, "in doubt")
	assert.Contains(t, w.Body.String(), "outcome-unknown", "in doubt")
}
