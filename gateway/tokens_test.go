package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// shop is a gateway with a configuration file, and its service.
type shop struct {
	base   string
	starts atomic.Int64
	ahead  atomic.Int64 // how far the store's clock is ahead, a time.Duration
	got    atomic.Value // the last body that the service received
}

func newShop(t *testing.T, file string, change func(*gateway.Options)) *shop {
	t.Helper()
	s := new(shop)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.got.Store(string(body))
		if s.starts.Add(1) == 1 && r.URL.Path == "/busy" {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "order ", s.starts.Load())
	}))
	t.Cleanup(up.Close)
	c, err := config.Parse([]byte("upstream: "+up.URL+"\n"+file), nil)
	assert.NoError(t, err, "parse")
	o, policy, err := c.Options()
	assert.NoError(t, err, "options")
	if change != nil {
		change(o)
	}
	store := memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }})
	s.base = serve(t, newEngine(t, store, policy), o)
	return s
}

// ask sends a request as a user; the fields come in pairs.
func (s *shop) ask(t *testing.T, method, path, user, body string, fields ...string) (status int, answer string, h http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.base+path, strings.NewReader(body))
	assert.NoError(t, err, "request")
	if user != "" {
		r.SetBasicAuth(user, "password")
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	resp, err := testclient.HTTP.Do(r)
	assert.NoError(t, err, "%s %s", method, path)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "body")
	return resp.StatusCode, string(b), resp.Header
}

func (s *shop) token(t *testing.T, user string) string {
	t.Helper()
	status, body, h := s.ask(t, "POST", gateway.TokensPath, user, "")
	assert.Equal(t, fmt.Sprint(status, h.Get("Cache-Control"), h.Get("Content-Type")), "201no-storeapplication/json", "%s", body)
	var given struct {
		Token     string `json:"token"`
		ExpiresIn int    `json:"expires_in"`
	}
	assert.NoError(t, json.Unmarshal([]byte(body), &given), "answer")
	assert.True(t, len(given.Token) >= 22 && given.ExpiresIn > 0, "a token and its life: %s", body)
	return given.Token
}

const form = "application/x-www-form-urlencoded"

// TestTokens tests that the gateway itself issues tokens, and that a form with one takes effect
// once.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := newShop(t, "tokens: {life: 10m, rate: 3}\nroutes: [{match: POST /orders, key: token}]", nil)
	body := url.Values{"item": {"tea"}, "idempotency_key": {s.token(t, "ann")}}.Encode()
	for i := range 3 {
		status, answer, h := s.ask(t, "POST", "/orders", "ann", body, "Content-Type", form)
		assert.Equal(t, fmt.Sprint(status, answer, h.Get("Idempotency-Replayed") == "true"), fmt.Sprint(201, "order 1", i > 0), "press %d", i+1)
	}
	assert.Equal(t, s.got.Load(), any(body), "the service gets the body whole")
	status, answer, _ := s.ask(t, "POST", "/orders", "bob", body, "Content-Type", form)
	assert.Equal(t, status, 403, "another's token")
	assert.Contains(t, answer, "token-refused", "another's token")
	status, answer, _ = s.ask(t, "POST", "/orders", "ann", body)
	assert.Equal(t, status, 400, "a body that is no form")
	assert.Contains(t, answer, "token-missing", "a body that is no form")

	header := s.token(t, "ann")
	asked := []string{"Idempotency-Key", header}
	status, answer, _ = s.ask(t, "GET", gateway.StatusPath+"?method=POST&path=/orders", "ann", "", asked...)
	assert.Equal(t, fmt.Sprint(status, answer), "200{\"state\":\"issued\"}\n", "status before the use")
	status, answer, _ = s.ask(t, "POST", "/orders", "ann", "tea", asked...)
	assert.Equal(t, fmt.Sprint(status, answer), "201order 2", "a token in the header")
	status, answer, _ = s.ask(t, "GET", gateway.StatusPath+"?method=POST&path=/orders", "ann", "", asked...)
	assert.Equal(t, fmt.Sprint(status, answer), "200{\"state\":\"completed\",\"attempt\":1,\"http_status\":201}\n", "status after it")

	_, answer, _ = s.ask(t, "GET", gateway.StatusPath+"?method=POST&path=/orders", "ann", "")
	assert.Contains(t, answer, "token-missing", "status of nothing")

	s.token(t, "ann")
	status, answer, h := s.ask(t, "POST", gateway.TokensPath, "ann", "")
	assert.Equal(t, status, 429, "the fourth in a minute")
	assert.Contains(t, answer, "too-many-keys", "the fourth in a minute")
	assert.True(t, h.Get("Retry-After") != "", "it says when to come again")
	s.token(t, "bob") // has his own limit
	assert.Equal(t, s.starts.Load(), int64(2), "what reached the service")
}

