package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// fromFile starts a gateway with a configuration before an upstream. %UPSTREAM% in the text is
// replaced by its address.
func fromFile(t *testing.T, text string, upstream http.HandlerFunc) string {
	t.Helper()
	up := httptest.NewServer(upstream)
	t.Cleanup(up.Close)
	c, err := config.Parse([]byte("upstream: "+up.URL+"\n"+text), nil)
	assert.NoError(t, err, "configuration")
	o, policy, err := c.Options()
	assert.NoError(t, err, "options")
	return serve(t, retrysafe.New(memstore.New(nil), &retrysafe.Options{Policy: policy}), o)
}

// sendOnly sends a request with pairs of fields, once.
func sendOnly(t *testing.T, method, address, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	assert.NoError(t, err, "request")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := testclient.HTTP.Transport.RoundTrip(r)
	assert.NoError(t, err, "%s %s", method, address)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestCORS(t *testing.T) {
	t.Parallel()
	base := fromFile(t, `
defaults: {cors: {origins: [https://shop.example, "http://localhost:3000"], credentials: true, headers: X-Trace, expose: [X-Count], max_age: 1h}}
routes:
  - {match: "POST /public", cors: {origins: "*", headers: "*"}}
  - {match: "POST /own", cors: none}
  - {match: "POST /orders", key: required}
`, func(w http.ResponseWriter, r *http.Request) {
		// as a service would that handles CORS itself
		w.Header().Set("Access-Control-Allow-Origin", "https://of-the-service.example")
		w.Header().Set("Access-Control-Max-Age", "5")
		w.Header().Set("Vary", "Accept-Language")
		w.Header().Set("X-Method", r.Method)
		if r.URL.Path == "/silent" {
			return
		}
		_, _ = w.Write([]byte("done"))
	})
	const shop, key = "https://shop.example", "a-key-of-more-than-22-characters"
	readers := func(r *http.Response) string { return strings.Join(r.Header["Access-Control-Allow-Origin"], " + ") }

	for i, origin := range []string{shop, "http://localhost:3000", shop} {
		// the first answer, and two replays
		r := sendOnly(t, "POST", base+"/orders", "x", "Origin", origin, "Idempotency-Key", key)
		assert.Equal(t, readers(r), origin, "answer %d: who may read", i)
		assert.Equal(t, r.Header.Get("Idempotency-Replayed") == "true", i > 0, "answer %d is replayed", i)
		assert.Equal(t, r.Header.Get("Access-Control-Allow-Credentials"), "true", "credentials")
		assert.Equal(t, r.Header.Get("Access-Control-Max-Age"), "", "nothing of the service's is left")
		vary := strings.Join(r.Header["Vary"], ", ")
		assert.True(t, strings.Contains(vary, "Origin") && strings.Contains(vary, "Accept-Language"), "Vary: %s", vary)
		for _, name := range []string{"Idempotency-Replayed", "Retry-After", "X-Count"} {
			assert.Contains(t, r.Header.Get("Access-Control-Expose-Headers"), name, "exposed")
		}
	}
	for path, origin := range map[string]string{"/orders": shop, "/silent": shop, "/.retrysafe/status?method=POST&path=/orders": shop} {
		method := map[bool]string{true: "GET", false: "POST"}[strings.HasPrefix(path, "/.")]
		r := sendOnly(t, method, base+path, "", "Origin", origin)
		assert.Equal(t, readers(r), origin, "%s: a problem, or an answer without a word, %d", path, r.StatusCode)
	}
	for _, origin := range []string{"https://evil.example", "null", "https://shop.example.evil.example", "https://SHOP.example", ""} {
		r := sendOnly(t, "POST", base+"/orders", "x", "Origin", origin, "Idempotency-Key", key)
		assert.Equal(t, readers(r), "", "%q may not read", origin)
		assert.True(t, slices.Contains(r.Header["Vary"], "Origin"), "a cache is told, too")
	}
	assert.Equal(t, readers(sendOnly(t, "POST", base+"/public", "x", "Origin", "https://any.example")), "*", "a public route")
	assert.Equal(t, readers(sendOnly(t, "POST", base+"/own", "x", "Origin", shop)), "https://of-the-service.example", "a route that the service answers for")
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	base := fromFile(t, `
routes:
  - {match: "POST /orders/**", cors: {origins: https://shop.example, credentials: true, headers: [X-Trace]}}
  - {match: "PUT /public", cors: {origins: "*", headers: "*"}}
`, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Seen", r.Method) })
	preflight := func(path, origin, method, headers string) *http.Response {
		return sendOnly(t, "OPTIONS", base+path, "", "Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
	}
	const shop = "https://shop.example"
	r := preflight("/orders/7", shop, "POST", "content-type,idempotency-key,x-trace, x-evil")
	assert.Equal(t, r.StatusCode, 204, "status")
	assert.Equal(t, r.Header.Get("Access-Control-Allow-Origin")+" "+r.Header.Get("Access-Control-Allow-Methods"), shop+" POST", "who and how")
	assert.Equal(t, r.Header.Get("Access-Control-Allow-Headers"), "content-type, idempotency-key, x-trace", "headers")
	assert.Equal(t, r.Header.Get("Access-Control-Max-Age")+r.Header.Get("X-Seen"), "600", "for how long; the service is not asked")
	assert.Equal(t, len(r.Header["Vary"]), 3, "Vary: %v", r.Header["Vary"])
	r = preflight("/orders/7", "https://evil.example", "POST", "content-type")
	assert.Equal(t, r.StatusCode, 204, "another origin gets an answer")
	assert.Equal(t, r.Header.Get("Access-Control-Allow-Origin")+r.Header.Get("Access-Control-Allow-Methods"), "", "and no leave")
	r = preflight("/public", "https://any.example", "PUT", "x-anything")
	assert.Equal(t, r.Header.Get("Access-Control-Allow-Origin")+r.Header.Get("Access-Control-Allow-Headers"), "*x-anything", "a public route")
	assert.Equal(t, preflight("/elsewhere", shop, "POST", "").Header.Get("X-Seen"), "OPTIONS", "the service answers for other routes")
	assert.Equal(t, preflight("/orders/7", shop, "GET", "").Header.Get("X-Seen"), "OPTIONS", "and for other methods")
	assert.Equal(t, sendOnly(t, "OPTIONS", base+"/orders/7", "", "Origin", shop).Header.Get("X-Seen"), "OPTIONS", "and for what is no preflight")
}

// TestRateOfARoute tests that all spellings of a path are one route, and that the tenant or the
// address is counted.
func TestRateOfARoute(t *testing.T) {
	t.Parallel()
	base := fromFile(t, `
trusted_proxies: [127.0.0.1]
defaults: {tenant: "header:X-User", rate: {per_s: 0.001, burst: 4}}
routes:
  - {match: "POST /orders/**", rate: {per_s: 0.001, burst: 2}}
  - {match: "PUT /off", key: "off", rate: {per_s: 0.001, burst: 1}}
  - {match: "* /all/**", rate: {per_s: 0.001, burst: 1}}
  - {match: "POST /login", key: "off", rate: {per_s: 0.001, burst: 1, by: address}}
  - {match: "POST /free", rate: none}
`, func(http.ResponseWriter, *http.Request) {})
	told := func(path string, header ...string) int {
		return sendOnly(t, "POST", base+path, "x", header...).StatusCode
	}
	for _, path := range []string{"/orders", "/orders/1"} {
		assert.Equal(t, told(path, "X-User", "ann"), 200, "%s", path)
	}
	for _, path := range []string{"/orders", "//orders/", "/%6frders/2", "/./orders?x=1"} {
		assert.Equal(t, told(path, "X-User", "ann"), 429, "%s", path)
	}
	assert.Equal(t, told("/orders", "X-User", "bob"), 200, "another caller")
	assert.Equal(t, told("/other", "X-User", "ann"), 200, "another route has the rate of defaults")
	for range 10 {
		assert.Equal(t, told("/free", "X-User", "ann"), 200, "a route without a rate")
	}
	assert.Equal(t, told("/login", "X-Forwarded-For", "10.9.9.9, 192.0.2.1"), 200, "an address")
	assert.Equal(t, told("/login", "X-Forwarded-For", "10.8.8.8, 192.0.2.1"), 429, "what it says of those before it does not count")
	assert.Equal(t, told("/login", "X-Forwarded-For", "192.0.2.1:4711"), 429, "with a port")
	assert.Equal(t, told("/login", "X-Forwarded-For", "192.0.2.2"), 200, "another address")
	for _, request := range []string{"PUT /off", "GET /all/a", "DELETE /all/b"} {
		method, path, _ := strings.Cut(request, " ")
		assert.Equal(t, sendOnly(t, method, base+path, "x", "X-User", method).StatusCode, 200, "the first %s", request)
		assert.Equal(t, sendOnly(t, method, base+path, "x", "X-User", method).StatusCode, 429, "the second %s", request)
	}
	assert.Equal(t, told("/login", "X-Forwarded-For", "2001:db8::1"), 200, "a network")
	assert.Equal(t, told("/login", "X-Forwarded-For", "2001:db8::2"), 429, "the same network")
}
