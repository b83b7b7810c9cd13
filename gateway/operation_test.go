package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func ask(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	return w.Code, w.Body.String()
}

// metric returns the value of one line of /metrics, or -1.
func metric(t *testing.T, h http.Handler, line string) float64 {
	t.Helper()
	_, text := ask(t, h, "/metrics")
	for l := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(l, line+" "); ok {
			var v float64
			_, err := fmt.Sscan(value, &v)
			assert.NoError(t, err, "value of %s", line)
			return v
		}
	}
	return -1
}

// TestMonitor tests that each request is counted once, by its route and its outcome, and that no
// metric contains keys or paths.
func TestMonitor(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	up.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(up.Close)
	m, store, access := gateway.NewMonitor(nil), memstore.New(nil), new(lockedBuffer)
	m.WatchInDoubt(store)
	e := retrysafe.New(store, &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler), Trace: m.Trace()})
	g, base := serveGateway(t, e, &gateway.Options{
		Upstreams: []string{up.URL}, Monitor: m, Routes: []gateway.Route{{Match: "POST /orders/**"}},
		AccessLog: slog.New(slog.NewJSONHandler(access, nil)),
	})
	admin := gateway.Admin(gateway.NewLive(g), e, m)
	for range 3 {
		_, _, err := send(t, base, "POST", "key-secret", "body-secret")
		assert.NoError(t, err, "request")
	}
	_, _, _ = send(t, base, "POST", "key-secret", "other body-secret")
	_, _, _ = send(t, base, "POST", "bad,key-secret", "body-secret")
	_, _, _ = send(t, base, "POST", "", "body-secret")
	broken.Store(true)
	_, _, _ = send(t, base, "POST", "doubt-secret", "body-secret")
	_, _, _ = send(t, base, "POST", "doubt-secret", "body-secret")
	broken.Store(false)
	// A request is counted, and then logged, when its answer is on its way.
	eventually(t, "8 lines in the access log", func() bool { return strings.Count(access.String(), "\n") >= 8 })
	for line, want := range map[string]float64{
		`retrysafe_requests_total{outcome="executed",route="POST /orders/**"}`:  1,
		`retrysafe_requests_total{outcome="replayed",route="POST /orders/**"}`:  2,
		`retrysafe_requests_total{outcome="mismatch",route="POST /orders/**"}`:  1,
		`retrysafe_requests_total{outcome="refused",route="POST /orders/**"}`:   1,
		`retrysafe_requests_total{outcome="unguarded",route="POST /orders/**"}`: 1,
		`retrysafe_requests_total{outcome="doubt",route="POST /orders/**"}`:     1,
		`retrysafe_requests_total{outcome="in-doubt",route="POST /orders/**"}`:  1,
		`retrysafe_attempts_total{outcome="doubt",route="POST /orders/**"}`:     1,
		`retrysafe_doubts_total{cause="reset",route="POST /orders/**"}`:         1,
		`retrysafe_doubts{age="5m"}`:                                            1,
		`retrysafe_doubts{age="older"}`:                                         0,
		`retrysafe_doubts_by_cause{cause="reset"}`:                              1,
		`retrysafe_doubts_by_cause{cause="crash"}`:                              0,
		`retrysafe_live_attempts`:                                               0,
		`retrysafe_store_seconds_count{op="complete"}`:                          1,
		`retrysafe_request_seconds_count{route="POST /orders/**"}`:              8,
	} {
		assert.Equal(t, metric(t, admin, line), want, "%s", line)
	}
	_, text := ask(t, admin, "/metrics")
	assert.True(t, !strings.Contains(text, "secret"), "metrics show no secrets")
	assert.True(t, !strings.Contains(access.String(), "secret"), "the access log shows no secrets: %s", access)
	var lines []map[string]any
	for l := range strings.Lines(access.String()) {
		var one map[string]any
		assert.NoError(t, json.Unmarshal([]byte(l), &one), "line %s", l)
		lines = append(lines, one)
	}
	assert.Equal(t, len(lines), 8, "lines of the access log")
	assert.Equal(t, fmt.Sprint(lines[1]["method"], lines[1]["path"], lines[1]["route"], lines[1]["status"], lines[1]["outcome"], lines[1]["attempt"]),
		"POST/ordersPOST /orders/**201replayed1", "a line")
	assert.Equal(t, lines[0]["key_hash"], lines[1]["key_hash"], "the hash of one key")
}

