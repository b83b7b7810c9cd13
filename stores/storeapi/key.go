package storeapi

import (
	"cmp"
	"fmt"
	"log/slog"

	"github.com/retrysafe/retrysafe/internal/keytext"
)

// MaxPart is the most bytes of one part of a key. A longer part is refused with [ErrInvalidKey] and
// never truncated: a truncated key would make two payments one.
const MaxPart = keytext.MaxPart

// Key identifies a call by who makes it, which operation it is for, and which call it is. Tenant
// may be empty. Every byte value is allowed. Two different strings are different keys: there is no
// case folding, no trimming and no Unicode normalisation.
//
// A key may be a secret, since anyone who knows it can read the answer.
type Key struct{ Tenant, Operation, ID string }

// String returns the operation alone, so that a key can be printed safely.
func (k Key) String() string { return k.Operation }

// GoString returns the operation alone.
func (k Key) GoString() string { return fmt.Sprintf("retrysafe.Key{Operation: %q, …}", k.Operation) }

// LogValue returns the operation alone.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.Operation) }

// Validate returns an error that wraps [ErrInvalidKey] and names the part that is wrong, or nil.
func (k Key) Validate() error {
	switch {
	case k.Operation == "":
		return fmt.Errorf("%w: the operation is empty; name what the key is for, for example \"charge\"", ErrInvalidKey)
	case k.ID == "":
		return fmt.Errorf("%w: the id is empty; use the client's key, a message id or a digest of the parameters", ErrInvalidKey)
	}
	return cmp.Or(keytext.CheckLength("tenant", k.Tenant), keytext.CheckLength("operation", k.Operation), keytext.CheckLength("id", k.ID))
}

// MarshalText returns the canonical text tenant/operation/id of docs/formats.md, percent-encoded.
// It contains the secret: keep it out of logs.
func (k Key) MarshalText() ([]byte, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	return keytext.AppendParts(nil, k.Tenant, k.Operation, k.ID), nil
}

// UnmarshalText parses the text that MarshalText returns, and nothing else.
func (k *Key) UnmarshalText(text []byte) error {
	p, err := keytext.ParseParts(text, 3)
	if err != nil {
		return err
	}
	got := Key{p[0], p[1], p[2]}
	if err = got.Validate(); err == nil {
		*k = got
	}
	return err
}

// StoreKey is a [Key] as stores see it: with the engine's namespace and layer before it. It is
// comparable.
type StoreKey struct {
	Namespace, Layer string
	Key
}

// Validate is like [Key.Validate]. Namespace and layer must not be empty either.
func (k StoreKey) Validate() error {
	if k.Namespace == "" || k.Layer == "" {
		return fmt.Errorf("%w: namespace and layer must not be empty", ErrInvalidKey)
	}
	return cmp.Or(keytext.CheckLength("namespace", k.Namespace), keytext.CheckLength("layer", k.Layer), k.Key.Validate())
}

// MarshalText returns namespace/layer/tenant/operation/id, encoded as in [Key.MarshalText].
func (k StoreKey) MarshalText() ([]byte, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	return k.AppendText(make([]byte, 0, 128))
}

// AppendText appends the text of a valid key to b. The error is always nil.
func (k StoreKey) AppendText(b []byte) ([]byte, error) {
	return keytext.AppendParts(b, k.Namespace, k.Layer, k.Tenant, k.Operation, k.ID), nil
}

// UnmarshalText is like [Key.UnmarshalText].
func (k *StoreKey) UnmarshalText(text []byte) error {
	p, err := keytext.ParseParts(text, 5)
	if err != nil {
		return err
	}
	got := StoreKey{p[0], p[1], Key{p[2], p[3], p[4]}}
	if err = got.Validate(); err == nil {
		*k = got
	}
	return err
}
