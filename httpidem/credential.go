package httpidem

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// Credential makes the tenant and the binding out of the Authorization header, for a gateway that knows nothing else of the caller.
//
// The tenant is the stable part: the user id of Basic; the claims iss and sub of a bearer token that has the form of a JWT; of any
// other credential a keyed digest of the whole. No credential is the anonymous tenant. Nothing is verified here: that is the service's
// task, and the binding is why nobody gains by a forged token: a repeat with any other header than the first one's is refused, not
// replayed. A client whose token was refreshed between two tries is refused too (409 principal-changed), never run twice.
func Credential(e *retrysafe.Engine) (tenant func(*http.Request) (string, error), binding func(*http.Request) []byte) {
	tenant = func(r *http.Request) (string, error) { return credentialTenant(e, r.Header.Get("Authorization")), nil }
	binding = func(r *http.Request) []byte { return []byte(r.Header.Get("Authorization")) }
	return tenant, binding
}

func credentialTenant(e *retrysafe.Engine, header string) string {
	if header == "" {
		return ""
	}
	digest := func(kind, s string) string {
		var space [512]byte
		sum := e.Digest(append(append(append(space[:0], kind...), 0), s...))
		return string(hex.AppendEncode(append(append(space[:0], kind...), ':'), sum[:]))
	}
	scheme, rest, _ := strings.Cut(header, " ")
	rest = strings.TrimLeft(rest, " ")
	if strings.EqualFold(scheme, "Basic") {
		if raw, err := base64.StdEncoding.DecodeString(rest); err == nil {
			if user, _, ok := strings.Cut(string(raw), ":"); ok {
				return digest("basic", user)
			}
		}
	}
	if strings.EqualFold(scheme, "Bearer") {
		if iss, sub, ok := jwtSubject(rest); ok {
			return digest("jwt", iss+"\x00"+sub)
		}
	}
	return digest("credential", header)
}

// jwtSubject reads iss and sub of what has the form of a JWT, without verifying it.
func jwtSubject(token string) (iss, sub string, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > 16<<10 {
		return "", "", false
	}
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
	var number json.Number // not what RFC 7519 says, but common
	if json.Unmarshal(claims.Sub, &number) != nil {
		return "", "", false
	}
	return claims.Iss, number.String(), true
}
