package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Verifier checks that a provider has sent a request, over the bytes of the body as received. Its
// error goes only to Options.OnRefused; it must not contain secrets. A Verifier must be safe for
// concurrent use.
type Verifier func(r *http.Request, body []byte) error

// Unverified accepts everything. Use it only for callbacks that something before them has verified.
// Otherwise anyone who knows the address can invent events, and use up the ids of events that the
// provider has yet to send.
func Unverified(*http.Request, []byte) error { return nil }

// Tolerance is how far the time in a signature may be from now.
const Tolerance = 5 * time.Minute

var errNoSignature = errors.New("callback: the signature is missing, or is there more than once")

// Stripe checks the field Stripe-Signature. Its part t is a Unix time, and one of its parts v1 is
// the HMAC-SHA-256, in hex, of t, a dot and the body. The time may be [Tolerance] from now. Give
// several secrets while one replaces another. See "Verify webhook signatures manually" in Stripe's
// documentation.
func Stripe(secrets ...string) Verifier { return stripeAt(time.Now, secrets...) }

// stripeAt is Stripe with a clock.
func stripeAt(now func() time.Time, secrets ...string) Verifier {
	keys := keysOf(secrets)
	return func(r *http.Request, body []byte) error {
		line, err := singleLine(r, "Stripe-Signature")
		if err != nil {
			return err
		}
		var at string
		var given [][]byte
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			switch name {
			case "t":
				if at != "" {
					return errors.New("callback: the signature has two times")
				}
				at = value
			case "v1":
				if sum, err := hex.DecodeString(value); err == nil {
					given = append(given, sum)
				}
			}
		}
		if len(given) > 8 {
			return errors.New("callback: the signature has too many parts")
		}
		message := append(append([]byte(at), '.'), body...)
		if !anyMatches(keys, given, message) {
			return errors.New("callback: no signature is that of a known secret over this body")
		}
		return inTime(now, at)
	}
}

// keysOf panics on secrets that anyone could sign with.
func keysOf(secrets []string) [][]byte {
	keys := make([][]byte, len(secrets))
	for i, s := range secrets {
		if s == "" {
			panic("callback: a secret is empty; give that of the endpoint")
		}
		keys[i] = []byte(s)
	}
	if len(keys) == 0 {
		panic("callback: a verifier needs the secret of the endpoint")
	}
	return keys
}

// anyMatches compares in constant time.
func anyMatches(keys, given [][]byte, message []byte) bool {
	ok := false
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write(message)
		sum := mac.Sum(nil)
		for _, g := range given {
			ok = hmac.Equal(sum, g) || ok
		}
	}
	return ok
}

// HMAC checks a field that has the HMAC-SHA-256 of the body in hex, with or without "sha256="
// before it, as many providers send it. Give several secrets while one replaces another. Such a
// signature has no time, so only the event's id protects against old requests.
func HMAC(header string, secrets ...string) Verifier {
	keys := keysOf(secrets)
	if header == "" {
		panic("callback: HMAC needs the name of a header")
	}
	return func(r *http.Request, body []byte) error {
		line, err := singleLine(r, header)
		if err != nil {
			return err
		}
		sum, err := hex.DecodeString(strings.TrimPrefix(line, "sha256="))
		if err != nil || !anyMatches(keys, [][]byte{sum}, body) {
			return errors.New("callback: the signature is not that of a known secret over this body")
		}
		return nil
	}
}

// singleLine returns the one line of a field.
func singleLine(r *http.Request, name string) (string, error) {
	lines := r.Header.Values(name)
	if len(lines) != 1 || lines[0] == "" {
		return "", fmt.Errorf("%w: %s", errNoSignature, name)
	}
	return lines[0], nil
}

// inTime returns an error unless text is a Unix time within Tolerance of now.
func inTime(now func() time.Time, text string) error {
	s, err := strconv.ParseInt(text, 10, 64)
	if err != nil || len(text) > 12 {
		return errors.New("callback: the time in the signature is no Unix time")
	}
	if age := now().Sub(time.Unix(s, 0)); age > Tolerance || age < -Tolerance {
		return fmt.Errorf("callback: the signature was made %v from now, more than %v", age.Truncate(time.Second), Tolerance)
	}
	return nil
}
