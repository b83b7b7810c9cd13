package httpidem

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// wholeOf returns a credential with its scheme in lower case and surplus spaces removed (RFC 9110,
// section 11.4), so that every spelling names the same caller.
func wholeOf(header string) string {
	if !strings.Contains(header, " ") {
		return header
	}
	scheme, rest := partsOf(header)
	return scheme + " " + strings.TrimRight(rest, " ")
}

// hasName reports whether the tenant of a header is a mere name, which anyone can send.
func hasName(header string) bool {
	scheme, rest := partsOf(header)
	_, _, named := jwtSubject(rest)
	return scheme == "basic" || scheme == "bearer" && named
}

// partsOf returns the scheme of a header, in lower case, and what follows it.
func partsOf(header string) (scheme, rest string) {
	scheme, rest, _ = strings.Cut(header, " ")
	return strings.ToLower(scheme), strings.TrimLeft(rest, " ")
}

// authorized returns the tenant of an Authorization header.
func authorized(e *retrysafe.Engine, header string) string {
	digest := func(kind, s string) string { return digestOf(e, kind, s) }
	scheme, rest := partsOf(header)
	if scheme == "basic" {
		if raw, err := base64.StdEncoding.DecodeString(rest); err == nil {
			if user, _, ok := strings.Cut(string(raw), ":"); ok {
				return digest("basic", user)
			}
		}
	}
	if scheme == "bearer" {
		if iss, sub, ok := jwtSubject(rest); ok {
			return digest("jwt", iss+"\x00"+sub)
		}
	}
	return digest("credential", wholeOf(header))
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
