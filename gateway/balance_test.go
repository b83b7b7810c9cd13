package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// node is one of several services; it counts the requests that reach it.
type node struct {
	*httptest.Server
	got, asked atomic.Int64
	sick       atomic.Bool
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := new(node)
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			n.asked.Add(1)
			if n.sick.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		n.got.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(n.Close)
	return n
}

// Returns an address that refuses connections.
func nobody(t *testing.T) string {
	t.Helper()
	return "http://" + freeAddr(t)
}

// freeAddr returns an address without a listener, which the system gives to no other.
func freeAddr(t *testing.T) string {
	t.Helper()
	port, err := freeport.Get()
	assert.NoError(t, err, "a free port")
	return "127.0.0.1:" + port
}

// TestSeveralUpstreams tests that upstreams get requests in turn, and that a duplicate is answered
// whichever of them got the first request.
func TestSeveralUpstreams(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{a.URL, b.URL}})
	for i := range 10 {
		for range 3 {
			assert.Equal(t, told(t, base, "POST", fmt.Sprint("k", i), "x"), "201", "request %d", i)
		}
		assert.Equal(t, told(t, base, "POST", "", "x"), "201", "not guarded")
	}
	assert.Equal(t, a.got.Load()+b.got.Load(), int64(20), "requests that reached a service")
	assert.True(t, a.got.Load() >= 8 && b.got.Load() >= 8, "they take turns: %d and %d", a.got.Load(), b.got.Load())
}

// TestAnotherUpstream tests that a request that could not be sent to one address is sent to
// another, in the same attempt, with or without a body, guarded or not.
func TestAnotherUpstream(t *testing.T) {
	t.Parallel()
	a := newNode(t)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{nobody(t), a.URL, nobody(t)}})
	want := int64(0)
	for i := range 6 {
		for _, body := range []string{"", "x"} {
			for _, key := range []string{"", fmt.Sprint("k", i, body)} {
				assert.Equal(t, told(t, base, "POST", key, body), "201", "request %d, body %q, key %q", i, body, key)
				want++
			}
		}
	}
	assert.Equal(t, a.got.Load(), want, "requests that reached the service")
	none := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{nobody(t), nobody(t)}})
	assert.Equal(t, told(t, none, "POST", "k", "x"), "503 upstream-unreachable 1", "no address answers")
	assert.Equal(t, told(t, none, "POST", "", "x"), "502", "no address answers, not guarded")
}

// TestDoubtIsNotSentElsewhere tests that a request that one address received and did not answer is
// never sent to another.
func TestDoubtIsNotSentElsewhere(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(net.Conn, *http.Request, int) bool { return false })
	v := newRawUpstream(t, func(net.Conn, *http.Request, int) bool { return false })
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{"http://" + u.addr, "http://" + v.addr}})
	for i := range 6 {
		for _, body := range []string{"", "x"} {
			key := fmt.Sprint("k", i, body)
			assert.Equal(t, told(t, base, "POST", key, body), "502 outcome-unknown", "the first")
			assert.Equal(t, told(t, base, "POST", key, body), "409 outcome-unknown", "a repeat")
		}
	}
	assert.Equal(t, u.effects.Load()+v.effects.Load(), int64(12), "effects")
}

// TestHealth tests that an unhealthy address gets no requests until it is healthy again, and that
// if none is healthy, they get requests all the same.
func TestHealth(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{
		Upstreams: []string{a.URL, b.URL}, Health: gateway.Health{Path: "/health", Every: 20 * time.Millisecond, Timeout: time.Minute},
	})
	n := 0
	// checked waits until n more checks of x have been answered.
	checked := func(x *node) {
		t.Helper()
		start := x.asked.Load()
		for end := time.Now().Add(3 * time.Minute); x.asked.Load() < start+4; time.Sleep(5 * time.Millisecond) {
			assert.True(t, time.Now().Before(end), "checks go on")
		}
	}
	run := func(times int) {
		t.Helper()
		for range times {
			n++
			assert.Equal(t, told(t, base, "POST", fmt.Sprint("k", n), "x"), "201", "request %d", n)
		}
	}
	b.sick.Store(true)
	checked(b)
	got := b.got.Load()
	run(6)
	assert.Equal(t, b.got.Load(), got, "requests to the sick one")
	a.sick.Store(true)
	checked(a)
	run(6) // better than refusing all requests
	assert.True(t, b.got.Load() > got, "both are sick: both are tried")
	a.sick.Store(false)
	b.sick.Store(false)
	checked(a)
	checked(b)
	got = b.got.Load()
	run(6)
	assert.True(t, b.got.Load() > got, "it is well again")
}

// TestStatusOfAKey tests that a status request uses the route of the request that it asks about.
func TestStatusOfAKey(t *testing.T) {
	t.Parallel()
	a := newNode(t)
	o := &gateway.Options{Upstreams: []string{a.URL}, Routes: []gateway.Route{{Match: "PUT /things/*"}}}
	o.Routes[0].Guard.Request.Operation = func(*http.Request) string { return "thing" }
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
	assert.Equal(t, told(t, base, "POST", "k", "x"), "201", "a request")
	r, err := http.NewRequestWithContext(t.Context(), "PUT", base+"/things/7", strings.NewReader("x"))
	assert.NoError(t, err, "request")
	r.Header = http.Header{"Idempotency-Key": {"k"}, "Authorization": {"Bearer opaque"}}
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(t, err, "request")
	_ = resp.Body.Close()
	reached := a.got.Load()
	for query, want := range map[string]string{
		"method=POST&path=/orders": `200 {"state":"completed","attempt":1,"http_status":201}`,
		// the keys of /things share one key space
		"method=PUT&path=/things/8": `200 {"state":"completed","attempt":1,"http_status":201}`,
		"method=POST&path=/other":   `404 {"state":"absent"}`,
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", base+gateway.StatusPath+"?"+query, nil)
		assert.NoError(t, err, "request")
		r.Header = http.Header{"Idempotency-Key": {"k"}, "Authorization": {"Bearer opaque"}}
		resp, err := testclient.HTTP.Do(r)
		assert.NoError(t, err, "status")
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		assert.Equal(t, fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(body))), want, "status of %s", query)
	}
	assert.Equal(t, a.got.Load(), reached, "nothing reached the service")
}
