package httpidem

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// Credentials say how to tell callers apart if the server does not know them: by the Authorization
// header, and by the fields below. A request may have one credential. Two credentials, or one
// twice, get 400 caller-ambiguous, since the service might use the other one.
//
// A caller without a credential is anonymous, and its cookies are the binding: a duplicate with
// other cookies gets 409 cookies-changed. So no caller gets the answer of another, and a cookie
// that changes between two tries never runs the work twice.
//
// Nothing is verified here; the service must do that. A replay does not ask the service whether the
// caller is still allowed. An opaque token that is renewed between two tries is another caller.
type Credentials struct {
	// Cookie names a cookie whose value stays the same while its user is logged in; a digest of it
	// is the tenant. Do not name a cookie that contains the session itself (Rails, Flask): it
	// changes with each answer. Name it in Binding.
	Cookie string
	// HeaderSecret names a header that carries a secret of the caller, such as X-Api-Key; a digest
	// of it is the tenant.
	HeaderSecret string
	// Certificate makes the subject of the client certificate the tenant, if the server has
	// verified one; if the subject is empty (SPIFFE, cert-manager), its alternative names. The
	// issuer is the binding.
	Certificate bool
	// Binding names what tells anonymous callers apart, in place of all cookies: "cookie:session",
	// "header:X-Device".
	Binding []string
}

// Validate reports what is wrong with c. It returns nil if c is valid.
func (c *Credentials) Validate() error {
	var errs []error
	for what, name := range map[string]string{"Cookie": c.Cookie, "HeaderSecret": c.HeaderSecret} {
		if name != "" && !IsToken(name) {
			errs = append(errs, fmt.Errorf("httpidem: Credentials.%s is %q, which is no name", what, name))
		}
	}
	if strings.EqualFold(c.HeaderSecret, "Authorization") || strings.EqualFold(c.HeaderSecret, "Cookie") {
		errs = append(errs, fmt.Errorf("httpidem: Credentials.HeaderSecret is %q; Authorization counts by itself, and a cookie is named by Cookie", c.HeaderSecret))
	}
	for _, b := range c.Binding {
		if kind, name, _ := strings.Cut(b, ":"); kind != "cookie" && kind != "header" || !IsToken(name) {
			errs = append(errs, fmt.Errorf(`httpidem: Credentials.Binding has %q; write it like "cookie:session" or "header:X-Device"`, b))
		}
	}
	return errors.Join(errs...)
}

// TenantAndBinding returns functions for [Options]: tenant names callers, with digests keyed by the
// engine's secret, and binding returns what a duplicate must also carry. You do not need it if you
// set Options.Credentials.
func (c *Credentials) TenantAndBinding(e *retrysafe.Engine) (tenant func(*http.Request) (string, error), binding func(*http.Request) []byte) {
	own := *c
	own.HeaderSecret = http.CanonicalHeaderKey(c.HeaderSecret)
	own.Binding = slices.Clone(c.Binding)
	return func(r *http.Request) (string, error) { return own.tenant(e, r) }, own.binding
}

