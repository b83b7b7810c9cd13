package httpsig

import (
	"context"
	"fmt"
	"slices"
)

// Keys returns the keys of an id. The id is what a message claims; it has not been verified. There
// may be several keys, for example old and new ones during a rotation: a signature by any key that
// is valid now is accepted. No keys: the id is unknown. An error means that the lookup failed, and
// the client is asked to retry (503). It is called for every request that has a signature, and must
// be safe for concurrent use.
type Keys interface {
	Keys(ctx context.Context, keyid string) ([]Key, error)
}

// Keyring is a fixed set of keys by id.
type Keyring map[string][]Key

// Keys implements [Keys].
func (k Keyring) Keys(_ context.Context, keyid string) ([]Key, error) { return k[keyid], nil }

// Validate reports what is wrong with the ring: an id that no message can carry, an id without a
// key, or a zero Key.
func (k Keyring) Validate() error {
	for id, keys := range k {
		if err := checkKeyID(id); err != nil {
			return err
		}
		if len(keys) == 0 || slices.ContainsFunc(keys, func(k Key) bool { return k.algorithm == "" }) {
			return fmt.Errorf("httpsig: the key id %q has no key, or a zero Key; make keys with SharedKey, PublicKey or PrivateKey", id)
		}
	}
	return nil
}

// KeysFunc adapts a function to [Keys], for example a query of a database or of a key service. It
// should cache its results for a while, since anyone can ask for any id.
type KeysFunc func(ctx context.Context, keyid string) ([]Key, error)

// Keys implements [Keys].
func (f KeysFunc) Keys(ctx context.Context, keyid string) ([]Key, error) { return f(ctx, keyid) }

// maxKeyID and maxNonce are the greatest lengths in characters. minNonce is the least length of a
// nonce: a shorter one is hardly random enough.
const (
	maxKeyID = 255
	minNonce = 16
	maxNonce = 255
)

func checkKeyID(id string) error {
	if id == "" || len(id) > maxKeyID || !isPrintable(id) {
		return fmt.Errorf("httpsig: a key id must have 1 to %d characters of printable ASCII", maxKeyID)
	}
	return nil
}

// isPrintable reports whether s is ASCII that a String of RFC 9651 can hold.
func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7E {
			return false
		}
	}
	return true
}
