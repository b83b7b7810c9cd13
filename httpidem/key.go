package httpidem

import (
	"errors"
	"fmt"
	"strings"
)

// maxKey is the longest key in octets.
const maxKey = 255

// ParseKey parses the field lines of an Idempotency-Key. A value that begins with a double quote
// must be a whole String of RFC 8941 (section 3.3.3); its parameters are ignored. Any other value
// is bare: 0x21 to 0x7E without `" , ; \`. The parsed string is the key, so "abc" and abc are the
// same. A key has 1 to 255 octets. Two field lines, a list and everything else are errors, which
// never show the value.
func ParseKey(lines []string) (string, error) {
	if len(lines) != 1 {
		return "", errors.New("the field stands in the request more than once; send one key")
	}
	v := lines[0]
	var key string
	switch {
	case v == "":
		return "", errors.New("the value is empty; send a random key, for example a UUID")
	case v[0] == '"':
		inside, rest, ok := cutString(v)
		if !ok {
			return "", errors.New("the value begins with a quote and is no String of RFC 8941: it needs a closing quote, printable ASCII, and no escapes but \\\" and \\\\")
		}
		if !parameters(rest) {
			return "", errors.New("something other than parameters follows the closing quote; a list of keys is not allowed")
		}
		key = inside
	default:
		for i := range len(v) {
			if !bare(v[i]) {
				return "", errors.New("the value has a character that a bare key may not have (only 0x21 to 0x7E without \" , ; \\); quote it")
			}
		}
		key = v
	}
	if len(key) == 0 || len(key) > maxKey {
		return "", errors.New("the key must have 1 to 255 octets")
	}
	return key, nil
}

// FormatKey returns key as the value of an Idempotency-Key: bare if [ParseKey] accepts that, else
// as a String of RFC 8941, section 4.1.6. ParseKey returns the same key. A key that has no such
// form is an error, which never shows the key.
func FormatKey(key string) (string, error) {
	switch {
	case key == "":
		return "", errors.New("it is empty; use a random text, for example a UUID")
	case len(key) > maxKey:
		return "", fmt.Errorf("it has %d octets, at most %d are allowed; use a digest of it", len(key), maxKey)
	}
	quote := false
	for i := range len(key) {
		c := key[i]
		if c < 0x20 || c > 0x7E {
			return "", errors.New("it has a character that is not printable ASCII; use a digest of it, in hex")
		}
		quote = quote || !bare(c)
	}
	if !quote {
		return key, nil
	}
	b := append(make([]byte, 0, len(key)+8), '"')
	for i := range len(key) {
		if key[i] == '"' || key[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, key[i])
	}
	return string(append(b, '"')), nil
}

// bare reports whether a key may have c without quotes.
func bare(c byte) bool {
	return c >= 0x21 && c <= 0x7E && c != '"' && c != ',' && c != ';' && c != '\\'
}

// cutString parses an sf-string at the start of v.
func cutString(v string) (s, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			return b.String(), v[i+1:], true
		case c == '\\':
			i++
			if i == len(v) || v[i] != '"' && v[i] != '\\' {
				return "", "", false
			}
			b.WriteByte(v[i])
		case c < 0x20 || c > 0x7E:
			return "", "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// parameters reports whether v consists of parameters of RFC 8941, section 3.1.2, alone.
func parameters(v string) bool {
	for v != "" {
		if v[0] != ';' {
			return false
		}
		v = strings.TrimLeft(v[1:], " ")
		n := span(v, func(c byte, first bool) bool {
			return c >= 'a' && c <= 'z' || c == '*' || !first && (digit(c) || c == '_' || c == '-' || c == '.')
		})
		if n == 0 {
			return false
		}
		v = v[n:]
		if v == "" || v[0] != '=' {
			continue
		}
		var ok bool
		if v, ok = cutItem(v[1:]); !ok {
			return false
		}
	}
	return true
}

// cutItem cuts a bare item off the start of v. Only its end matters, not its value.
func cutItem(v string) (rest string, ok bool) {
	if v == "" {
		return "", false
	}
	switch c := v[0]; {
	case c == '"':
		_, rest, ok = cutString(v)
		return rest, ok
	case c == ':':
		end := strings.IndexByte(v[1:], ':')
		if end < 0 {
			return "", false
		}
		inside := v[1 : end+1]
		n := span(inside, func(c byte, _ bool) bool { return alpha(c) || digit(c) || c == '+' || c == '/' || c == '=' })
		return v[end+2:], n == len(inside)
	case c == '?':
		if len(v) < 2 || v[1] != '0' && v[1] != '1' {
			return "", false
		}
		return v[2:], true
	case c == '-' || digit(c):
		n := span(v, func(c byte, first bool) bool { return digit(c) || first && c == '-' || !first && c == '.' })
		return v[n:], digit(v[n-1])
	case alpha(c) || c == '*':
		n := span(v, func(c byte, _ bool) bool {
			return alpha(c) || digit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
		})
		return v[n:], true
	}
	return "", false
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
func alpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// span counts the leading bytes that fit.
func span(v string, fits func(c byte, first bool) bool) int {
	for i := range len(v) {
		if !fits(v[i], i == 0) {
			return i
		}
	}
	return len(v)
}
