package httpidem

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// CallerName names a caller in the words of a person who looks for its records, such as
// "basic:ann". [Credentials] and the gateway make tenants of callers, mostly keyed digests;
// [CallerName.Tenants] makes the same ones. The zero CallerName names no caller.
type CallerName struct{ kind, value string }

// Kinds of a CallerName. What only the caller has is a secret.
const (
	callerBasic      = "basic"
	callerJWT        = "jwt"
	callerHeader     = "header"
	callerBearer     = "bearer"
	callerCredential = "credential"
	callerCookie     = "cookie"
	callerSecret     = "secret"

	callerCertificate = "certificate"
)

// CallerForms says how a caller is named, for the help of a command.
const CallerForms = "basic:NAME, jwt:ISSUER|SUBJECT, header:VALUE, bearer:TOKEN, credential:AUTHORIZATION, cookie:VALUE, secret:VALUE or certificate:PEM"

var errCallerForm = errors.New("write " + CallerForms)

// ParseCallerName parses the name of a caller: a kind, a colon and a value.
//
//	basic:ann                          the user name of Basic authentication
//	jwt:https://login.example|42       iss and sub of a bearer token with the form of a JWT
//	header:ann                         a tenant that is not a digest, such as that of header:X-User
//	bearer:TOKEN                       a bearer token; of a JWT, iss and sub count
//	credential:Bearer TOKEN            a whole Authorization header
//	cookie:VALUE                       the value of the cookie that [Credentials].Cookie names
//	secret:VALUE                       the value of the header that HeaderSecret names
//	certificate:PEM                    the client certificate, in PEM
//
// A name without a kind is the user name of Basic authentication or a tenant that is not a digest.
// Its records may be those of two callers.
func ParseCallerName(text string) (CallerName, error) {
	kind, value, found := strings.Cut(text, ":")
	n := CallerName{kind, value}
	switch kind {
	case callerBasic, callerJWT, callerHeader, callerBearer, callerCredential, callerCookie, callerSecret, callerCertificate:
		if !found {
			n = CallerName{"", text}
		}
	default:
		if found {
			return CallerName{}, errCallerForm
		}
		n = CallerName{"", text}
	}
	switch {
	case n.value == "":
		return CallerName{}, errCallerForm
	case n.kind == callerJWT:
		if _, subject, _ := strings.Cut(n.value, "|"); subject == "" {
			return CallerName{}, errors.New("a caller with a JWT is named by its claims iss and sub: write jwt:ISSUER|SUBJECT")
		}
	case n.kind == callerCertificate:
		return certificateName(n.value)
	}
	return n, nil
}

// certificateName returns the name of the caller whom a certificate names.
func certificateName(text string) (CallerName, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return CallerName{}, errors.New("the certificate is not in PEM: it begins with -----BEGIN CERTIFICATE-----")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return CallerName{}, errors.New("the certificate cannot be read")
	}
	holder := certificateHolder(cert)
	if holder == "" {
		return CallerName{}, errors.New("the certificate names no holder")
	}
	return CallerName{callerCertificate, holder}, nil
}

// IsSecret reports whether the name has a credential, which must not stand in the arguments of a
// command.
func (n CallerName) IsSecret() bool {
	return slices.Contains([]string{callerBearer, callerCredential, callerCookie, callerSecret}, n.kind)
}

// IsOneCaller reports whether the name is that of one caller, and not of callers of two kinds.
func (n CallerName) IsOneCaller() bool { return n.kind != "" }

// String returns the name, without a secret.
func (n CallerName) String() string {
	switch {
	case n.IsSecret() || n.kind == callerCertificate:
		return n.kind + ":…"
	case n.kind == "":
		return n.value
	}
	return n.kind + ":" + n.value
}

// Tenants returns the tenants that records of the caller can have. There are several because a name
// does not say how the server knows its callers, for example whether it verifies tokens. e has the
// secret of the service, on which the digests depend.
func (n CallerName) Tenants(e *retrysafe.Engine) []string {
	var all []string
	switch n.kind {
	case "":
		all = []string{basicTenant(e, n.value), n.value}
	case callerBasic:
		all = []string{basicTenant(e, n.value)}
	case callerJWT:
		issuer, subject, _ := strings.Cut(n.value, "|")
		all = jwtTenants(e, issuer, subject)
	case callerHeader:
		all = []string{n.value}
	case callerBearer:
		if issuer, subject, ok := jwtSubject(n.value); ok {
			all = jwtTenants(e, issuer, subject)
		} else {
			all = []string{authorizationTenant(e, "Bearer "+n.value)}
		}
	case callerCredential:
		all = []string{authorizationTenant(e, n.value)}
		if scheme, rest := splitScheme(n.value); scheme == "bearer" {
			all = CallerName{callerBearer, rest}.Tenants(e)
		}
	case callerCookie:
		all = []string{credentialDigest(e, "cookie", plainCookie(n.value))}
	case callerSecret:
		all = []string{credentialDigest(e, "secret", n.value)}
	case callerCertificate:
		all = []string{credentialDigest(e, "certificate", n.value)}
	}
	for i := range all {
		all[i] = retrysafe.KeyPart(all[i]) // as a key has it
	}
	return all
}

// Accounts returns the tenants for which limits and rates of the caller can be counted. With
// [Credentials], that is the digest of the whole Authorization header, see [Credentials.Account]:
// of a caller with a header, only a name with the header finds it.
func (n CallerName) Accounts(e *retrysafe.Engine) []string {
	all := n.Tenants(e)
	switch n.kind {
	case callerBearer:
		all = append(all, credentialDigest(e, "credential", normalCredential("Bearer "+n.value)))
	case callerCredential:
		all = append(all, credentialDigest(e, "credential", normalCredential(n.value)))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func basicTenant(e *retrysafe.Engine, user string) string { return credentialDigest(e, "basic", user) }

func tokenTenant(e *retrysafe.Engine, issuer, subject string) string {
	return credentialDigest(e, "jwt", issuer+"\x00"+subject)
}

// jwtTenants returns the tenants of a token that no one verifies, and of one that the gateway
// verifies, whose subject is a text or a number.
func jwtTenants(e *retrysafe.Engine, issuer, subject string) []string {
	all := []string{tokenTenant(e, issuer, subject)}
	text, _ := json.Marshal(subject) // a text can be marshalled
	if who, ok := VerifiedTenant(issuer, text); ok {
		all = append(all, who)
	}
	if number := json.RawMessage(subject); number[0] != '"' {
		if who, ok := VerifiedTenant(issuer, number); ok {
			all = append(all, who)
		}
	}
	return all
}

// VerifiedTenant returns the tenant of a token whose signature was verified: a digest of its issuer
// and of the claim that names the caller, a text or a number. ok is false if the claim names no
// caller.
func VerifiedTenant(issuer string, claim json.RawMessage) (tenant string, ok bool) {
	who, ok := scalarClaim(claim)
	if !ok {
		return "", false
	}
	sum := sha256.Sum256([]byte(issuer + "\x00" + who))
	return "jwt:" + hex.EncodeToString(sum[:]), true
}

// scalarClaim returns a claim that is a text or a number. The two differ.
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
