package check

import (
	"context"
	"fmt"
)

// cuts are the lengths after which longer keys are often cut: columns, and the length of a UUID.
var cutLengths = []int{16, 32, 36, 64, 128}

var cutKey = &Check{
	ID: "cut-key", Title: "keys are compared whole", Severity: Critical, Requests: 3 * (1 + 5),
	Sends: []string{
		"Two requests whose keys are of the usual form, and differ in their last two characters only.",
		"Two requests each with keys that differ only after 16, 32, 36, 64 and 128 characters. The check long-key has 255.",
		"Where the second of two is not accepted, a third request with a new key of its form.",
	},
	Why: "A column of 32 characters cuts longer keys where the database is not strict (MySQL without STRICT_TRANS_TABLES, an explicit cast), " +
		"and many programs cut keys before they store or log them.",
	Wrong: []string{
		"The second request is answered with success and does not act, or is refused as a duplicate: the key was cut.",
		"The second request is answered with 500 or above, and a third one with a key of its form is not.",
	},
	Fix: "Refuse a key that is longer than the column with 400, or store a digest of the whole key. Let the database be strict.",
	run: func(ctx context.Context, s *session) finding {
		own := func() (string, string) { return changeEnd(s.newKey()) }
		all := []keyPair{{"differ in their last two characters only", own}}
		for _, n := range cutLengths {
			all = append(all, keyPair{fmt.Sprintf("differ only after %d characters", n), func() (string, string) { return keysCutAt(n) }})
		}
		seen, f, ok := s.checkKeyPairs(ctx, all)
		switch {
		case !ok:
			return f
		case len(seen.accepted) == 0:
			return unfitFinding(&seen.refusal)
		case seen.accepted[len(seen.accepted)-1] == 0:
			return passedFinding("keys of the usual form are compared whole; no other keys are taken")
		}
		return passedFinding("keys of up to %d characters are compared whole", cutLengths[seen.accepted[len(seen.accepted)-1]-1]+1)
	},
}

// keysCutAt returns two keys that have n characters in common, and one more.
func keysCutAt(n int) (first, second string) {
	same := newToken(n)[:n]
	return same + "a", same + "b"
}

// changeEnd returns a key, and another that differs in the last two letters or digits. The last
// one alone would not do: in base64 some of its bits may mean nothing.
func changeEnd(key string) (first, second string) {
	other, changed := []byte(key), 0
	for i := len(other) - 1; i >= 0 && changed < 2; i-- {
		if next := otherCharacter(other[i]); next != other[i] {
			other[i] = next
			changed++
		}
	}
	if changed == 0 {
		return key, key + "0"
	}
	return key, string(other)
}

// otherCharacter returns another digit in place of a digit, and another letter in place of a
// letter.
func otherCharacter(c byte) byte {
	switch {
	case c == '0' || c == 'a' || c == 'A':
		return c + 1
	case '0' < c && c <= '9':
		return '0'
	case 'a' < c && c <= 'z':
		return 'a'
	case 'A' < c && c <= 'Z':
		return 'A'
	}
	return c
}
