// Package keytext bounds the parts of a key, writes them as text, and reads them again. The format
// is version 1 and frozen.
package keytext

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// MaxPart is the most bytes of a part of a key.
const MaxPart = 512

// ErrInvalid is the error of a key that stands for no record, and of a text that stands for no key.
var ErrInvalid = errors.New("invalid key")

// CheckLength returns an error that names the part, or nil.
func CheckLength(name, part string) error {
	if len(part) <= MaxPart {
		return nil
	}
	return tooLong(name, part)
}

// tooLong stands apart so that the check itself is inlined: each call checks five parts, twice.
func tooLong(name, part string) error {
	return fmt.Errorf("%w: the %s has %d bytes, at most %d are allowed; pass it through retrysafe.KeyPart", ErrInvalid, name, len(part), MaxPart)
}

// FitPart returns s, or its digest if s is longer than MaxPart or looks like a digest. So no caller
// can name the digest of another's value.
func FitPart(s string) string {
	if len(s) <= MaxPart && !isDigest(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return digestPrefix + hex.EncodeToString(sum[:])
}

const digestPrefix = "~sha256."

// isDigest reports whether s has the form of a digest made by FitPart. Such a part is written as it
// is; any other leading ~ is escaped.
func isDigest(s string) bool {
	rest, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(rest) != 2*sha256.Size {
		return false
	}
	return strings.Trim(rest, "0123456789abcdef") == ""
}

const upperHex = "0123456789ABCDEF"

// AppendParts appends the text of a key to b.
func AppendParts(b []byte, parts ...string) []byte {
	for n, s := range parts {
		if n > 0 {
			b = append(b, '/')
		}
		from := 0 // what follows is not appended yet
		for i := range len(s) {
			c := s[i]
			switch {
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
				continue
			case c == '~' && (i > 0 || isDigest(s)):
				continue
			}
			b = append(append(b, s[from:i]...), '%', upperHex[c>>4], upperHex[c&15])
			from = i + 1
		}
		b = append(b, s[from:]...)
	}
	return b
}

// ParseParts returns the n parts of a text.
func ParseParts(text []byte, n int) ([]string, error) {
	raw := bytes.Split(text, []byte{'/'})
	if len(raw) != n {
		return nil, fmt.Errorf("%w: the text has %d parts, %d are needed", ErrInvalid, len(raw), n)
	}
	parts := make([]string, n)
	for i, r := range raw {
		s, ok := parsePart(r)
		// Only one spelling of a key is accepted. Otherwise two texts would name one record.
		if !ok || !bytes.Equal(AppendParts(nil, s), r) {
			return nil, fmt.Errorf("%w: part %d of the text is not in canonical percent-encoding", ErrInvalid, i+1)
		}
		parts[i] = s
	}
	return parts, nil
}

func parsePart(r []byte) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(r); i++ {
		if r[i] != '%' {
			b.WriteByte(r[i])
			continue
		}
		if i+2 >= len(r) {
			return "", false
		}
		c, err := hex.DecodeString(string(r[i+1 : i+3]))
		if err != nil {
			return "", false
		}
		b.WriteByte(c[0])
		i += 2
	}
	return b.String(), true
}
