package httpsig_test

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
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// bank is a server that verifies signatures before idempotency. Its connections can be cut when it
// begins to answer.
type bank struct {
	*httptest.Server
	world    *world
	runs     atomic.Int64
	cuts     atomic.Int64
	mu       sync.Mutex
	arrived  []http.Header
	handlers http.Handler
}

func newBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{world: newWorld(t, func(o *httpsig.Options) { o.Now = nil })}
	engine := engineOn(t, memstore.New(nil))
	b.world.options.Nonces = httpsig.NoncesOn(engine)
	idem := httpidem.New(engine, &httpidem.Options{Tenant: httpsig.Tenant})
	b.handlers = httpsig.New(&b.world.options).Handler(idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "payment %d by %s: %s", b.runs.Add(1), keyID(r.Context()), body)
	})))
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.arrived = append(b.arrived, r.Header.Clone())
		b.mu.Unlock()
		b.handlers.ServeHTTP(w, r)
	}))
	b.Listener = &cutter{b.Listener, &b.cuts}
	b.Start()
	t.Cleanup(b.Close)
	return b
}

// cutter is a listener whose connections break when the server begins to answer, as long as cuts
// are left.
type cutter struct {
	net.Listener
	cuts *atomic.Int64
}

func (c *cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cutConn{conn, c.cuts}, nil
}

