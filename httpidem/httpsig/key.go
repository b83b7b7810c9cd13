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

// minSecret is the least length of a shared secret in bytes: the length of the digest (RFC 2104,
// section 3).
const minSecret = 32

// Key verifies signatures, and also makes them if it is secret. It is for one algorithm; a message
// never chooses the algorithm. The zero Key does nothing. A Key is safe for concurrent use.
// Printing it shows only its algorithm.
type Key struct {
	// NotBefore and NotAfter limit when a signature by this key is accepted, by the verifier's
	// clock; zero: no limit. When you replace a key, let the old and the new one overlap until all
	// sides have the new one.
	NotBefore, NotAfter time.Time
	// Principal is the owner of the key, and the tenant of its requests; empty: the id of the key.
	// Set it if one caller has keys of several ids, so that a retry under a new id still counts as
	// the same caller.
	Principal string

	algorithm Algorithm
	secret    []byte
	ed        ed25519.PublicKey
	ec        *ecdsa.PublicKey
	private   crypto.Signer
}

// SharedKey returns a key of hmac-sha256, which both sides have: at least 32 random bytes. Each
// side can sign for the other.
func SharedKey(secret []byte) (Key, error) {
	if len(secret) < minSecret {
		return Key{}, fmt.Errorf("httpsig: the shared secret has %d bytes; use at least %d random ones", len(secret), minSecret)
	}
	return Key{algorithm: HMACSHA256, secret: slices.Clone(secret)}, nil
}

// PublicKey returns a key that verifies: of ed25519 (ed25519.PublicKey) or ecdsa-p256-sha256
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
		if public.X == nil || public.Y == nil { //nolint:staticcheck // the code below panics without them
			return Key{}, errors.New("httpsig: the public key of ECDSA has a curve and no point")
		}
		if _, err := public.ECDH(); err != nil {
			return Key{}, errors.New("httpsig: the public key of ECDSA is no point of the curve P-256")
		}
		return Key{algorithm: ECDSAP256SHA256, ec: public}, nil
	}
	return Key{}, fmt.Errorf("httpsig: a public key cannot be a %T; use ed25519.PublicKey or *ecdsa.PublicKey on P-256", public)
}

// PrivateKey returns a key that signs and verifies: ed25519.PrivateKey, *ecdsa.PrivateKey on P-256,
// or another crypto.Signer with a public key of these kinds, such as a key in hardware.
func PrivateKey(private crypto.Signer) (Key, error) {
	if private == nil {
		return Key{}, errors.New("httpsig: there is no private key")
	}
	k, err := PublicKey(private.Public())
	k.private = private
	return k, err
}

// Algorithm returns the algorithm of the key; empty for the zero Key.
func (k Key) Algorithm() Algorithm { return k.algorithm }

// CanSign reports whether the key can sign.
func (k Key) CanSign() bool { return k.secret != nil || k.private != nil }

// String returns the algorithm only, so that printing a key does not reveal it.
func (k Key) String() string { return "httpsig.Key(" + string(k.algorithm) + ")" }

// GoString is like String.
func (k Key) GoString() string { return k.String() }

// validAt reports whether signatures by k are accepted at now.
func (k *Key) validAt(now time.Time) bool {
	return (k.NotBefore.IsZero() || !now.Before(k.NotBefore)) && (k.NotAfter.IsZero() || !now.After(k.NotAfter))
}

// sign signs a signature base.
func (k *Key) sign(base []byte) ([]byte, error) {
	switch {
	case k.secret != nil:
		return computeHMAC(k.secret, base), nil
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

// verify reports whether sig is a signature of k over base.
func (k *Key) verify(base, sig []byte) bool {
	switch k.algorithm {
	case HMACSHA256:
		return hmac.Equal(sig, computeHMAC(k.secret, base))
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

func computeHMAC(secret, base []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(base)
	return h.Sum(nil)
}