// TestMonitorOfLateAnswers tests that the request is counted as late and its attempt by its
// outcome, and that the attempt is live in between.
func TestMonitorOfLateAnswers(t *testing.T) {
	t.Parallel()
	u, answer := slow(t, "", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
	m := gateway.NewMonitor(nil)
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler), Trace: m.Trace()})
	g, base := serveGateway(t, e, &gateway.Options{Upstreams: []string{"http://" + u.addr}, Monitor: m, TimeoutAnswer: 2 * time.Second})
	admin := gateway.Admin(gateway.NewLive(g), e, m)
	assert.Equal(t, first(t, base, "k"), "504 outcome-unknown", "the first")
	assert.Equal(t, metric(t, admin, "retrysafe_live_attempts"), 1.0, "live")
	close(answer)
	assert.Equal(t, becomes(t, base, "k"), "201", "a repeat")
	assert.Equal(t, metric(t, admin, `retrysafe_requests_total{outcome="late",route="default"}`), 1.0, "late requests")
	// A duplicate may be answered a moment before the attempt is over.
	eventually(t, "no attempt is live", func() bool { return metric(t, admin, "retrysafe_live_attempts") == 0 })
	eventually(t, "the attempt is counted", func() bool {
		return metric(t, admin, `retrysafe_attempts_total{outcome="executed",route="default"}`) == 1
	})
}

