package token_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func user(r *http.Request) (string, error) {
	if who := r.Header.Get("X-User"); who != "nobody" {
		return who, nil
	}
	return "", errors.New("the session of key-secret has ended")
}

// call sends a request to h; fields are pairs of name and value.
func call(h http.Handler, method, body string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/tokens", strings.NewReader(body))
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestServeHTTP(t *testing.T) {
	t.Parallel()
	for name, o := range kinds {
		o.Tenant, o.Life = user, 90*time.Second
		e := engineOn(t, newStore(), retrysafe.Policy{})
		i, c := token.NewIssuer(e, &o), new(till)
		w := call(i, "POST", "ignored", "X-User", "ann")
		assert.Equal(t, fmt.Sprint(w.Code, w.Header().Get("Cache-Control"), w.Header().Get("Content-Type")), "201no-storeapplication/json", "%s", name)
		var given map[string]any
		assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &given), "%s: answer", name)
		assert.True(t, len(given) == 2 && given["expires_in"] == 90.0, "%s: %s", name, w.Body)
		text, _ := given["token"].(string)
		assert.Equal(t, c.pay(t, i, "bob", text), "refused", "%s: another's", name)
		assert.Equal(t, c.pay(t, i, "ann", text), "ran", "%s: hers", name)
	}
}

func TestServeHTTPRefuses(t *testing.T) {
	t.Parallel()
	away := storetest.NewFaulty(newStore(), func(string, int) storetest.Fault { return storetest.LoseRequest })
	closed := engineOn(t, newStore(), retrysafe.Policy{})
	assert.NoError(t, closed.Shutdown(ctx), "shutdown")
	e := engineOn(t, newStore(), retrysafe.Policy{})
	for name, tt := range map[string]struct {
		i      *token.Issuer
		method string
		who    string
		want   string
	}{
		"GET":                 {token.NewIssuer(e, &token.Options{Tenant: user}), "GET", "ann", "405"},
		"a caller of no name": {token.NewIssuer(e, &token.Options{Tenant: user}), "POST", "nobody", "403 tenant-missing"},
		"no Tenant":           {token.NewIssuer(e, nil), "POST", "ann", "403 tenant-missing"},
		"anonymous":           {token.NewIssuer(e, &token.Options{Tenant: user, Anonymous: -1}), "POST", "", "403 tenant-missing"},
		"the store away":      {token.NewIssuer(engineOn(t, away, retrysafe.Policy{}), &token.Options{Tenant: user}), "POST", "ann", "503 store-unavailable"},
		"the end":             {token.NewIssuer(closed, &token.Options{Tenant: user}), "POST", "ann", "503 shutting-down"},
		"no clock":            {token.NewIssuer(engineOn(t, away, retrysafe.Policy{}), &token.Options{Tenant: user, StatelessSecret: secret}), "POST", "ann", "503 store-unavailable"},
	} {
		w := call(tt.i, tt.method, "", "X-User", tt.who)
		var p httpidem.Problem
		_ = json.Unmarshal(w.Body.Bytes(), &p)
		assert.Equal(t, strings.TrimSpace(fmt.Sprint(w.Code, " ", p.Code)), tt.want, "%s", name)
		assert.True(t, !strings.Contains(w.Body.String(), "secret"), "%s: the cause is not told", name)
		assert.Equal(t, w.Header().Get("Retry-After") != "", w.Code == 503, "%s: Retry-After", name)
	}
	assert.Equal(t, call(token.NewIssuer(e, nil), "PUT", "").Header().Get("Allow"), "POST", "Allow")
}

func TestTooManyOverHTTP(t *testing.T) {
	bubble(t, func(t *testing.T) {
		i := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &token.Options{Tenant: user, Rate: 2})
		for range 2 {
			assert.Equal(t, call(i, "POST", "", "X-User", "ann").Code, 201, "status")
			time.Sleep(1500 * time.Millisecond)
		}
		w := call(i, "POST", "", "X-User", "ann")
		assert.Equal(t, fmt.Sprint(w.Code, w.Header().Get("Retry-After")), "42957", "the third")
		assert.Contains(t, w.Body.String(), `"code":"too-many-keys"`, "the third")
		time.Sleep(57 * time.Second)
		assert.Equal(t, call(i, "POST", "", "X-User", "ann").Code, 201, "after Retry-After")
	})
}

// TestGuardInsideAGuard: two guards of one token in one process act as one, and the inner one gets
// the whole body.
func TestGuardInsideAGuard(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	i := token.NewIssuer(e, nil)
	idem := httpidem.New(e, &httpidem.Options{Tenant: user, Key: httpidem.Token, KeySource: httpidem.KeySource{Tokens: i}})
	runs := 0
	h := idem.Handler(idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		fmt.Fprint(w, r.FormValue("item"), runs)
	})))
	body := "item=tea&idempotency_key=" + issueToken(t, i, "ann")
	for range 2 {
		w := call(h, "POST", body, "X-User", "ann", "Content-Type", "application/x-www-form-urlencoded")
		assert.Equal(t, fmt.Sprint(w.Code, w.Body), "200 tea1", "answer")
	}
}

// TestRedeemWithoutTheIssuer: a process that only redeems needs no issuer for stored tokens. It
// refuses stateless tokens that were not used, and other routes have their own keys.
func TestRedeemWithoutTheIssuer(t *testing.T) {
	t.Parallel()
	s := newStore()
	issuer := token.NewIssuer(engineOn(t, s, retrysafe.Policy{}), nil)
	signer := token.NewIssuer(engineOn(t, s, retrysafe.Policy{}), &token.Options{StatelessSecret: secret})
	idem := httpidem.New(engineOn(t, s, retrysafe.Policy{}), &httpidem.Options{Tenant: user, Key: httpidem.Token})
	h := idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }))
	stored, signed := issueToken(t, issuer, "ann"), issueToken(t, signer, "ann")
	for range 2 {
		assert.Equal(t, call(h, "POST", "x", "X-User", "ann", "Idempotency-Key", stored).Code, 201, "a stored token")
	}
	assert.Equal(t, call(h, "POST", "x", "X-User", "ann", "Idempotency-Key", signed).Code, 403, "a signed token, unused")
	plain := idem.With(func(o *httpidem.Options) { o.Key = httpidem.Required }).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }))
	assert.Equal(t, call(plain, "POST", "x", "X-User", "ann", "Idempotency-Key", stored).Code, 202, "keys of other routes live apart")
}
