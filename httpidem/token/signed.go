package token

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// A stateless token, version 1. Numbers are big-endian, and the text is base64url without padding:
//
//	offset  size  what
//	0       1     version, 1
//	1       16    random
//	17      8     the end of its first use, microseconds since the Unix epoch
//	25      32    HMAC-SHA-256 of the label, namespace and tenant, each with its length before it, and the bytes above
const (
	signedVersion = 1
	timeAt        = 17
	macAt         = 25
	signedSize    = macAt + sha256.Size
)

var signedText = base64.RawURLEncoding

func (i *Issuer) signToken(tenant string, until time.Time) string {
	b := make([]byte, macAt, signedSize)
	b[0] = signedVersion
	_, _ = rand.Read(b[1:timeAt]) // never fails: it would end the process
	binary.BigEndian.PutUint64(b[timeAt:macAt], uint64(until.UnixMicro()))
	return signedText.EncodeToString(i.appendMAC(b, tenant, b))
}

// appendMAC appends the signature of head to b.
func (i *Issuer) appendMAC(b []byte, tenant string, head []byte) []byte {
	h := hmac.New(sha256.New, i.o.StatelessSecret)
	for _, part := range []string{"retrysafe token", i.engine.Namespace(), tenant} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	h.Write(head)
	return h.Sum(b)
}

// signedUntil returns the time until which the token can first be used, or zero if this issuer did
// not sign it. Another encoding of the same bytes is not valid: it would be another key, and would
// run again.
func (i *Issuer) signedUntil(tenant, token string) time.Time {
	if len(token) != signedText.EncodedLen(signedSize) {
		return time.Time{}
	}
	b, err := signedText.DecodeString(token)
	if err != nil || len(b) != signedSize || b[0] != signedVersion || signedText.EncodeToString(b) != token {
		return time.Time{}
	}
	if !hmac.Equal(i.appendMAC(nil, tenant, b[:macAt]), b[macAt:]) {
		return time.Time{}
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(b[timeAt:macAt]))) //nolint:gosec // reverses the conversion on signing
}
