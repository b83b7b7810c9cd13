package httpidem

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// Credentials says what tells callers apart where nobody else names them: the Authorization header,
// and what is named here. A request may have one of them. With two, or with one twice, it meets 400
// caller-ambiguous: the service might go by the other.
//
// A caller without any of them is anonymous, and its cookies are the binding: a duplicate with
// other cookies meets 409 cookies-changed. So nobody gets the answer of somebody else, and a cookie
// that changes between two tries never runs the work twice.
//
// Nothing is verified here; that is the service's task. A replay does not ask the service whether
// the caller still may. An opaque token that is renewed between two tries is another caller.
type Credentials struct {
	// Cookie names a cookie whose value stays the same while its user is logged in: a digest of it
	// is the tenant. A session that is kept in the cookie itself (Rails, Flask) changes with each
	// answer and is none; it belongs in Binding.
	Cookie string
	// HeaderSecret names a header that carries a secret of the caller, such as X-Api-Key: a digest
	// of it is the tenant.
	HeaderSecret string
	// Certificate makes the subject of the client's certificate the tenant, where the server has
	// verified one.
	Certificate bool
	// Binding names what tells anonymous callers apart in place of all cookies: "cookie:session",
	// "header:X-Device".
	Binding []string
}

// Validate says what is wrong with c.
func (c *Credentials) Validate() error {
	var errs []error
	for what, name := range map[string]string{"Cookie": c.Cookie, "HeaderSecret": c.HeaderSecret} {
		if name != "" && !isToken(name) {
			errs = append(errs, fmt.Errorf("httpidem: Credentials.%s is %q, which is no name", what, name))
		}
	}
	if strings.EqualFold(c.HeaderSecret, "Authorization") || strings.EqualFold(c.HeaderSecret, "Cookie") {
		errs = append(errs, fmt.Errorf("httpidem: Credentials.HeaderSecret is %q; Authorization counts by itself, and a cookie is named by Cookie", c.HeaderSecret))
	}
	for _, b := range c.Binding {
		if kind, name, _ := strings.Cut(b, ":"); kind != "cookie" && kind != "header" || !isToken(name) {
			errs = append(errs, fmt.Errorf(`httpidem: Credentials.Binding has %q; write it like "cookie:session" or "header:X-Device"`, b))
		}
	}
	return errors.Join(errs...)
}

// isToken tells whether s may be the name of a header or a cookie (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// On returns what names callers, with the secret of the engine, and what binds duplicates to them. They are for [Options]; whoever sets
// Options.Credentials has them already.
func (c *Credentials) On(e *retrysafe.Engine) (tenant func(*http.Request) (string, error), binding func(*http.Request) []byte) {
	own := *c
	own.HeaderSecret = http.CanonicalHeaderKey(c.HeaderSecret)
	own.Binding = slices.Clone(c.Binding)
	return func(r *http.Request) (string, error) { return own.tenant(e, r) }, own.binding
}

// Credential is [Credentials] with the Authorization header alone.
//
// The tenant is its stable part: the user id of Basic; the claims iss and sub of a bearer token that has the form of a JWT; of any other
// credential a keyed digest of the whole. The binding is why nobody gains by a forged token: a duplicate with any other header than the first
// one's is refused, not replayed. A client whose token was refreshed between two tries is refused too (409 principal-changed), never run
// twice.
func Credential(e *retrysafe.Engine) (tenant func(*http.Request) (string, error), binding func(*http.Request) []byte) {
	return new(Credentials).On(e)
}

func (c *Credentials) tenant(e *retrysafe.Engine, r *http.Request) (string, error) {
	who, found, err := "", 0, error(nil)
	one := func(what string, values []string, name func(string) string) {
		switch {
		case len(values) > 1:
			err = fmt.Errorf("it has %s %d times", what, len(values))
		case len(values) == 1 && values[0] != "":
			who = name(values[0])
			found++
		}
	}
	whole := func(kind string) func(string) string { return func(s string) string { return digestOf(e, kind, s) } }
	one("Authorization", r.Header["Authorization"], func(s string) string { return authorized(e, s) })
	if c.Cookie != "" {
		one("the cookie "+c.Cookie, cookies(r, c.Cookie), func(s string) string { return digestOf(e, "cookie", plainCookie(s)) })
	}
	if c.HeaderSecret != "" {
		one(c.HeaderSecret, r.Header[c.HeaderSecret], whole("secret"))
	}
	if c.Certificate && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		one("a certificate", []string{string(r.TLS.PeerCertificates[0].RawSubject)}, whole("certificate"))
	}
	if err == nil && found > 1 {
		err = fmt.Errorf("it has %d credentials", found)
	}
	if err != nil {
		p := NewProblem("caller-ambiguous", err)
		p.Detail = "Send one credential, once: " + err.Error() + ". Nothing was done."
		return "", p
	}
	return who, nil
}

// binding is the Authorization header, nothing where a whole secret is the tenant, and else what an anonymous caller shows.
func (c *Credentials) binding(r *http.Request) []byte {
	if header := r.Header.Get("Authorization"); header != "" {
		return []byte(header)
	}
	named := c.Cookie != "" && len(cookies(r, c.Cookie)) > 0 || c.HeaderSecret != "" && r.Header.Get(c.HeaderSecret) != "" ||
		c.Certificate && r.TLS != nil && len(r.TLS.VerifiedChains) > 0
	if named {
		return nil
	}
	shown := []string{}
	if c.Binding == nil {
		shown = append(shown, cookies(r, "")...)
	}
	for _, b := range c.Binding {
		if kind, name, _ := strings.Cut(b, ":"); kind == "cookie" {
			for _, value := range cookies(r, name) {
				shown = append(shown, name+"="+value)
			}
		} else {
			for _, value := range r.Header.Values(name) {
				shown = append(shown, b+"="+value)
			}
		}
	}
	slices.Sort(shown)
	return []byte("anonymous\n" + strings.Join(shown, "\n")) // also where there is nothing: then whoever has something is another one
}

// cookies are the values of the cookies of a name as they were sent; an empty name: of all, with their names.
func cookies(r *http.Request, name string) (all []string) {
	for _, line := range r.Header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			pair = strings.Trim(pair, " \t")
			n, value, _ := strings.Cut(pair, "=")
			switch n = strings.Trim(n, " \t"); { // as many services read it
			case pair == "":
			case name == "":
				all = append(all, pair)
			case n == name:
				all = append(all, value)
			}
		}
	}
	return all
}

// plainCookie is a cookie's value as services read it that take quotes away or decode it: whoever spells it in another way is no other caller.
func plainCookie(value string) string {
	value = strings.Trim(value, " \t")
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}

func digestOf(e *retrysafe.Engine, kind, s string) string {
	var space [512]byte
	sum := e.Digest(append(append(append(space[:0], kind...), 0), s...))
	return string(hex.AppendEncode(append(append(space[:0], kind...), ':'), sum[:]))
}
