package retrysafe

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Versions of fingerprints: the first byte of what is stored. Fingerprints of different versions
// are not compared, so a new algorithm does not turn retries in flight into mismatches.
const (
	fingerprintGiven   = 1
	fingerprintPayload = 2
	// fingerprintOfRules and the values above it stand for [Call].FingerprintRule.
	fingerprintOfRules = 128
)

// maxFingerprint leaves room for a version byte in the one-byte length of the packed form.
const maxFingerprint = 254

// WithFingerprint sets the digest of the request, of at most 254 bytes. A duplicate with another
// digest gets [ErrFingerprintMismatch]. An empty digest sets none.
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

// WithPayload sets the fingerprint to the SHA-256 of the request in JSON; of a []byte or string, to
// that of its bytes. The JSON must be the same in each retry: leave out send times and random
// values. What JSON leaves out is not compared. A text that is no UTF-8 is an error of the call.
func WithPayload(v any) CallOption {
	return optionFunc(func(c *callOptions) {
		fp, err := payloadFingerprint(v)
		c.fingerprint, c.err = fp, errors.Join(c.err, err)
	})
}

// errPayloadText: two payloads whose texts differ in such bytes alone would be one.
var errPayloadText = errors.New("retrysafe: WithPayload: a text of the payload is no UTF-8, and JSON cannot tell such texts apart; check the input, or give a digest with WithFingerprint")

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
		if hasReplacedText(data) && jsonTypeOf(reflect.TypeOf(v)).textsAreOurs() {
			return nil, errPayloadText
		}
		kind = "json"
	}
	h := sha256.New()
	h.Write([]byte("retrysafe payload 2 " + kind + "\n"))
	h.Write(data)
	return h.Sum([]byte{fingerprintPayload}), nil
}
