package httpsig

import (
	"bufio"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ReadKeyring reads the keys that a verifier accepts, one per line, with words separated by spaces.
// It skips empty lines and lines that begin with #:
//
//	shop hmac-sha256 <base64 of the secret> not-after=2027-01-01T00:00:00Z
//	shop ed25519 <base64 of the public key> not-before=2026-12-01T00:00:00Z principal=shop-7
//
// A public key is the base64 body of a PEM file (PKIX), in one line. Several lines with one id are
// several keys of that id. Times are in the format of RFC 3339. Errors name the line and do not
// show its content.
func ReadKeyring(r io.Reader) (Keyring, error) {
	ring, lines := Keyring{}, bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		key, err := readKey(words)
		if err != nil {
			return nil, fmt.Errorf("httpsig: line %d of the keys: %w", n, err)
		}
		ring[words[0]] = append(ring[words[0]], key)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("httpsig: the keys cannot be read: %w", err)
	}
	return ring, ring.Validate()
}

var (
	errWords    = errors.New("write an id, an algorithm and a key, with spaces between them")
	errBase64   = errors.New("the key is not in base64, or not in one line")
	errPKIX     = errors.New("the public key is not in the form of PKIX; openssl pkey -pubout writes it")
	errOtherKey = errors.New("the key is of another algorithm than the line says; use hmac-sha256, ed25519 or ecdsa-p256-sha256")
	errSetting  = errors.New("after the key there may be not-before=, not-after= (2027-01-01T00:00:00Z) and principal=, each once")
)

func readKey(words []string) (Key, error) {
	if len(words) < 3 {
		return Key{}, errWords
	}
	raw, err := base64.StdEncoding.DecodeString(words[2])
	if err != nil {
		return Key{}, errBase64
	}
	var key Key
	if Algorithm(words[1]) == HMACSHA256 {
		key, err = SharedKey(raw)
	} else {
		key, err = readPublicKey(raw)
	}
	switch {
	case err != nil:
		return Key{}, err
	case key.algorithm != Algorithm(words[1]):
		return Key{}, errOtherKey
	}
	for _, word := range words[3:] {
		if !key.setOption(word) {
			return Key{}, errSetting
		}
	}
	return key, nil
}

func readPublicKey(raw []byte) (Key, error) {
	public, err := x509.ParsePKIXPublicKey(raw)
	if err != nil {
		return Key{}, errPKIX
	}
	return PublicKey(public)
}

// setOption applies one name=value. It returns false if word is not one, or if it is the second of
// its kind.
func (k *Key) setOption(word string) bool {
	name, value, _ := strings.Cut(word, "=")
	var at *time.Time
	switch name {
	case "principal":
		if value == "" || k.Principal != "" {
			return false
		}
		k.Principal = value
		return true
	case "not-before":
		at = &k.NotBefore
	case "not-after":
		at = &k.NotAfter
	default:
		return false
	}
	if !at.IsZero() {
		return false
	}
	var err error
	*at, err = time.Parse(time.RFC3339, value)
	return err == nil && !at.IsZero()
}