// ByAuthorization tells callers apart by the Authorization header, as the zero [Credentials] do. It
// returns two functions:
//
//	tenant, binding := httpidem.ByAuthorization(engine)
//	idem := httpidem.New(engine, &httpidem.Options{Tenant: tenant, Binding: binding})
//
// The tenant is the stable part of the header: the user id of Basic; the claims iss and sub of a
// bearer token that has the form of a JWT; for any other credential a keyed digest of the whole.
// The binding makes forged tokens useless: a duplicate whose header differs from the first one is
// refused, not replayed. A client whose token was refreshed between two tries is refused too (409
// principal-changed), never run twice.
func ByAuthorization(e *retrysafe.Engine) (tenant func(*http.Request) (string, error), binding func(*http.Request) []byte) {
	return new(Credentials).TenantAndBinding(e)
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
	whole := func(kind string) func(string) string {
		return func(s string) string { return credentialDigest(e, kind, s) }
	}
	one("Authorization", r.Header["Authorization"], func(s string) string { return authorizationTenant(e, s) })
	if c.Cookie != "" {
		values := cookieValues(r, c.Cookie)
		if len(values) == 1 {
			values[0] = plainCookie(values[0])
		}
		one("the cookie "+c.Cookie, values, whole("cookie"))
	}
	if c.HeaderSecret != "" {
		one(c.HeaderSecret, r.Header[c.HeaderSecret], whole("secret"))
	}
	if cert := c.certificate(r); cert != nil {
		name := certificateHolder(cert)
		if name == "" {
			return "", problemFor(retrysafe.CodeTenantMissing, errors.New("the client certificate names no holder"))
		}
		one("a certificate", []string{name}, whole("certificate"))
	}
	if err == nil && found > 1 {
		err = fmt.Errorf("it has %d credentials", found)
	}
	if err != nil {
		p := problemFor(retrysafe.CodeCallerAmbiguous, err)
		p.Detail = "Send one credential, once: " + err.Error() + ". Nothing was done."
		return "", p
	}
	return who, nil
}

// certificate returns the verified certificate of the client if it names the tenant, or nil.
func (c *Credentials) certificate(r *http.Request) *x509.Certificate {
	if !c.Certificate || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.PeerCertificates[0]
}

