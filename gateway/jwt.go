package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/retrysafe/retrysafe/httpidem"
)

// JWTConfig names callers by a bearer token (RFC 6750) that the gateway verifies. A forged token
// names no caller, and a token that was refreshed between two tries still names the same one.
type JWTConfig struct {
	JWKS     string `yaml:"jwks" default:"required" doc:"the issuer's public keys (RFC 7517): a file, read at start and on SIGHUP, or an address with https, asked again after 15m and for keys that are not known"`
	Issuer   string `yaml:"issuer" default:"required" doc:"what the token's iss has to be"`
	Audience string `yaml:"audience" default:"any" doc:"what has to be among its aud; without it tokens that the issuer made for others name callers here, too"`
	Claim    string `yaml:"claim" default:"sub" doc:"the claim that names the caller for good: a text or a number"`

	once sync.Once
	by   func(*http.Request) (string, error)
	err  error
}

// same reports whether both name callers in the same way.
func (c *JWTConfig) same(o *JWTConfig) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.JWKS == o.JWKS && c.Issuer == o.Issuer && c.Audience == o.Audience && c.Claim == o.Claim
}

// signing are the algorithms with public keys; "none" and shared secrets are not among them.
var signing = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// jwtLeeway is the tolerance for the clocks of issuers.
const jwtLeeway = 30 * time.Second

// mostToken is the longest token, in bytes.
const mostToken = 16 << 10

// tenant returns the function that names callers: always the same function, which keeps the keys.
func (c *JWTConfig) tenant() (func(*http.Request) (string, error), error) {
	c.once.Do(func() {
		if c.JWKS == "" || c.Issuer == "" {
			c.err = errors.New("jwt needs jwks and issuer; write it like {jwks: https://login.example/keys, issuer: https://login.example}")
			return
		}
		keys, err := newKeySet(c.JWKS)
		if err != nil {
			c.err = fmt.Errorf("jwt: jwks: %w", err)
			return
		}
		c.by = (&jwtTenant{JWTConfig: c, keys: keys}).of
	})
	return c.by, c.err
}

type jwtTenant struct {
	*JWTConfig
	keys *keySet
}

// of names the caller of a request.
func (t *jwtTenant) of(r *http.Request) (string, error) {
	lines := r.Header["Authorization"]
	if len(lines) == 0 {
		return "", unauthorized("", errors.New("no token"))
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	token = strings.TrimLeft(token, " ")
	if len(lines) > 1 || !strings.EqualFold(scheme, "Bearer") || len(token) > mostToken {
		return "", unauthorized("invalid_token", errors.New("no bearer token, or two"))
	}
	who, err := t.verify(r, token)
	if p := (*httpidem.Problem)(nil); err != nil && !errors.As(err, &p) {
		return "", unauthorized("invalid_token", err)
	}
	return who, err
}

// verify returns the caller that a token names. Its errors contain no part of the token.
func (t *jwtTenant) verify(r *http.Request, token string) (string, error) {
	parsed, err := jwt.ParseSigned(token, signing)
	if err != nil || len(parsed.Headers) != 1 {
		return "", errors.New("this is no token with one signature of a public key")
	}
	head := parsed.Headers[0]
	key, err := t.keys.find(r.Context(), head.KeyID)
	switch {
	case err != nil:
		return "", httpidem.NewProblem("issuer-unavailable", err).RetryAfter(time.Second)
	case key == nil:
		return "", errors.New("the issuer has no such key")
	case key.Algorithm != "" && key.Algorithm != head.Algorithm:
		return "", errors.New("the key is for another algorithm")
	}
	var c struct { // sub may be a number, which RFC 7519 does not allow, but which is common
		Issuer    string           `json:"iss"`
		Audience  jwt.Audience     `json:"aud"`
		Expiry    *jwt.NumericDate `json:"exp"`
		NotBefore *jwt.NumericDate `json:"nbf"`
		IssuedAt  *jwt.NumericDate `json:"iat"`
	}
	var all map[string]json.RawMessage
	if parsed.Claims(key, &c, &all) != nil {
		return "", errors.New("the signature is not that of the issuer's key")
	}
	claims := jwt.Claims{Issuer: c.Issuer, Audience: c.Audience, Expiry: c.Expiry, NotBefore: c.NotBefore, IssuedAt: c.IssuedAt}
	want := jwt.Expected{Issuer: t.Issuer, Time: t.keys.now()}
	if t.Audience != "" {
		want.AnyAudience = jwt.Audience{t.Audience}
	}
	switch err := claims.ValidateWithLeeway(want, jwtLeeway); {
	case err != nil:
		return "", errors.New("the token has expired, or is not for here")
	case claims.Expiry == nil:
		return "", errors.New("the token does not expire")
	}
	name := t.Claim
	if name == "" {
		name = "sub"
	}
	who, ok := scalarClaim(all[name])
	if !ok {
		return "", errors.New("the token names nobody")
	}
	sum := sha256.Sum256([]byte(claims.Issuer + "\x00" + who))
	return "jwt:" + hex.EncodeToString(sum[:]), nil
}

// scalarClaim returns a claim that is a text or a number.
func scalarClaim(raw json.RawMessage) (string, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return "t:" + text, text != ""
	}
	var number json.Number
	if json.Unmarshal(raw, &number) != nil || number == "" {
		return "", false
	}
	return "n:" + number.String(), true
}

// unauthorized returns the answer to a request without a valid token. Only its cause has the
// reason; clients do not see it.
func unauthorized(code string, cause error) error {
	p := httpidem.NewProblem("tenant-missing", cause).WithStatus(http.StatusUnauthorized)
	p.Challenge = "Bearer"
	if code != "" {
		p.Challenge = `Bearer error="` + code + `"`
	}
	return p
}
