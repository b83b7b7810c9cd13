package httpsig

import (
	"context"
	"fmt"
	"slices"
)

// Keys finds the keys of an id, which is what a message claims and nobody has verified yet. Several
// are fine: old and new ones while they are exchanged; a signature by any of them that is valid now
// is accepted. None: the id is unknown. An error says that nobody can tell, and the client is told
// to try again (503). It is called for every request that has a signature, from many goroutines.
type Keys interface {
	Keys(ctx context.Context, keyid string) ([]Key, error)
}

// Keyring is a fixed set of keys by id.
type Keyring map[string][]Key

// Keys implements [Keys].
func (k Keyring) Keys(_ context.Context, keyid string) ([]Key, error) { return k[keyid], nil }

// Validate says what is wrong with the ring: an id that no message can carry, one without a key, a
// zero Key.
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

// KeysFunc is a function as [Keys]: a database, a service of keys. It should keep what it finds for
// a while, since anybody can ask for any id.
type KeysFunc func(ctx context.Context, keyid string) ([]Key, error)

// Keys implements [Keys].
func (f KeysFunc) Keys(ctx context.Context, keyid string) ([]Key, error) { return f(ctx, keyid) }

// maxKeyID and maxNonce are the longest in characters, minNonce the shortest that tells of care.
const (
	maxKeyID = 255
	minNonce = 16
	maxNonce = 255
)

func checkKeyID(id string) error {
	if id == "" || len(id) > maxKeyID || !printable(id) {
		return fmt.Errorf("httpsig: a key id must have 1 to %d characters of printable ASCII", maxKeyID)
	}
	return nil
}

// printable tells whether s is ASCII that a String of RFC 9651 can hold.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7E {
			return false
		}
	}
	return true
}
