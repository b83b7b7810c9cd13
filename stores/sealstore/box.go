package sealstore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

// The sizes of a box, in bytes.
const (
	keySize   = 32
	saltSize  = 16
	nonceSize = 12
	tagSize   = 16
	boxSize   = saltSize + nonceSize + tagSize // in addition to the plain text
)

var errDamaged = errors.New("it is damaged, or it was sealed for another record or with another key")

// sealBox appends a box to b: a random salt, a random nonce, the cipher text and its tag.
//
// Each box has an AES-256-GCM key of its own, derived from key and the salt. So the bound of 2^32
// random nonces for one key (NIST SP 800-38D, section 8.3) is that of one box, not that of a
// tenant: two boxes share key and nonce only if 224 random bits are equal.
func sealBox(b []byte, key *[keySize]byte, plain, bound []byte) []byte {
	var salt [saltSize]byte
	_, _ = rand.Read(salt[:]) // never fails
	b = append(b, salt[:]...)
	return boxCipher(key, salt[:]).Seal(b, nil, plain, bound) //nolint:gosec // it chooses its nonce itself
}

// openBox returns the plain text of a box, or errDamaged.
func openBox(box []byte, key *[keySize]byte, bound []byte) ([]byte, error) {
	if len(box) < boxSize {
		return nil, errDamaged
	}
	plain, err := boxCipher(key, box[:saltSize]).Open([]byte{}, nil, box[saltSize:], bound)
	if err != nil {
		return nil, errDamaged
	}
	return plain, nil
}

// boxCipher returns AES-256-GCM, which chooses a random nonce and puts it before the cipher text,
// with the key of one box.
func boxCipher(key *[keySize]byte, salt []byte) cipher.AEAD {
	own, err := hkdf.Key(sha256.New, key[:], salt, "retrysafe seal 1", keySize)
	if err != nil {
		panic(err) // the length is constant
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}
