package check

import (
	"context"
	"net/http"
	"strings"
	"unicode"
)

var keyCase = &Check{
	ID: "key-case", Title: "keys that differ in case only are two keys", Severity: Critical, Requests: 2,
	Sends: []string{"One request.", "The same request with a key that differs only in upper and lower case."},
	Why:   "Two short keys in base64 can differ in case alone. MySQL compares text without case unless the collation says otherwise.",
	Wrong: []string{"The second request is answered with success and does not act, or is refused as a duplicate: two keys are taken for one."},
	Fix:   "Compare keys byte for byte: use a binary collation such as utf8mb4_bin, or a column of bytes. Never change the case of a key.",
	run: func(ctx context.Context, s *session) finding {
		key := s.keyWithCase()
		other := swapCase(key)
		switch {
		case key == other:
			return undecided("", "the keys of this API have no letters")
		case isUUID(key):
			return undecided("", "the keys of this API are UUIDs, whose case means nothing")
		}
		effects := s.effects(ctx)
		op := s.first()
		first := s.send(ctx, "the first request", op.keyed(key))
		if first.refused() {
			return noted("the key %q is refused with %s, so whether case counts was not seen", key, &first)
		}
		if !first.ok() {
			return undecided("", "the key %q is answered %s, so whether case counts was not seen", key, &first)
		}
		second := s.send(ctx, "the same request, its key in other case", op.keyed(other))
		switch {
		case second.failed():
			return broken(Serious, "a key that differs in case only is answered %s", &second)
		case second.status == http.StatusConflict:
			return broken(Critical, "a key that differs in case only is refused with %s, as a duplicate is", &second)
		case !second.ok():
			return noted("a key that differs in case only is answered %s", &second)
		case effects.since(ctx, 2) < 2, !effects.known() && s.distinct && first.same(&second):
			return broken(Critical, "two keys that differ in case only are taken for one")
		case !effects.known() && !s.distinct:
			return undecided(needOracle, "the answers do not show whether both requests acted")
		}
		return passed("keys that differ in case only are two keys")
	},
}

// keyWithCase returns a new key with letters. One that looks like a UUID would not do: an API may
// read it as one, and then its case means nothing.
func (s *session) keyWithCase() string {
	if s.target.NewKey != nil {
		return s.newKey()
	}
	return "Retry-" + newToken(15) // as long as a UUID: some APIs refuse another length
}

func swapCase(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsUpper(c) {
			return unicode.ToLower(c)
		}
		return unicode.ToUpper(c)
	}, text)
}

// isUUID reports whether text has 32 hexadecimal digits and nothing else but hyphens.
func isUUID(text string) bool {
	digits := strings.ReplaceAll(text, "-", "")
	return len(digits) == 32 && strings.Trim(strings.ToLower(digits), "0123456789abcdef") == ""
}
