package attacks_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

func basic(user, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + "\r\n"
}

// forged returns a token that names a user, and that no issuer has signed.
func forged(sub, signature string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return "Authorization: Bearer " + part(`{"alg":"RS256"}`) + "." + part(`{"iss":"https://login","sub":"`+sub+`"}`) + "." + signature + "\r\n"
}

func key(n int) string {
	return fmt.Sprintf("Idempotency-Key: %q\r\n", fmt.Sprintf("a-key-of-an-attacker-%08d", n))
}

// members accepts requests with the right password or signature.
func members(w http.ResponseWriter, r *http.Request) {
	_, password, _ := r.BasicAuth()
	if header := r.Header.Get("Authorization"); password == "right" || strings.HasSuffix(header, ".right") {
		w.WriteHeader(http.StatusCreated)
		return
	}
	w.WriteHeader(http.StatusUnauthorized)
}

// TestLimitsOfAVictim tests that a caller that only claims to be Alice uses up none of her limits.
func TestLimitsOfAVictim(t *testing.T) {
	t.Parallel()
	for name, as := range map[string]func(secret string) string{
		"Basic": func(secret string) string { return basic("alice", secret) },
		"token": func(secret string) string { return forged("alice", secret) },
	} {
		x := newTarget(t, "defaults: {limits: {live: 20}}\n", members)
		for i := range 40 {
			assert.Equal(t, x.send(t, post("/orders", "tea", as("wrong"+fmt.Sprint(i)), key(i))), "401", "%s: a wrong secret", name)
		}
		assert.Equal(t, x.send(t, post("/orders", "tea", as("right"), key(100))), "201", "%s: Alice", name)
		for i := range 19 {
			assert.Equal(t, x.send(t, post("/orders", "tea", as("right"), key(101+i))), "201", "%s: Alice, again", name)
		}
		assert.Equal(t, x.send(t, post("/orders", "tea", as("right"), key(200))), "429 too-many-keys", "%s: Alice, once too often", name)
	}
}

// TestTokensOfAVictim tests that no caller uses up the tokens of another, and that a stranger uses
// up those of one address.
func TestTokensOfAVictim(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "trusted_proxies: [127.0.0.0/8]\nroutes:\n  - {match: POST /orders, key: token}\n", members)
	ask := func(fields ...string) string {
		got, _, _ := strings.Cut(x.send(t, post("/.retrysafe/tokens", "", fields...)), " ")
		return got
	}
	from := func(address string) string { return "X-Forwarded-For: " + address + "\r\n" }
	for range 60 {
		assert.Equal(t, ask(basic("alice", "wrong")), "201", "somebody who says that he is Alice")
		assert.Equal(t, ask("Cookie: session=attacker\r\n", from("192.0.2.1")), "201", "a stranger")
	}
	assert.Equal(t, ask(basic("alice", "wrong")), "429", "once too often")
	assert.Equal(t, ask("Cookie: session=other\r\n", from("192.0.2.1")), "429", "the stranger, with another cookie")
	assert.Equal(t, ask(basic("alice", "right")), "201", "Alice")
	assert.Equal(t, ask("Cookie: session=bob\r\n", from("192.0.2.2")), "201", "another stranger")
}

// TestVotesUnderAnotherName tests that a key of fields needs a tenant with a secret, not one with
// only a name.
func TestVotesUnderAnotherName(t *testing.T) {
	t.Parallel()
	x := newTarget(t, `
defaults: {tenant: {header_secret: X-Api-Key}}
routes:
  - {match: POST /votes, operation: vote, key: {fields: [/poll]}, rate: {per_s: 0.0001, burst: 2}}
`, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	const vote = `{"poll": "p1"}`
	const media = "Content-Type: application/json\r\n"
	for _, as := range []string{basic("alice", "x"), forged("alice", "x"), ""} {
		assert.Equal(t, x.send(t, post("/votes", vote, media, as)), "403 tenant-missing", "as %q", as)
	}
	assert.Equal(t, x.send(t, post("/votes", vote, media, "X-Api-Key: alices\r\n")), "201", "Alice votes")
	assert.Equal(t, x.send(t, post("/votes", vote, media, "X-Api-Key: alices\r\n")), "201", "a second click")
	assert.Equal(t, x.send(t, post("/votes", vote, media, "X-Api-Key: alices\r\n")), "429 too-many-requests", "a third one")
	assert.Equal(t, x.send(t, post("/votes", vote, media, "X-Api-Key: bobs\r\n")), "201", "Bob votes")
	assert.Equal(t, x.reached.Load(), int64(2), "votes")
}

// TestSpellingsOfACredential tests that one token is one caller, however its scheme is spelled.
func TestSpellingsOfACredential(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "defaults: {limits: {live: 2}}\n", created)
	for i, header := range []string{"Bearer one", "bearer one", "BEARER  one"} {
		want := map[bool]string{true: "201", false: "429 too-many-keys"}[i < 2]
		assert.Equal(t, x.send(t, post("/orders", "tea", "Authorization: "+header+"\r\n", key(i))), want, "%s", header)
	}
}

// TestSecretInDisguise tests that a service that treats underscores as hyphens sees the secret that
// the guard uses, and no other.
func TestSecretInDisguise(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "defaults: {tenant: {header_secret: X-Api-Key}}\n", saw)
	got := x.send(t, post("/orders", "tea", "X-Api-Key: mine\r\nX_Api_Key: hidden\r\nX_Forwarded_Proto: https\r\n", key(1)))
	assert.True(t, strings.Contains(got, "X-Api-Key: mine") && !strings.Contains(got, "hidden") && !strings.Contains(got, "https"), "the service got %s", got)
}

// TestTokensOfMadeUpCallers tests that a caller that invents a credential for each token is limited
// by address.
func TestTokensOfMadeUpCallers(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "trusted_proxies: [127.0.0.0/8]\nlimits: {new_by_address: {per_s: 0.001, burst: 30}}\nroutes:\n  - {match: POST /orders, key: token}\n", created)
	ask := func(as, from string) string {
		got, _, _ := strings.Cut(x.send(t, post("/.retrysafe/tokens", "", "Authorization: Bearer "+as+"\r\n", "X-Forwarded-For: "+from+"\r\n")), " ")
		return got
	}
	for i := range 40 {
		assert.Equal(t, ask(fmt.Sprint("x", i), "192.0.2.1"), map[bool]string{true: "201", false: "429"}[i < 30], "a made-up caller, %d", i)
	}
	assert.Equal(t, ask("alice", "192.0.2.2"), "201", "Alice")
}
