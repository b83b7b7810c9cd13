package httpidem_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// cutter is a listener whose connections break when the server begins to answer, as long as cuts
// are left.
type cutter struct {
	net.Listener
	cuts atomic.Int64
}

func (c *cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cutConn{conn, c}, nil
}

type cutConn struct {
	net.Conn
	from *cutter
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.from.cuts.Add(-1) >= 0 {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// shop is a server whose guarded handler counts its runs.
type shop struct {
	*httptest.Server
	cut  cutter
	runs atomic.Int64
	keys sync.Map // the keys that arrived
}

func newShop(t *testing.T, o *httpidem.Options) *shop {
	t.Helper()
	s := &shop{}
	m := newMiddleware(t, o)
	inner := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "order %d: %s", s.runs.Add(1), b)
	}))
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.keys.Store(r.Header.Get("Idempotency-Key"), true)
		inner.ServeHTTP(w, r)
	}))
	s.cut.Listener = s.Listener
	s.Listener = &s.cut
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *shop) order(t *testing.T, ctx context.Context, tr *httpidem.Transport) string { //nolint:revive // the test comes first
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/orders", strings.NewReader("tea"))
	assert.NoError(t, err, "request")
	resp, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s %v %s", resp.StatusCode, b, err, resp.Header.Get("Idempotency-Replayed"))
}

// transport returns a transport with its own connections and short waits.
func transport(t *testing.T) *httpidem.Transport {
	t.Helper()
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return &httpidem.Transport{Base: base, MinWait: time.Millisecond}
}

// TestTransportThroughCutConnections tests a connection that breaks after the effect, twice: there
// is one effect, and the client has the answer.
func TestTransportThroughCutConnections(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]bool{"key of the context": true, "NewKey": false} {
		s, tr, ctx := newShop(t, &httpidem.Options{}), transport(t), t.Context()
		if given {
			ctx = httpidem.ContextWithKey(ctx, `a "key", quoted`)
		} else {
			tr.NewKey = rand.Text
		}
		s.cut.cuts.Store(2)
		assert.Equal(t, s.order(t, ctx, tr), "201 order 1: tea <nil> true", "%s: answer", name)
		assert.Equal(t, s.runs.Load(), int64(1), "%s: effects", name)
		keys := 0
		s.keys.Range(func(any, any) bool { keys++; return true })
		assert.Equal(t, keys, 1, "%s: keys that arrived", name)
	}
}

// TestTransportWithoutAKey tests that nothing is retried, and that the caller learns that the
// connection broke.
func TestTransportWithoutAKey(t *testing.T) {
	t.Parallel()
	s := newShop(t, &httpidem.Options{})
	s.cut.cuts.Store(1)
	assert.Contains(t, s.order(t, t.Context(), transport(t)), "EOF", "error")
	assert.Equal(t, s.runs.Load(), int64(1), "effects")
}

// TestTransportManyCallers tests that concurrent copies of an action end in one effect and one
// answer for all.
func TestTransportManyCallers(t *testing.T) {
	t.Parallel()
	s, tr := newShop(t, &httpidem.Options{Policy: retrysafe.Policy{Wait: 5 * time.Second}}), transport(t)
	s.cut.cuts.Store(2)
	ctx := httpidem.ContextWithKey(t.Context(), "one action")
	var all sync.WaitGroup
	answers := make([]string, 8)
	for i := range answers {
		all.Go(func() { answers[i] = s.order(t, ctx, tr) })
	}
	all.Wait()
	for _, a := range answers {
		assert.True(t, strings.HasPrefix(a, "201 order 1: tea <nil>"), "answer: %s", a)
	}
	assert.Equal(t, s.runs.Load(), int64(1), "effects")
}

// through calls h without a network. A handler that panics answers nothing.
func through(h http.Handler) roundTrip {
	return func(r *http.Request) (resp *http.Response, err error) {
		defer func() {
			if recover() != nil {
				resp, err = nil, io.EOF
			}
		}()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result(), nil
	}
}