// TestTokensOfOthers tests that paths that are not the gateway's go to the service.
func TestTokensOfOthers(t *testing.T) {
	t.Parallel()
	s := newShop(t, "", nil)
	status, answer, _ := s.ask(t, "POST", gateway.TokensPath, "ann", "")
	assert.Equal(t, fmt.Sprint(status, answer), "201order 1", "no route asks for tokens")
	s = newShop(t, "defaults: {key: token}", nil)
	status, answer, _ = s.ask(t, "GET", gateway.TokensPath, "ann", "")
	assert.Equal(t, fmt.Sprint(status, answer), "201order 1", "another method")
	status, _, _ = s.ask(t, "POST", "/anything", "ann", "")
	assert.Equal(t, status, 400, "every POST needs a token")
	s.token(t, "")
}

// TestTokenOfABusyService tests that work that the service did not do can be done during the
// token's life, however short the retention is.
func TestTokenOfABusyService(t *testing.T) {
	t.Parallel()
	s := newShop(t, "tokens: {life: 20m}\ndefaults: {key: token, retention: 30s}", nil)
	token := s.token(t, "ann")
	for _, want := range []int{429, 201, 201} {
		status, _, _ := s.ask(t, "POST", "/busy", "ann", "tea", "Idempotency-Key", token)
		assert.Equal(t, status, want, "status")
		s.ahead.Add(int64(10 * time.Minute))
	}
	assert.Equal(t, s.starts.Load(), int64(2), "what reached the service")
}

// TestTokensAreNotLogged tests that the access log says that a token was issued, and that neither
// log contains it.
func TestTokensAreNotLogged(t *testing.T) {
	t.Parallel()
	log := new(lockedBuffer)
	s := newShop(t, "defaults: {key: token}", func(o *gateway.Options) {
		o.Logger = slog.New(slog.NewJSONHandler(log, nil))
		o.AccessLog = o.Logger
	})
	token := s.token(t, "ann")
	s.ask(t, "POST", "/orders", "ann", "tea", "Idempotency-Key", token)
	s.ask(t, "POST", "/orders", "bob", "tea", "Idempotency-Key", token)
	lines := log.String()
	assert.Contains(t, lines, `"outcome":"issued"`, "access log")
	assert.Contains(t, lines, `"route":"tokens"`, "access log")
	assert.True(t, !strings.Contains(lines, token), "no line has the token")
}

// TestTokensSurviveAReload tests that a token of the old configuration is valid in the new one.
func TestTokensSurviveAReload(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	defer up.Close()
	e := newEngine(t, memstore.New(nil), retrysafe.Policy{})
	c, err := config.Parse([]byte("upstream: "+up.URL+"\ndefaults: {key: token}"), nil)
	assert.NoError(t, err, "parse")
	o, _, err := c.Options()
	assert.NoError(t, err, "options")
	one, two := &shop{base: serve(t, e, o)}, &shop{base: serve(t, e, o)}
	token := one.token(t, "ann")
	for range 2 {
		status, _, _ := two.ask(t, "POST", "/orders", "ann", "tea", "Idempotency-Key", token)
		assert.Equal(t, status, 201, "a token of the one, used at the other")
	}
}
