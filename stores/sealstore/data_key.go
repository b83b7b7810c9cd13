package sealstore

import (
	"crypto/rand"
	"errors"
	"fmt"
)

// dataKey encrypts the answers of one tenant.
type dataKey struct {
	id  keyID
	key [keySize]byte
}

// keyID is random, so the key that follows a forgotten or lost one never has the same id.
type keyID [16]byte

func newDataKey() *dataKey {
	k := new(dataKey)
	_, _ = rand.Read(k.id[:]) // never fails
	_, _ = rand.Read(k.key[:])
	return k
}

// A stored data key begins with the version of its form and one of these.
const (
	keyVersion   = 1
	keyWrapped   = 1 // then its id, the id of the master key after its length, and a box
	keyForgotten = 2 // then the id of the key that was forgotten
)

// storedKey is a parsed stored data key.
type storedKey struct {
	forgotten bool
	id        keyID
	master    string
	box       []byte
}

// Errors of a data key that another try does not change.
var (
	errNoMaster    = errors.New("its master key is not in the key ring")
	errKeyVersion  = errors.New("the data key has a form that this build does not know")
	errKeyDamaged  = errors.New("the data key is damaged, or another tenant's")
	errKeyIsGone   = errors.New("its data key was forgotten or is lost")
	errNeverSealed = errors.New("it was not sealed")
)

// isPermanent reports whether err says that an answer or a data key cannot be opened, now or later,
// with these master keys. Other errors are those of the keys' store.
func isPermanent(err error) bool {
	for _, known := range []error{errNoMaster, errKeyVersion, errKeyDamaged, errKeyIsGone, errNeverSealed, errDamaged, errVersion} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// parseKey parses a stored data key.
func parseKey(b []byte) (s storedKey, err error) {
	if len(b) < 2+len(s.id) {
		return s, errKeyDamaged
	}
	if b[0] != keyVersion {
		return s, errKeyVersion
	}
	kind, rest := b[1], b[2+copy(s.id[:], b[2:]):]
	switch {
	case kind == keyForgotten && len(rest) == 0:
		s.forgotten = true
		return s, nil
	case kind == keyWrapped && len(rest) > 1:
		n := int(rest[0])
		if rest = rest[1:]; len(rest) != n+boxSize+keySize {
			break
		}
		s.master, s.box = string(rest[:n]), rest[n:]
		if checkID(s.master) == nil {
			return s, nil
		}
	case kind != keyForgotten && kind != keyWrapped:
		return s, errKeyVersion
	}
	return s, errKeyDamaged
}

// wrap returns the stored form of a tenant's data key, wrapped by the current master key.
func (r *Ring) wrap(t Tenant, k *dataKey) []byte {
	b := append([]byte{keyVersion, keyWrapped}, k.id[:]...)
	b = append(append(b, byte(len(r.current))), r.current...) //nolint:gosec // an id has at most 64 bytes
	return sealBox(b, r.keys[r.current], k.key[:], keyAssociatedData(t, k.id, r.current))
}

// unwrap returns the data key that a tenant has stored.
func (r *Ring) unwrap(t Tenant, s *storedKey) (*dataKey, error) {
	master := r.keys[s.master]
	if master == nil {
		return nil, fmt.Errorf("%w: %s", errNoMaster, s.master)
	}
	plain, err := openBox(s.box, master, keyAssociatedData(t, s.id, s.master))
	if err != nil || len(plain) != keySize {
		return nil, errKeyDamaged
	}
	return &dataKey{id: s.id, key: [keySize]byte(plain)}, nil
}

// forgottenKey returns what is stored in the place of a forgotten data key.
func forgottenKey(id keyID) []byte { return append([]byte{keyVersion, keyForgotten}, id[:]...) }

// keyAssociatedData returns the associated data of a wrapped data key: it is good for one tenant
// only.
func keyAssociatedData(t Tenant, id keyID, master string) []byte {
	b, _ := t.recordKey().AppendText([]byte("retrysafe data key 1\n")) // never fails
	b = append(append(b, '\n'), id[:]...)
	return append(b, master...)
}
