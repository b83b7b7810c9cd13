package storeapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
)

// MaxPart is the maximum length of one part of a key, in bytes. A longer part is refused with
// [ErrInvalidKey] and never truncated: a truncated key would make two payments one. Pass values
// that may be longer, such as a path or a message id, through [KeyPart].
const MaxPart = 512

// Key identifies a call by who makes it, which operation it is for, and which call it is.
//
// Tenant keeps one caller from reading another's answer; it may be empty if there is only one.
// Operation separates the same id of different operations. ID is the client's key, a message id, or
// a digest of business parameters. Operation and ID must not be empty. Each part has at most
// [MaxPart] bytes. Every byte value is allowed, and two different strings are always different
// keys: there is no case folding, no trimming and no Unicode normalisation.
//
// A key may be a secret, since anyone who knows it can read the answer. String and LogValue show
// only the operation. MarshalText returns the whole key.
type Key struct{ Tenant, Operation, ID string }

// String returns the operation alone, so that a key can be printed safely.
func (k Key) String() string { return k.Operation }

// GoString returns the operation alone, so that %#v does not show what String hides.
func (k Key) GoString() string { return fmt.Sprintf("retrysafe.Key{Operation: %q, …}", k.Operation) }

// LogValue returns the operation alone, so that structured logs do not show what String hides.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.Operation) }

// Validate returns an error that wraps [ErrInvalidKey] and names the part that is wrong, or nil.
func (k Key) Validate() error {
	switch {
	case k.Operation == "":
		return fmt.Errorf("%w: the operation is empty; name what the key is for, for example \"charge\"", ErrInvalidKey)
	case k.ID == "":
		return fmt.Errorf("%w: the id is empty; use the client's key, a message id or a digest of the parameters", ErrInvalidKey)
	}
	for _, part := range []struct{ name, s string }{{"tenant", k.Tenant}, {"operation", k.Operation}, {"id", k.ID}} {
		if len(part.s) > MaxPart {
			return tooLong(part.name, part.s)
		}
	}
	return nil
}

func tooLong(name, s string) error {
	return fmt.Errorf("%w: the %s has %d bytes, at most %d are allowed; pass it through retrysafe.KeyPart", ErrInvalidKey, name, len(s), MaxPart)
}

// MarshalText returns the canonical text tenant/operation/id. Every byte except A–Z a–z 0–9 - . _ ~
// is percent-encoded in upper-case hex. A leading ~ is encoded too, unless the part is a digest
// made by [KeyPart]. The text contains the secret: keep it out of logs.
func (k Key) MarshalText() ([]byte, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	return appendText(nil, k.Tenant, k.Operation, k.ID), nil
}

// UnmarshalText parses the text that MarshalText returns, and nothing else: another spelling of the
// same key is an error.
func (k *Key) UnmarshalText(text []byte) error {
	p, err := parseParts(text, 3)
	if err != nil {
		return err
	}
	got := Key{p[0], p[1], p[2]}
	if err := got.Validate(); err != nil {
		return err
	}
	*k = got
	return nil
}

// KeyPart returns s as a part of a key, however long it is: s itself if it has at most [MaxPart]
// bytes, otherwise its digest "~sha256.<hex>". A short s that itself looks like such a digest is
// digested too, so that no caller can name the digest of another's value.
func KeyPart(s string) string {
	if len(s) <= MaxPart && !isDigest(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return digestPrefix + hex.EncodeToString(sum[:])
}

const digestPrefix = "~sha256."

// isDigest reports whether s has the form of a digest made by KeyPart. Such a part is written as it
// is; any other leading ~ is escaped.
func isDigest(s string) bool {
	rest, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(rest) != 2*sha256.Size {
		return false
	}
	return strings.Trim(rest, "0123456789abcdef") == ""
}

// StoreKey is a [Key] as stores see it: with the engine's namespace and layer before it. So a
// gateway, a middleware and a transaction that use the same key on one store never wait for each
// other. It is comparable.
type StoreKey struct {
	Namespace, Layer string
	Key
}

// Validate is like [Key.Validate]. Namespace and layer must not be empty either.
func (k StoreKey) Validate() error {
	if k.Namespace == "" || k.Layer == "" {
		return fmt.Errorf("%w: namespace and layer must not be empty", ErrInvalidKey)
	}
	for _, part := range []struct{ name, s string }{{"namespace", k.Namespace}, {"layer", k.Layer}} {
		if len(part.s) > MaxPart {
			return tooLong(part.name, part.s)
		}
	}
	return k.Key.Validate()
}

// MarshalText returns namespace/layer/tenant/operation/id, encoded as in [Key.MarshalText]. The
// format is version 1 and frozen.
func (k StoreKey) MarshalText() ([]byte, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	return k.AppendText(make([]byte, 0, 128))
}

// AppendText appends the text of a valid key to b. The error is always nil.
func (k StoreKey) AppendText(b []byte) ([]byte, error) {
	return appendText(b, k.Namespace, k.Layer, k.Tenant, k.Operation, k.ID), nil
}

// UnmarshalText parses the text that MarshalText returns, and nothing else.
func (k *StoreKey) UnmarshalText(text []byte) error {
	p, err := parseParts(text, 5)
	if err != nil {
		return err
	}
	got := StoreKey{p[0], p[1], Key{p[2], p[3], p[4]}}
	if err := got.Validate(); err != nil {
		return err
	}
	*k = got
	return nil
}

const upperHex = "0123456789ABCDEF"

// appendText appends parts with slashes between them, percent-encoded.
func appendText(b []byte, parts ...string) []byte {
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

func parseParts(text []byte, n int) ([]string, error) {
	raw := bytes.Split(text, []byte{'/'})
	if len(raw) != n {
		return nil, fmt.Errorf("%w: the text has %d parts, %d are needed", ErrInvalidKey, len(raw), n)
	}
	parts := make([]string, n)
	for i, r := range raw {
		s, ok := parsePart(r)
		// Only one spelling of a key is accepted. Otherwise two texts would name one record.
		if !ok || !bytes.Equal(appendText(nil, s), r) {
			return nil, fmt.Errorf("%w: part %d of the text is not in canonical percent-encoding", ErrInvalidKey, i+1)
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
