package retrysafe

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
)

// The versions of fingerprints, the first byte of what is stored. Fingerprints of different
// versions are not compared, so that a new algorithm does not turn the retries in flight into
// mismatches.
const (
	fingerprintGiven   = 1
	fingerprintPayload = 2
	// fingerprintOfRules and above are those of [Call].FingerprintRule.
	fingerprintOfRules = 128
)

// maxFingerprint leaves room for a version byte in the one-byte length of the packed form.
const maxFingerprint = 254

// WithFingerprint gives a digest of the request (an empty one gives none): a repeat of the key with
// another digest is refused with [ErrFingerprintMismatch]. At most 254 bytes.
func WithFingerprint(digest []byte) CallOption {
	return optionFunc(func(c *callOptions) { c.give(digest) })
}

func (c *callOptions) give(digest []byte) {
	if len(digest) == 0 {
		return
	}
	if len(digest) > maxFingerprint {
		c.err = errors.Join(c.err, fmt.Errorf("retrysafe: the fingerprint has %d bytes, at most %d are allowed; hash it", len(digest), maxFingerprint))
		return
	}
	c.fingerprint = append(append(c.space[:0], fingerprintGiven), digest...)
}

// WithPayload makes the fingerprint of the request: SHA-256 of its JSON form (of a []byte or
// string: of its bytes). The form must be the same in each retry: leave out times of sending and
// random values.
func WithPayload(v any) CallOption {
	return optionFunc(func(c *callOptions) {
		fp, err := payloadFingerprint(v)
		c.fingerprint, c.err = fp, errors.Join(c.err, err)
	})
}

func payloadFingerprint(v any) ([]byte, error) {
	var kind string
	var data []byte
	switch v := v.(type) {
	case []byte:
		kind, data = "bytes", v
	case string:
		kind, data = "bytes", []byte(v)
	default:
		var err error
		if data, err = json.Marshal(v); err != nil {
			return nil, fmt.Errorf("retrysafe: WithPayload: the payload has no JSON form (%w); give a digest with WithFingerprint", err)
		}
		kind = "json"
	}
	h := sha256.New()
	h.Write([]byte("retrysafe payload 2 " + kind + "\n"))
	h.Write(data)
	return h.Sum([]byte{fingerprintPayload}), nil
}
