package check

import (
	"context"
	"strings"
)

var alikeKeys = &Check{
	ID: "alike-keys", Title: "keys that a database may equate are two keys", Severity: Critical, Requests: 3 * 3,
	Sends: []string{
		"Two requests with keys in quotes, of which the second ends with a space: `\"a\"` and `\"a \"`.",
		"Two requests with keys of which the second has an accent on a letter, in UTF-8, and two in ISO 8859-1.",
		"Where the second of two is not accepted, a third request with a new key of its form.",
	},
	Why: "Many collations of MySQL and SQL Server ignore spaces at the end and accents, as they ignore case.",
	Wrong: []string{
		"The second request is answered with success and does not act, or is refused as a duplicate: two keys are taken for one.",
		"The second request is answered with 500 or above, and a third one with a key of its form is not.",
	},
	Fix: "Compare keys byte for byte: use a binary collation such as utf8mb4_0900_bin, or a column of bytes. Refuse keys that are not printable ASCII with 400.",
	run: func(ctx context.Context, s *session) finding {
		accent := func(e string) func() (string, string) {
			return func() (string, string) {
				key := newToken(17)
				return "e" + key + "-", e + key + "-"
			}
		}
		seen, f, ok := s.checkKeyPairs(ctx, []keyPair{
			{"differ in a space at the end", func() (string, string) {
				key := strings.Trim(s.newKey(), `"`)
				return `"` + key + `"`, `"` + key + ` "`
			}},
			{"differ in an accent", accent("é")},
			{"differ in an accent, in ISO 8859-1", accent("\xe9")},
		})
		switch {
		case !ok:
			return f
		case len(seen.accepted) == 0 && !seen.refusal.isRefusal():
			return notedFinding("keys with a space at the end, or with an accent, are answered %s; a refusal with 400 would say why", &seen.refusal)
		case len(seen.accepted) == 0:
			return passedFinding("keys with a space at the end, or with an accent, are refused with %s", &seen.refusal)
		}
		return passedFinding("keys that differ in a space at the end or in an accent are two keys, or are refused")
	},
}
