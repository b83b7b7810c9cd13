package httpidem

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// wholeOf is a credential however its scheme is written (RFC 9110, section 11.4): all of these are
// one caller's.
func wholeOf(header string) string {
	if !strings.Contains(header, " ") {
		return header
	}
	scheme, rest := partsOf(header)
	return scheme + " " + strings.TrimRight(rest, " ")
}

// hasName tells whether a header has a name that is the tenant, as anybody can say it.
func hasName(header string) bool {
	scheme, rest := partsOf(header)
	_, _, named := jwtSubject(rest)
	return scheme == "basic" || scheme == "bearer" && named
}

// partsOf are the scheme of a header, in small letters, and what follows it.
func partsOf(header string) (scheme, rest string) {
	scheme, rest, _ = strings.Cut(header, " ")
	return strings.ToLower(scheme), strings.TrimLeft(rest, " ")
}

// authorized is the tenant of an Authorization header.
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