// certificateHolder returns whom a certificate names: its subject, or if that is empty (SPIFFE,
// cert-manager) its alternative names. Empty: it names no one.
func certificateHolder(cert *x509.Certificate) string {
	const emptySequence = "0\x00"
	if subject := string(cert.RawSubject); subject != "" && subject != emptySequence {
		return subject
	}
	var names []string
	for _, u := range cert.URIs {
		names = append(names, "uri:"+u.String())
	}
	for _, ip := range cert.IPAddresses {
		names = append(names, "ip:"+ip.String())
	}
	for _, name := range cert.DNSNames {
		names = append(names, "dns:"+name)
	}
	for _, address := range cert.EmailAddresses {
		names = append(names, "email:"+address)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "names\n" + strings.Join(names, "\n")
}

// binding returns the Authorization header, nil if a whole secret is the tenant, the issuer of the
// certificate that names it (two authorities may name one holder), and else what identifies an
// anonymous caller. It goes by the same values as tenant: a caller with neither a tenant nor a
// binding would get the answers of others.
func (c *Credentials) binding(r *http.Request) []byte {
	if header := r.Header.Get("Authorization"); header != "" {
		return []byte(header)
	}
	if cert := c.certificate(r); cert != nil {
		return append([]byte("issuer\n"), cert.RawIssuer...)
	}
	isShown := func(value string) bool { return value != "" }
	if c.Cookie != "" && slices.ContainsFunc(cookieValues(r, c.Cookie), func(v string) bool { return plainCookie(v) != "" }) ||
		c.HeaderSecret != "" && slices.ContainsFunc(r.Header[c.HeaderSecret], isShown) {
		return nil
	}
	shown := []string{}
	if c.Binding == nil {
		shown = append(shown, cookieValues(r, "")...)
	}
	for _, b := range c.Binding {
		if kind, name, _ := strings.Cut(b, ":"); kind == "cookie" {
			for _, value := range cookieValues(r, name) {
				shown = append(shown, name+"="+value)
			}
		} else {
			for _, value := range r.Header.Values(name) {
				shown = append(shown, b+"="+value)
			}
		}
	}
	slices.Sort(shown)
	// Also if there is nothing: a caller that then shows something is another one.
	return []byte("anonymous\n" + strings.Join(shown, "\n"))
}

// cookieValues returns the values of the cookies called name, as sent. If name is empty, it returns
// all cookies, with their names.
func cookieValues(r *http.Request, name string) (all []string) {
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

// plainCookie returns the value of a cookie without quotes and decoded, as some services read it. A
// caller that spells it differently is still the same caller.
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

func credentialDigest(e *retrysafe.Engine, kind, s string) string {
	var space [512]byte // for the credentials of nearly all callers
	sum := e.Digest(append(append(append(space[:0], kind...), 0), s...))
	return string(hex.AppendEncode(append(append(space[:0], kind...), ':'), sum[:]))
}

// normalCredential returns a credential with its scheme in lower case and surplus spaces removed
// (RFC 9110, section 11.4), so that every spelling names the same caller.
func normalCredential(header string) string {
	if !strings.Contains(header, " ") {
		return header
	}
	scheme, rest := splitScheme(header)
	return scheme + " " + strings.TrimRight(rest, " ")
}

// isMereName reports whether the tenant of a header is a mere name, which anyone can send.
func isMereName(header string) bool {
	scheme, rest := splitScheme(header)
	_, _, named := jwtSubject(rest)
	return scheme == "basic" || scheme == "bearer" && named
}

// splitScheme returns the scheme of a header, in lower case, and what follows it.
func splitScheme(header string) (scheme, rest string) {
	scheme, rest, _ = strings.Cut(header, " ")
	return strings.ToLower(scheme), strings.TrimLeft(rest, " ")
}

// authorizationTenant returns the tenant of an Authorization header.
func authorizationTenant(e *retrysafe.Engine, header string) string {
	scheme, rest := splitScheme(header)
	if scheme == "basic" {
		if raw, err := base64.StdEncoding.DecodeString(rest); err == nil {
			if user, _, ok := strings.Cut(string(raw), ":"); ok {
				return basicTenant(e, user)
			}
		}
	}
	if scheme == "bearer" {
		if iss, sub, ok := jwtSubject(rest); ok {
			return tokenTenant(e, iss, sub)
		}
	}
	return credentialDigest(e, "credential", normalCredential(header))
}

// jwtSubject reads iss and sub of a token that has the form of a JWT, without verifying it.
func jwtSubject(token string) (iss, sub string, ok bool) {
	if strings.Count(token, ".") != 2 || len(token) > 16<<10 {
		return "", "", false
	}
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", "", false
	}
	var claims struct {
		Iss string          `json:"iss"`
		Sub json.RawMessage `json:"sub"`
	}
	if json.Unmarshal(payload, &claims) != nil || len(claims.Sub) == 0 {
		return "", "", false
	}
	var text string
	if json.Unmarshal(claims.Sub, &text) == nil {
		return claims.Iss, text, text != ""
	}
	var number json.Number // not allowed by RFC 7519, but common
	if json.Unmarshal(claims.Sub, &number) != nil {
		return "", "", false
	}
	return claims.Iss, number.String(), true
}

// Account returns a function that names whom limits and rates count: a name that only a caller with
// the secret can use. It is a digest of the whole credential, since anyone can send the user id of
// Basic or the subject of a bearer token. Callers without a credential are counted by address; if
// address is nil, by that of the connection. A caller that invents a credential for each request is
// counted as a new caller each time; the service must refuse such credentials.
func (c *Credentials) Account(e *retrysafe.Engine, address func(*http.Request) string) func(*http.Request) string {
	own := *c
	own.HeaderSecret = http.CanonicalHeaderKey(c.HeaderSecret)
	if address == nil {
		address = remoteHost
	}
	return func(r *http.Request) string {
		if header := r.Header.Get("Authorization"); header != "" {
			return credentialDigest(e, "credential", normalCredential(header))
		}
		if who, err := own.tenant(e, r); err == nil && who != "" {
			return who
		}
		return "address:" + address(r)
	}
}

func remoteHost(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// isSecretTenant reports whether only the owner of a secret, verified or not, can have the tenant
// of r.
func (c *Credentials) isSecretTenant(r *http.Request, tenant string) bool {
	if tenant == "" {
		return false
	}
	header := r.Header.Get("Authorization")
	if header != "" && (c.Cookie != "" || c.HeaderSecret != "" || c.Certificate) {
		// no one has verified it, and a caller could hide the configured credential with it
		return false
	}
	return header == "" || !isMereName(header)
}

var errOnlyNamed = errors.New("keys that are made of fields need a tenant that no one else can name: a user id of Basic or an unverified token is none, and where a cookie, a header or a certificate is configured only that counts")