// TestTransportUnderstandsTheMiddleware tests what the client does with each answer of the
// middleware.
func TestTransportUnderstandsTheMiddleware(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Secret: []byte("a secret of tests")})
		defer e.Shutdown(t.Context())
		m := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global})
		var arrived atomic.Int64
		shop := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/slow":
				time.Sleep(7 * time.Second)
			case "/crash":
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusCreated)
		}))
		base := through(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived.Add(1)
			shop.ServeHTTP(w, r)
		}))
		tell := func(tr *httpidem.Transport, path, body string) string {
			arrived.Store(0)
			r, _ := http.NewRequestWithContext(httpidem.ContextWithKey(t.Context(), "k"), "POST", "http://shop.example"+path, strings.NewReader(body))
			resp, err := tr.RoundTrip(r)
			assert.NoError(t, err, "%s", path)
			p, ok := httpidem.ProblemFrom(resp)
			if !ok {
				return fmt.Sprint(resp.StatusCode, resp.Header["Idempotency-Replayed"])
			}
			return fmt.Sprint(p.Status, " ", p.Code, " after ", arrived.Load())
		}
		assert.Equal(t, tell(&httpidem.Transport{Base: base}, "/orders", "tea"), "201 []", "the first")
		assert.Equal(t, tell(&httpidem.Transport{Base: base}, "/orders", "tea"), "201 [true]", "a repeat")
		assert.Equal(t, tell(&httpidem.Transport{Base: base}, "/orders", "coffee"), "422 payload-mismatch after 1", "another payload")
		// The first try breaks off without an answer. The second gets outcome-unknown, which a
		// third try would not change.
		assert.Equal(t, tell(&httpidem.Transport{Base: base}, "/crash", "tea"), "409 outcome-unknown after 2", "a crash")

		var first sync.WaitGroup
		first.Go(func() {
			r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://shop.example/slow", strings.NewReader("tea"))
			r.Header.Set("Idempotency-Key", "k")
			_, _ = base(r)
		})
		synctest.Wait()
		assert.Equal(t, tell(&httpidem.Transport{Base: base, MaxWait: time.Millisecond}, "/slow", "tea"), "409 in-progress after 1", "a repeat that does not wait")
		assert.Equal(t, tell(&httpidem.Transport{Base: base, MaxAttempts: 20}, "/slow", "tea"), "201 [true]", "a patient repeat")
		assert.True(t, arrived.Load() > 1, "it asked more than once")
		first.Wait()
	})
}

// TestTransportIdleConnections tests that http.Client finds the method through the transport.
func TestTransportIdleConnections(t *testing.T) {
	t.Parallel()
	base := &idle{}
	(&http.Client{Transport: &httpidem.Transport{Base: base}}).CloseIdleConnections()
	assert.True(t, base.closed, "Base was asked")
	(&http.Client{Transport: &httpidem.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("no") })}}).CloseIdleConnections()
}

type idle struct {
	http.RoundTripper
	closed bool
}

func (i *idle) CloseIdleConnections() { i.closed = true }

// TestAnswersThatDoNotEnd tests that the transport does not wait for the end of an answer that it
// drops, problem document or not.
func TestAnswersThatDoNotEnd(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"text/plain", "application/problem+json"} {
		var n atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) > 1 {
				w.WriteHeader(http.StatusCreated)
				return
			}
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		t.Cleanup(s.Close)
		ctx, cancel := context.WithTimeout(httpidem.ContextWithKey(t.Context(), "k"), 3*time.Minute)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, "POST", s.URL, strings.NewReader("x"))
		assert.NoError(t, err, "request")
		resp, err := transport(t).RoundTrip(r)
		assert.NoError(t, err, "%s", kind)
		_ = resp.Body.Close()
		assert.Equal(t, fmt.Sprint(resp.StatusCode, n.Load()), "201 2", "%s: status and tries", kind)
	}
}