// TestReadyOfAFullStore: a store that is read and not written answers /readyz, which tells of the
// calls that fail.
func TestReadyOfAFullStore(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	f := storetest.NewFaulty(memstore.New(nil), func(op string, _ int) storetest.Fault {
		if op == "acquire" && full.Load() {
			return storetest.LoseRequest
		}
		return 0
	})
	monitor := gateway.NewMonitor(nil)
	e := retrysafe.New(f, &retrysafe.Options{Sweep: -1, Trace: monitor.Trace(), Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	g, base := serveGateway(t, e, &gateway.Options{Upstreams: []string{newNode(t).URL}, Monitor: monitor})
	admin := gateway.Admin(gateway.NewLive(g), e, monitor)
	_, text := ask(t, admin, "/readyz")
	assert.Contains(t, text, "store: answers\n", "before")
	full.Store(true)
	assert.Contains(t, told(t, base, "POST", "k", "x"), "503 store-unavailable", "a request")
	status, text := ask(t, admin, "/readyz")
	assert.True(t, status == 200 && strings.Contains(text, "store: answers, but acquire failed 0 s ago"), "then: %d %s", status, text)
}

// TestAdmin tests that a process can be alive and not ready.
func TestAdmin(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	f := storetest.NewFaulty(memstore.New(nil), func(string, int) storetest.Fault {
		if away.Load() {
			return storetest.LoseRequest
		}
		return 0
	})
	open := func(upstreams ...string) (*gateway.Live, http.Handler) {
		e := newEngine(t, f, retrysafe.Policy{})
		g, _ := serveGateway(t, e, &gateway.Options{Upstreams: upstreams, Health: gateway.Health{Path: "/health", Every: 10 * time.Millisecond, Timeout: time.Minute}})
		l := gateway.NewLive(g)
		return l, gateway.Admin(l, e, nil)
	}
	good := newNode(t)
	live, admin := open(good.URL, nobody(t))
	status, said := ask(t, admin, "/readyz")
	assert.Equal(t, status, 200, "readyz: %s", said)
	live.Drain()
	status, said = ask(t, admin, "/readyz")
	assert.True(t, status == 503 && strings.Contains(said, "going away"), "while it ends: %d %s", status, said)
	status, said = ask(t, admin, "/healthz")
	assert.Equal(t, fmt.Sprint(status, said), "200ok\n", "healthz")
	status, _ = ask(t, admin, "/metrics")
	assert.Equal(t, status, 404, "metrics without a monitor")

	away.Store(true)
	_, admin = open(good.URL)
	status, said = ask(t, admin, "/readyz")
	assert.True(t, status == 503 && strings.Contains(said, "store: does not answer"), "the store is away: %d %s", status, said)
	away.Store(false)
	_, admin = open(nobody(t))
	for end := time.Now().Add(3 * time.Minute); ; {
		if status, said = ask(t, admin, "/readyz"); status == 503 || time.Now().After(end) {
			break
		}
	}
	assert.True(t, status == 503 && strings.Contains(said, "0 of 1 are well"), "no upstream: %d %s", status, said)
}

// TestUpstreamsAreShown tests that the metrics show which upstreams of the current gateway get
// requests, by host only.
func TestUpstreamsAreShown(t *testing.T) {
	t.Parallel()
	good, gone := newNode(t), nobody(t)
	host := func(base string) string {
		return `retrysafe_upstream_up{upstream="` + strings.TrimPrefix(base, "http://") + `"}`
	}
	m, e := gateway.NewMonitor(nil), newEngine(t, memstore.New(nil), retrysafe.Policy{})
	open := func(upstreams ...string) (*gateway.Gateway, string) {
		return serveGateway(t, e, &gateway.Options{
			Upstreams: upstreams, Logger: slog.New(slog.DiscardHandler), Health: gateway.Health{Path: "/health", Every: 10 * time.Millisecond, Timeout: time.Minute},
		})
	}
	first, _ := open(gone, good.URL+"/a", good.URL+"/b")
	live := gateway.NewLive(first)
	m.WatchUpstreams(live)
	admin := gateway.Admin(live, e, m)
	for end := time.Now().Add(3 * time.Minute); metric(t, admin, host(gone)) != 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	assert.Equal(t, metric(t, admin, host(gone)), 0.0, "one that nobody listens on")
	assert.Equal(t, metric(t, admin, host(good.URL)), 1.0, "one that is well")
	second, _ := open(good.URL)
	live.Replace(second)
	assert.Equal(t, metric(t, admin, host(good.URL)), 1.0, "after a reload")
	assert.Equal(t, metric(t, admin, host(gone)), -1.0, "one that is not configured any more")
}

// TestReplace tests that the new gateway serves new requests, and that requests on the old one
// finish, also without their client.
func TestReplace(t *testing.T) {
	t.Parallel()
	u, answer := slow(t, "", "HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nold")
	other := newNode(t)
	e := newEngine(t, memstore.New(nil), retrysafe.Policy{})
	open := func(o *gateway.Options) *gateway.Gateway {
		o.Logger = slog.New(slog.DiscardHandler)
		g, err := gateway.New(e, o)
		assert.NoError(t, err, "gateway")
		return g
	}
	live := gateway.NewLive(open(&gateway.Options{Upstreams: []string{"http://" + u.addr}, TimeoutAnswer: 2 * time.Second}))
	front := httptest.NewServer(live)
	t.Cleanup(func() { front.Close(); _ = live.Close() })
	assert.Equal(t, first(t, front.URL, "old"), "504 outcome-unknown", "on the old one")
	second := make(chan string, 1)
	go func() { second <- first(t, front.URL, "old-2") }()
	eventually(t, "the second request runs", func() bool { return u.effects.Load() == 2 })
	for range 3 {
		live.Replace(open(&gateway.Options{Upstreams: []string{other.URL}}))
	}
	assert.Equal(t, told(t, front.URL, "POST", "new", "x"), "201", "on the new one")
	assert.Equal(t, other.got.Load(), int64(1), "requests to the new service")
	close(answer)
	said := <-second // whichever came first, the time-out or the answer
	assert.True(t, said == "201" || said == "504 outcome-unknown", "the request that ran: %s", said)
	assert.Equal(t, becomes(t, front.URL, "old"), "201", "the late answer")
	assert.Equal(t, becomes(t, front.URL, "old-2"), "201", "the one that ran")
	assert.Equal(t, u.effects.Load()+other.got.Load(), int64(3), "effects")
}

// TestTenantOfATrustedProxy tests that the field counts if it comes from a trusted server, and is
// removed from all other requests.
func TestTenantOfATrustedProxy(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("X-User") }))
	t.Cleanup(up.Close)
	tenant := func(r *http.Request) (string, error) {
		if who := r.Header.Get("X-User"); who != "" {
			return who, nil
		}
		return "", errors.New("nobody")
	}
	o := &gateway.Options{
		Upstreams: []string{up.URL}, Guard: httpidem.Options{Tenant: tenant}, TrustedHeaders: []string{"x-user"},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
	trusted := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	strange := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
	post := func(base, key, user string) int {
		resp, _, err := send(t, base, "POST", key, "x", "X-User", user)
		assert.NoError(t, err, "request")
		return resp.StatusCode
	}
	assert.Equal(t, post(trusted, "k", "ann"), 200, "from a trusted proxy")
	assert.Equal(t, <-seen, "ann", "the service sees the user")
	assert.Equal(t, post(trusted, "k", "bob"), 200, "another user's key")
	assert.Equal(t, <-seen, "bob", "it ran: tenants are apart")
	assert.Equal(t, post(strange, "k", "ann"), 403, "from somebody else")
	assert.Equal(t, post(strange, "", "ann"), 200, "not guarded, from somebody else")
	assert.Equal(t, <-seen, "", "the service does not see what a stranger says")
	err := (&gateway.Options{Upstreams: []string{up.URL}, TrustedHeaders: []string{"X-User"}}).Validate(retrysafe.Policy{})
	assert.True(t, err != nil && strings.Contains(err.Error(), "TrustedProxies"), "proxies without addresses: %v", err)
}