type cutConn struct {
	net.Conn
	cuts *atomic.Int64
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.cuts.Add(-1) >= 0 {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// signing returns a transport with its own connections.
func (b *bank) signing(t *testing.T, id string) *httpsig.Transport {
	t.Helper()
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return &httpsig.Transport{Base: base, Signer: &httpsig.Signer{KeyID: id, Key: b.world.keys[id]}}
}

// pay returns the status, the body, and whether it was replayed.
func (b *bank) pay(t *testing.T, rt http.RoundTripper, key string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", b.URL+"/payments?from=1", strings.NewReader("42 EUR"))
	assert.NoError(t, err, "request")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := (&http.Client{Transport: rt}).Do(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "body")
	if p, ok := httpidem.ProblemFrom(&http.Response{StatusCode: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(strings.NewReader(string(body)))}); ok {
		return fmt.Sprint(p.Status, " ", p.Code)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", resp.StatusCode, body, resp.Header.Get("Idempotency-Replayed")))
}

// TestRetriesAreReplayed tests answers that are lost: the client retries, each try has its own
// signature and nonce, and there is one payment with one answer.
func TestRetriesAreReplayed(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"hmac", "ed", "ec"} {
		b := newBank(t)
		b.cuts.Store(2)
		rt := &httpidem.Transport{Base: b.signing(t, id), NewKey: rand.Text, MinWait: time.Millisecond}
		assert.Equal(t, b.pay(t, rt, ""), "201 payment 1 by "+id+": 42 EUR true", "answer")
		assert.Equal(t, b.runs.Load(), int64(1), "payments")
		keys, inputs := map[string]bool{}, map[string]bool{}
		for _, h := range b.arrived {
			keys[h.Get("Idempotency-Key")], inputs[h.Get("Signature-Input")] = true, true
		}
		assert.True(t, len(keys) == 1 && len(inputs) == 3 && len(b.arrived) == 3, "%d keys, %d signatures, %d requests", len(keys), len(inputs), len(b.arrived))
	}
}

// TestRetryOfACopyIsRefused tests an attacker that sends a request again that it has seen. The copy
// is neither run nor replayed, since a replay would disclose the answer; the client's own retry is
// replayed.
func TestRetryOfACopyIsRefused(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	var seen *http.Request
	spy := roundTripper(func(r *http.Request) (*http.Response, error) {
		seen = r.Clone(r.Context())
		return testclient.HTTP.Transport.RoundTrip(r)
	})
	rt := &httpsig.Transport{Base: spy, Signer: b.signing(t, "ed").Signer}
	assert.Equal(t, b.pay(t, rt, "key-1"), "201 payment 1 by ed: 42 EUR", "the first")
	seen.Body, _ = seen.GetBody()
	resp, err := testclient.HTTP.Transport.RoundTrip(seen)
	assert.NoError(t, err, "copy")
	defer resp.Body.Close()
	p, ok := httpidem.ProblemFrom(resp)
	assert.True(t, ok && p.Code == "nonce-used", "the copy: %d", resp.StatusCode)
	assert.Equal(t, b.pay(t, rt, "key-1"), "201 payment 1 by ed: 42 EUR true", "the client's retry")
	assert.Equal(t, b.runs.Load(), int64(1), "payments")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRepeatsBelowTheSigner tests a transport that sends a request again unchanged, as net/http's
// does. The request is signed again if the server can recognise the duplicate, and only then.
func TestRepeatsBelowTheSigner(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"key-1": "201 payment 1 by hmac: 42 EUR true", "": "409 nonce-used"} {
		b := newBank(t)
		sent := 0
		twice := roundTripper(func(r *http.Request) (*http.Response, error) {
			if sent++; sent == 1 {
				copied := r.Clone(r.Context())
				copied.Body, _ = r.GetBody()
				resp, err := testclient.HTTP.Transport.RoundTrip(copied)
				if err != nil {
					return nil, err
				}
				_ = resp.Body.Close() // the caller does not see it
			}
			return testclient.HTTP.Transport.RoundTrip(r)
		})
		assert.Equal(t, b.pay(t, &httpsig.Transport{Base: twice, Signer: b.signing(t, "hmac").Signer}, key), want, "key %q", key)
		assert.Equal(t, b.runs.Load(), int64(1), "payments with key %q", key)
	}
}

// TestTenantsAreKeys tests that two callers with one idempotency key do not collide.
func TestTenantsAreKeys(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	assert.Equal(t, b.pay(t, b.signing(t, "ed"), "key-1"), "201 payment 1 by ed: 42 EUR", "one")
	assert.Equal(t, b.pay(t, b.signing(t, "ec"), "key-1"), "201 payment 2 by ec: 42 EUR", "the other")
	assert.Equal(t, b.pay(t, testclient.HTTP.Transport, "key-1"), "401 signature-missing", "nobody")
}

// TestRedirects tests that a request to another host is not signed and not sent, and that on the
// same host each hop is signed separately.
func TestRedirects(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	evil := atomic.Int64{}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { evil.Add(1) }))
	defer other.Close()
	next := b.handlers
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.Handle("/away", http.RedirectHandler(other.URL+"/payments", http.StatusTemporaryRedirect))
	mux.Handle("/here", http.RedirectHandler("/payments", http.StatusTemporaryRedirect))
	b.handlers = mux
	client := &http.Client{Transport: b.signing(t, "ed")}
	resp, err := client.Post(b.URL+"/away", "text/plain", strings.NewReader("1"))
	assert.True(t, err != nil && strings.Contains(err.Error(), "another host"), "%v", err)
	assert.True(t, resp == nil || resp.Body != nil, "no answer")
	if resp != nil {
		_ = resp.Body.Close()
	}
	assert.Equal(t, evil.Load(), int64(0), "requests to the other host")
	resp, err = client.Post(b.URL+"/here", "text/plain", strings.NewReader("1"))
	assert.NoError(t, err, "on the same host")
	defer resp.Body.Close()
	assert.Equal(t, resp.StatusCode, http.StatusCreated, "status")
}

// TestTransportLeavesTheRequest tests that the request is not changed, and that its body is always
// closed.
func TestTransportLeavesTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := errors.New("away")
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		assert.True(t, r.Header.Get("Signature") != "", "it is signed")
		return nil, away
	})
	for name, rt := range map[string]*httpsig.Transport{
		"sent":         {Base: base, Signer: w.signer("ed")},
		"no signer":    {Base: base},
		"a bad signer": {Base: base, Signer: &httpsig.Signer{}},
	} {
		closed := false
		r, err := http.NewRequestWithContext(context.Background(), "POST", "http://bank.example/", &closer{strings.NewReader("tea"), &closed})
		assert.NoError(t, err, "request")
		resp, err := rt.RoundTrip(r)
		if resp != nil {
			_ = resp.Body.Close()
		}
		assert.True(t, err != nil, "%s: an error", name)
		assert.True(t, closed && len(r.Header) == 0, "%s: closed %v, header %v", name, closed, r.Header)
		rt.CloseIdleConnections()
	}
}

type closer struct {
	io.Reader
	closed *bool
}

func (c *closer) Close() error { *c.closed = true; return nil }
