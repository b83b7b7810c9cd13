package httpsig

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Algorithm is the name of an algorithm in the registry of RFC 9421, section 6.2.
type Algorithm string

// The algorithms of this package (RFC 9421, section 3.3).
const (
	HMACSHA256      Algorithm = "hmac-sha256"
	ECDSAP256SHA256 Algorithm = "ecdsa-p256-sha256"
	Ed25519         Algorithm = "ed25519"
)

// minSecret is the least length of a shared secret in bytes: that of the digest (RFC 2104, section
// 3).
const minSecret = 32

// Key verifies signatures, and makes them if it is secret. It belongs to one algorithm: what a
// message says of its algorithm never chooses one. The zero Key does nothing. A Key is safe for
// concurrent use, and prints as its algorithm alone.
type Key struct {
	// NotBefore and NotAfter bound when a signature by this key is accepted, by the verifier's
	// clock; zero: no bound. Keys that follow each other overlap by as long as it takes to give all
	// sides the new one.
	NotBefore, NotAfter time.Time
	// Principal is whose key it is, and the tenant of its requests; empty: the id of the key. Set
	// it where one caller has keys of several ids, so that a retry under a new one is still the
	// same caller's.
	Principal string

	algorithm Algorithm
	secret    []byte
	ed        ed25519.PublicKey
	ec        *ecdsa.PublicKey
	private   crypto.Signer
}

// SharedKey is a key of hmac-sha256, which both sides have: at least 32 random bytes. Each of them
// can sign for the other.
func SharedKey(secret []byte) (Key, error) {
	if len(secret) < minSecret {
		return Key{}, fmt.Errorf("httpsig: the shared secret has %d bytes; use at least %d random ones", len(secret), minSecret)
	}
	return Key{algorithm: HMACSHA256, secret: slices.Clone(secret)}, nil
}

// PublicKey is a key that verifies: of ed25519 (ed25519.PublicKey) or ecdsa-p256-sha256
// (*ecdsa.PublicKey on P-256).
func PublicKey(public crypto.PublicKey) (Key, error) {
	switch public := public.(type) {
	case ed25519.PublicKey:
		if len(public) != ed25519.PublicKeySize {
			return Key{}, fmt.Errorf("httpsig: the public key of Ed25519 has %d bytes, not %d", len(public), ed25519.PublicKeySize)
		}
		return Key{algorithm: Ed25519, ed: slices.Clone(public)}, nil
	case *ecdsa.PublicKey:
		if public == nil || public.Curve != elliptic.P256() {
			return Key{}, errors.New("httpsig: the public key of ECDSA is not on the curve P-256; make one with ecdsa.GenerateKey(elliptic.P256(), …)")
		}
		if public.X == nil || public.Y == nil { //nolint:staticcheck // what follows panics without them
			return Key{}, errors.New("httpsig: the public key of ECDSA has a curve and no point")
		}
		if _, err := public.ECDH(); err != nil {
			return Key{}, errors.New("httpsig: the public key of ECDSA is no point of the curve P-256")
		}
		return Key{algorithm: ECDSAP256SHA256, ec: public}, nil
	}
	return Key{}, fmt.Errorf("httpsig: a public key cannot be a %T; use ed25519.PublicKey or *ecdsa.PublicKey on P-256", public)
}

// PrivateKey is a key that signs and verifies: ed25519.PrivateKey, *ecdsa.PrivateKey on P-256, or
// another crypto.Signer whose public key is one of the two, such as a key in hardware.
func PrivateKey(private crypto.Signer) (Key, error) {
	if private == nil {
		return Key{}, errors.New("httpsig: there is no private key")
	}
	k, err := PublicKey(private.Public())
	k.private = private
	return k, err
}

// Algorithm is that of the key; empty for the zero Key.
func (k Key) Algorithm() Algorithm { return k.algorithm }

// CanSign tells whether the key is secret.
func (k Key) CanSign() bool { return k.secret != nil || k.private != nil }

// String is the algorithm, so that a key that is printed gives nothing away.
func (k Key) String() string { return "httpsig.Key(" + string(k.algorithm) + ")" }

// GoString is like String.
func (k Key) GoString() string { return k.String() }

// validAt tells whether signatures by k are accepted at now.
func (k *Key) validAt(now time.Time) bool {
	return (k.NotBefore.IsZero() || !now.Before(k.NotBefore)) && (k.NotAfter.IsZero() || !now.After(k.NotAfter))
}

// sign signs a signature base.
func (k *Key) sign(base []byte) ([]byte, error) {
	switch {
	case k.secret != nil:
		return mac(k.secret, base), nil
	case k.private == nil:
		return nil, errors.New("httpsig: this key only verifies; sign with a SharedKey or a PrivateKey")
	case k.algorithm == Ed25519:
		return k.private.Sign(rand.Reader, base, crypto.Hash(0))
	}
	sum := sha256.Sum256(base)
	der, err := k.private.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var point struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(der, &point); err != nil || len(rest) > 0 || point.R.Sign() <= 0 || point.S.Sign() <= 0 ||
		point.R.BitLen() > 256 || point.S.BitLen() > 256 {
		return nil, errors.New("httpsig: the private key made something that is no signature of ECDSA on P-256")
	}
	sig := make([]byte, 64)
	point.R.FillBytes(sig[:32])
	point.S.FillBytes(sig[32:])
	return sig, nil
}

// verify tells whether sig is one of k over base.
func (k *Key) verify(base, sig []byte) bool {
	switch k.algorithm {
	case HMACSHA256:
		return hmac.Equal(sig, mac(k.secret, base))
	case Ed25519:
		return ed25519.Verify(k.ed, base, sig)
	case ECDSAP256SHA256:
		if len(sig) != 64 { // r and s, not DER: RFC 9421, section 3.3.4
			return false
		}
		sum := sha256.Sum256(base)
		return ecdsa.Verify(k.ec, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
	}
	return false
}

func mac(secret, base []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(base)
	return h.Sum(nil)
}
