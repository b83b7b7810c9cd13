package gateway_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestCallersWithCookies tests that each of two users who log in by a cookie has their own keys,
// tokens and answers, and that a caller without the cookie is refused.
func TestCallersWithCookies(t *testing.T) {
	t.Parallel()
	s := newShop(t, `
defaults: {tenant: {cookie: login, stable: true}}
routes:
  - {match: POST /orders, key: token}
  - {match: POST /taxi, key: params}
`, nil)
	say := func(path, who, body string, fields ...string) string {
		t.Helper()
		if who != "" {
			fields = append(fields, "Cookie", "seen="+body+"; login="+who)
		}
		status, answer, h := s.ask(t, "POST", path, "", body, fields...)
		return fmt.Sprint(status, " ", answer, " ", h.Get("Idempotency-Replayed"))
	}
	assert.Equal(t, say("/taxi", "ann", "to=home"), "201 order 1 ", "a key of parameters")
	assert.Equal(t, say("/taxi", "ann", "to=home"), "201 order 1 true", "a second click")
	assert.Equal(t, say("/taxi", "bob", "to=home"), "201 order 2 ", "the same ride of somebody else")
	assert.Contains(t, say("/taxi", "", "to=home"), "403", "nobody's ride")
	_, body, _ := s.ask(t, "POST", gateway.TokensPath, "", "", "Cookie", "login=ann")
	token := strings.Split(body, `"`)[3]
	assert.Contains(t, say("/orders", "bob", "tea", "Idempotency-Key", token), "403", "a token of somebody else")
	assert.Equal(t, say("/orders", "ann", "tea", "Idempotency-Key", token), "201 order 3 ", "the owner's")
	assert.Contains(t, say("/orders", "bob", "tea", "Idempotency-Key", token), "403", "after it was used, too")
	assert.Equal(t, say("/orders", "ann", "tea", "Idempotency-Key", token), "201 order 3 true", "a second click")
	assert.Equal(t, s.starts.Load(), 3, "requests that reached the service")
}

// TestCookiesThatChange tests that a default configuration refuses other cookies, counts the
// refusals, and tells the operator once what to configure.
func TestCookiesThatChange(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	monitor := gateway.NewMonitor(nil)
	s := newShop(t, "routes: [{match: POST /orders}]", func(o *gateway.Options) {
		o.Logger, o.Monitor = slog.New(slog.NewTextHandler(&log, nil)), monitor
	})
	key := "a key of at least 22 characters"
	for i := range 3 {
		status, answer, _ := s.ask(t, "POST", "/orders", "", "tea", "Idempotency-Key", fmt.Sprintf("%q", key), "Cookie", fmt.Sprint("seen=", i))
		if i == 0 {
			assert.Equal(t, fmt.Sprint(status, answer), "201order 1", "the first")
			continue
		}
		assert.Equal(t, status, 409, "with another cookie")
		assert.Contains(t, answer, `"code":"cookies-changed"`, "the code")
		assert.True(t, !strings.Contains(answer, "order 1"), "the answer is not shown: %s", answer)
	}
	assert.Equal(t, strings.Count(log.String(), `tenant: {binding: [\"cookie:NAME\"]}`), 1, "lines that say what to write: %s", log.String())
	assert.True(t, !strings.Contains(log.String(), "seen="), "no cookie is logged: %s", log.String())
	assert.Equal(t, metric(t, gateway.Admin(nil, nil, monitor), `retrysafe_cookies_changed_total{route="POST /orders"}`), 2, "the metric")
	assert.Equal(t, s.starts.Load(), 1, "requests that reached the service")
}

// TestIssuerWithoutKeys: what cannot be verified is refused, and the log says once why.
func TestIssuerWithoutKeys(t *testing.T) {
	t.Parallel()
	issuer := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(issuer.Close)
	var log lockedBuffer
	s := newShop(t, "routes: [{match: POST /orders, tenant: {jwt: {jwks: "+issuer.URL+"/keys?password=open, issuer: login}}}]", func(o *gateway.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{"alg":"EdDSA","kid":"a"}`)) + "." + part([]byte(`{"iss":"login","sub":"ann"}`)) + "." + part(make([]byte, 64))
	for range 3 {
		status, answer, _ := s.ask(t, "POST", "/orders", "", "tea", "Idempotency-Key", `"k"`, "Authorization", "Bearer "+token)
		assert.Equal(t, status, 503, "status")
		assert.Contains(t, answer, `"code":"issuer-unavailable"`, "the code")
		assert.True(t, !strings.Contains(answer, "404"), "a client does not get the cause: %s", answer)
	}
	host := strings.TrimPrefix(issuer.URL, "http://")
	assert.Equal(t, strings.Count(log.String(), "cannot be fetched from "+host+": the status of the answer is 404"), 1, "lines with the cause: %s", log.String())
	assert.True(t, !strings.Contains(log.String(), "password") && !strings.Contains(log.String(), token), "no secret is logged: %s", log.String())
	assert.Equal(t, s.starts.Load(), 0, "requests that reached the service")
}
