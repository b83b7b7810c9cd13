package config

import (
	"net/http"
	"sync"

	"github.com/retrysafe/retrysafe/gateway/internal/bearer"
)

// jwtOptions names callers by a bearer token (RFC 6750) that the gateway verifies. A forged token
// names no caller, and a token that was refreshed between two tries still names the same one.
type jwtOptions struct {
	JWKS     string `yaml:"jwks" default:"required" doc:"the issuer's public keys (RFC 7517): a file, read at start and on SIGHUP, or an address with https, asked again after 15m and for keys that are not known"`
	Issuer   string `yaml:"issuer" default:"required" doc:"what the token's iss has to be"`
	Audience string `yaml:"audience" default:"any" doc:"what has to be among its aud; without it tokens that the issuer made for others name callers here, too"`
	Claim    string `yaml:"claim" default:"sub" doc:"the claim that names the caller for good: a text or a number"`

	once       sync.Once
	nameCaller func(*http.Request) (string, error)
	err        error
}

// sameCallers reports whether both name callers in the same way.
func (c *jwtOptions) sameCallers(o *jwtOptions) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.bearerOptions() == o.bearerOptions()
}

func (c *jwtOptions) bearerOptions() bearer.Options {
	return bearer.Options{JWKS: c.JWKS, Issuer: c.Issuer, Audience: c.Audience, Claim: c.Claim}
}

// callerFunc returns the function that names callers: always the same function, which keeps the
// keys.
func (c *jwtOptions) callerFunc() (func(*http.Request) (string, error), error) {
	c.once.Do(func() { c.nameCaller, c.err = bearer.New(c.bearerOptions()) })
	return c.nameCaller, c.err
}
