package admin

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// references makes names of records and of pages for URLs. A name of a record has the whole key,
// encrypted, so that a record is found without a search and its key does not stand in browser
// histories and logs. The same key has the same name in all processes of one secret.
//
// The nonce is a keyed digest of the key, as in SIV (RFC 5297): two texts have one nonce only if
// they are the same.
type references struct {
	aead cipher.AEAD
	mac  []byte
}

// newReferences derives its keys from the secret, or makes some for this process without one.
func newReferences(secret []byte) *references {
	if len(secret) == 0 {
		secret = make([]byte, 32)
		rand.Read(secret) // never fails
	}
	derive := func(purpose string, n int) []byte {
		key, err := hkdf.Key(sha256.New, secret, nil, "retrysafe admin "+purpose, n)
		if err != nil {
			panic(err) // the lengths are constants
		}
		return key
	}
	block, err := aes.NewCipher(derive("reference", 32))
	if err != nil {
		panic(err) // the length is a constant
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // the block size is a constant
	}
	return &references{aead: aead, mac: derive("nonce", 32)}
}

// The purposes of a text: a page of a list is no reference of a record.
const (
	purposeRecord = "record"
	purposePage   = "page"
)

// nameRecord returns the name of a record.
func (r *references) nameRecord(k storeapi.StoreKey) (string, error) {
	text, err := k.MarshalText()
	if err != nil {
		return "", err
	}
	return r.sealText(purposeRecord, text), nil
}

// sealText encrypts a text for a purpose. The purpose is a part of the nonce's digest, so that two
// purposes never share a nonce.
func (r *references) sealText(purpose string, text []byte) string {
	m := hmac.New(sha256.New, r.mac)
	m.Write([]byte(purpose + "\x00"))
	m.Write(text)
	nonce := m.Sum(nil)[:r.aead.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(r.aead.Seal(nonce, nonce, text, []byte(purpose)))
}

var errReference = errors.New("this is no reference of a record of this service; list the records again")

// openText returns the text that was sealed for a purpose.
func (r *references) openText(purpose, name string) ([]byte, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil || strings.ContainsAny(name, "\r\n") || len(sealed) < r.aead.NonceSize() {
		// base64 skips line breaks
		return nil, errReference
	}
	n := r.aead.NonceSize()
	text, err := r.aead.Open(nil, sealed[:n], sealed[n:], []byte(purpose))
	if err != nil {
		return nil, errReference
	}
	return text, nil
}

// recordKey returns the key that a name stands for.
func (r *references) recordKey(name string) (k storeapi.StoreKey, err error) {
	text, err := r.openText(purposeRecord, name)
	if err == nil && k.UnmarshalText(text) != nil {
		err = errReference
	}
	return k, err
}

// sealAfter returns the parameter after of the next page. Stores and locks page by names, which may
// be secrets.
func (r *references) sealAfter(after string) string {
	if after == "" {
		return ""
	}
	return r.sealText(purposePage, []byte(after))
}

// openAfter returns what sealAfter has sealed.
func (r *references) openAfter(next string) (string, error) {
	if next == "" {
		return "", nil
	}
	text, err := r.openText(purposePage, next)
	if err != nil {
		return "", badRequest("after is not a next of this server; begin with the first page")
	}
	return string(text), nil
}
