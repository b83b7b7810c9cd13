package check

import (
	"context"
	"strings"
	"unicode"
)

var keyCase = &Check{
	ID: "key-case", Title: "keys that differ in case only are two keys", Severity: Critical, Requests: 3,
	Sends: []string{"One request.", "Another request with a key that differs only in upper and lower case.", "If that is not accepted, a third request with a new key of its form."},
	Why:   "Two short keys in base64 can differ in case alone. MySQL compares text without case unless the collation says otherwise.",
	Wrong: []string{"The second request is answered with success and does not act, or is refused as a duplicate: two keys are taken for one."},
	Fix:   "Compare keys byte for byte: use a binary collation such as utf8mb4_bin, or a column of bytes. Never change the case of a key.",
	run: func(ctx context.Context, s *session) finding {
		key := s.keyWithCase()
		other := swapCase(key)
		switch {
		case key == other:
			return undecidedFinding("", "the keys of this API have no letters")
		case isUUID(key):
			return undecidedFinding("", "the keys of this API are UUIDs, whose case means nothing")
		}
		pair := func() (string, string) {
			key := s.keyWithCase()
			return key, swapCase(key)
		}
		seen, f, ok := s.checkKeyPairs(ctx, []keyPair{{"differ in case only", pair}})
		switch {
		case !ok:
			return f
		case len(seen.accepted) == 0:
			return notedFinding("the key %q, or the same in other case, is refused with %s, so whether case counts was not seen", key, &seen.refusal)
		}
		return passedFinding("keys that differ in case only are two keys")
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
