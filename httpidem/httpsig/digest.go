package httpsig

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"

	"github.com/dunglas/httpsfv"
)

// contentDigest returns the value of Content-Digest (RFC 9530, section 2) for body.
func contentDigest(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

var (
	errDigestForm  = errors.New("the Content-Digest cannot be read")
	errDigestWeak  = errors.New("the Content-Digest has neither sha-256 nor sha-512")
	errDigestOther = errors.New("the Content-Digest is another body's")
)

// checkDigest compares Content-Digest with the body that was received. All digests of sha-256 and
// sha-512 must match, and there must be at least one. It ignores weaker digests, which prove
// nothing.
func checkDigest(lines []string, body []byte) error {
	d, err := parseDictionary(lines)
	if err != nil {
		return errDigestForm
	}
	strong := false
	for _, name := range d.Names() {
		var want []byte
		switch name {
		case "sha-256":
			sum := sha256.Sum256(body)
			want = sum[:]
		case "sha-512":
			sum := sha512.Sum512(body)
			want = sum[:]
		default:
			continue
		}
		member, _ := d.Get(name)
		item, ok := member.(httpsfv.Item)
		if !ok {
			return errDigestForm
		}
		got, ok := item.Value.([]byte)
		switch {
		case !ok:
			return errDigestForm
		case subtle.ConstantTimeCompare(got, want) != 1:
			return errDigestOther
		}
		strong = true
	}
	if !strong {
		return errDigestWeak
	}
	return nil
}