// TestSlowRequests tests that heads and bodies that arrive slowly, and heads that are too large,
// end in time, and that nothing runs.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	o := &gateway.Options{Upstreams: []string{n.URL}, Guard: httpidem.Options{Limit: httpidem.LimitOptions{BodyTime: 3 * time.Second}}, Logger: slog.New(slog.DiscardHandler)}
	g, err := gateway.New(newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
	assert.NoError(t, err, "gateway")
	s := gateway.NewServer(g, &gateway.ServerOptions{Header: 4 << 10, HeaderTime: 3 * time.Second, IdleTime: time.Second, Logger: o.Logger})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); _ = g.Close() })
	const head = "POST /orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer opaque\r\nIdempotency-Key: k\r\n"
	for name, tt := range map[string]struct{ begin, drip, want string }{
		"a head that drips":       {"POST /orders HT", "X-A: b\r\n", ""},
		"a body that drips":       {head + "Content-Length: 1000\r\n\r\n", "x", "400"},
		"a chunk that drips":      {head + "Transfer-Encoding: chunked\r\n\r\nff\r\n", "x", "400"},
		"a head that is large":    {head + "X-Large: " + strings.Repeat("x", 16<<10) + "\r\n\r\n", "", "431"},
		"a connection that idles": {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := dripped(t, l.Addr().String(), tt.begin, tt.drip)
			for n := 0; n < 20 && tt.want != "" && (said == "" || said == "408"); n++ {
				// the head may have come too slowly
				said = dripped(t, l.Addr().String(), tt.begin, tt.drip)
			}
			assert.True(t, said == tt.want || tt.want == "" && (said == "" || said == "408" || said == "400"), "the end: %q", said)
		})
	}
	t.Cleanup(func() { assert.Equal(t, n.got.Load(), int64(0), "requests that reached the service") })
}

// dripped sends begin and then drip again and again, until the server ends the connection. It
// returns the status of the answer, if there is one.
func dripped(t *testing.T, addr, begin, drip string) (status string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	assert.NoError(t, err, "dial")
	defer c.Close()
	_, err = io.WriteString(c, begin)
	assert.NoError(t, err, "begin")
	ended := make(chan []byte, 1)
	go func() {
		said, _ := io.ReadAll(c)
		ended <- said
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(3 * time.Minute)
	for {
		select {
		case said := <-ended:
			status, _, _ = strings.Cut(strings.TrimPrefix(string(said), "HTTP/1.1 "), " ")
			return status
		case <-tick.C:
			_, _ = io.WriteString(c, drip)
		case <-late:
			t.Fatal("the connection is held for ever")
		}
	}
}

// TestServersOfHTTP2 tests HTTP/2 with TLS and by prior knowledge.
func TestServersOfHTTP2(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	g, _ := serveGateway(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), &gateway.Options{Upstreams: []string{n.URL}})
	s := gateway.NewServer(g, &gateway.ServerOptions{Logger: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	for i := range 3 {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+l.Addr().String()+"/orders", bytes.NewReader([]byte("x")))
		assert.NoError(t, err, "request")
		r.Header = http.Header{"Idempotency-Key": {"k"}, "Authorization": {"Bearer opaque"}}
		resp, err := client.Do(r)
		assert.NoError(t, err, "request")
		_ = resp.Body.Close()
		assert.Equal(t, fmt.Sprint(resp.StatusCode, resp.ProtoMajor, resp.Header.Get("Idempotency-Replayed")), fmt.Sprint(201, 2, map[bool]string{true: "true"}[i > 0]), "answer %d", i)
	}
	assert.Equal(t, n.got.Load(), int64(1), "effects")
}

// TestFailingStoresAreTold tests that failures of a store are logged, but not each one.
func TestFailingStoresAreTold(t *testing.T) {
	t.Parallel()
	n, log := newNode(t), new(lockedBuffer)
	m := gateway.NewMonitor(&gateway.MonitorOptions{Logger: slog.New(slog.NewTextHandler(log, nil))})
	s := storetest.NewFaulty(memstore.New(nil), func(string, int) storetest.Fault { return storetest.LoseRequest })
	e := retrysafe.New(s, &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler), Trace: m.Trace()})
	g, base := serveGateway(t, e, &gateway.Options{Upstreams: []string{n.URL}, Monitor: m})
	for i := range 5 {
		assert.Equal(t, told(t, base, "POST", fmt.Sprint("key-secret-", i), "x"), "503 store-unavailable 1", "a request")
	}
	assert.Equal(t, strings.Count(log.String(), "the store fails"), 1, "lines: %s", log)
	assert.True(t, !strings.Contains(log.String(), "secret"), "no keys: %s", log)
	assert.True(t, metric(t, gateway.Admin(gateway.NewLive(g), e, m), `retrysafe_store_errors_total{op="lookup"}`) >= 5, "errors are counted")
}
