// Package bearer names callers by bearer tokens (RFC 6750) that it verifies (RFC 7519).
package bearer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/retrysafe/retrysafe/httpidem"
)

// Options say whose tokens are accepted.
type Options struct {
	// JWKS has the issuer's public keys (RFC 7517): a file, or an address.
	JWKS string
	// Issuer is what iss has to be.
	Issuer string
	// Audience has to be among aud; empty: any.
	Audience string
	// Claim names the caller; default sub.
	Claim string
}

// signatureAlgorithms are the algorithms with public keys; "none" and shared secrets are not among
// them.
var signatureAlgorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// leeway is the tolerance for the clocks of issuers.
const leeway = 30 * time.Second

// mostToken is the longest token, in bytes.
const mostToken = 16 << 10

// New returns a function that names the caller of a request. It reads a file of keys at once. The
// function is safe for concurrent use; its errors are of the type [httpidem.Problem].
func New(o Options) (func(*http.Request) (string, error), error) {
	if o.JWKS == "" || o.Issuer == "" {
		return nil, errors.New("jwt needs jwks and issuer; write it like {jwks: https://login.example/keys, issuer: https://login.example}")
	}
	keys, err := newKeySet(o.JWKS)
	if err != nil {
		return nil, fmt.Errorf("jwt: jwks: %w", err)
	}
	return (&verifier{options: o, keys: keys}).nameCaller, nil
}

type verifier struct {
	options Options
	keys    *keySet
}

// nameCaller names the caller of a request.
func (t *verifier) nameCaller(r *http.Request) (string, error) {
	lines := r.Header["Authorization"]
	if len(lines) == 0 {
		return "", unauthorizedProblem("", errors.New("no token"))
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	token = strings.TrimLeft(token, " ")
	if len(lines) > 1 || !strings.EqualFold(scheme, "Bearer") || len(token) > mostToken {
		return "", unauthorizedProblem("invalid_token", errors.New("no bearer token, or two"))
	}
	who, err := t.verifyToken(r, token)
	if p := (*httpidem.Problem)(nil); err != nil && !errors.As(err, &p) {
		return "", unauthorizedProblem("invalid_token", err)
	}
	return who, err
}

// verifyToken returns the caller that a token names. Its errors contain no part of the token.
func (t *verifier) verifyToken(r *http.Request, token string) (string, error) {
	parsed, err := jwt.ParseSigned(token, signatureAlgorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return "", errors.New("this is no token with one signature of a public key")
	}
	head := parsed.Headers[0]
	key, err := t.keys.findKey(r.Context(), head.KeyID)
	switch {
	case err != nil:
		return "", httpidem.NewProblem("issuer-unavailable", err).WithRetryAfter(time.Second)
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
	want := jwt.Expected{Issuer: t.options.Issuer, Time: t.keys.now()}
	if t.options.Audience != "" {
		want.AnyAudience = jwt.Audience{t.options.Audience}
	}
	switch err := claims.ValidateWithLeeway(want, leeway); {
	case err != nil:
		return "", errors.New("the token has expired, or is not for here")
	case claims.Expiry == nil:
		return "", errors.New("the token does not expire")
	}
	name := t.options.Claim
	if name == "" {
		name = "sub"
	}
	who, ok := httpidem.VerifiedTenant(claims.Issuer, all[name])
	if !ok {
		return "", errors.New("the token names no caller")
	}
	return who, nil
}

// unauthorizedProblem returns the answer to a request without a valid token. Only its cause has the
// reason; clients do not see it.
func unauthorizedProblem(code string, cause error) error {
	p := httpidem.NewProblem("tenant-missing", cause).WithStatus(http.StatusUnauthorized)
	p.Challenge = "Bearer"
	if code != "" {
		p.Challenge = `Bearer error="` + code + `"`
	}
	return p
}
