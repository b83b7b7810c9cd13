package retrysafe

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
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
// values. What JSON leaves out is not compared. A text that is no UTF-8 is an error of the call. A
// type with MarshalJSON has to see to its texts itself.
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
		if bytes.Contains(data, []byte(`\ufffd`)) && hasBrokenText(reflect.ValueOf(v)) {
			return nil, errPayloadText
		}
		kind = "json"
	}
	h := sha256.New()
	h.Write([]byte("retrysafe payload 2 " + kind + "\n"))
	h.Write(data)
	return h.Sum([]byte{fingerprintPayload}), nil
}

// hasBrokenText reports whether encoding/json writes a text of v that is no UTF-8. It does not know
// those that a MarshalJSON writes. The value has a JSON form, so it is no cycle.
func hasBrokenText(v reflect.Value) bool {
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return false
	}
	if method := methodOf[json.Marshaler](v); method.IsValid() {
		return false
	}
	if method := methodOf[encoding.TextMarshaler](v); method.IsValid() {
		return isBrokenText(method)
	}
	switch v.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return hasBrokenText(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false
		}
		for i := range v.Len() {
			if hasBrokenText(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if isBrokenKey(entries.Key()) || hasBrokenText(entries.Value()) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			written := (field.IsExported() || field.Anonymous) && field.Tag.Get("json") != "-"
			if written && hasBrokenText(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

// isBrokenKey is hasBrokenText for the key of a map, which is written as it is if it is a string.
func isBrokenKey(key reflect.Value) bool {
	if key.Kind() == reflect.String {
		return !utf8.ValidString(key.String())
	}
	method := methodOf[encoding.TextMarshaler](key)
	return method.IsValid() && isBrokenText(method)
}

// methodOf returns v or its address as a value with the methods of M, as far as encoding/json would
// call them.
func methodOf[M any](v reflect.Value) (with reflect.Value) {
	methods := reflect.TypeFor[M]()
	switch {
	case v.Kind() == reflect.Interface: // what is in it decides
	case v.Type().Implements(methods):
		return v
	case v.CanAddr() && reflect.PointerTo(v.Type()).Implements(methods):
		return v.Addr()
	}
	return with
}

// isBrokenText reports whether MarshalText returns a text that is no UTF-8.
func isBrokenText(with reflect.Value) bool {
	if !with.CanInterface() {
		return false
	}
	text, err := with.Interface().(encoding.TextMarshaler).MarshalText() //nolint:forcetypeassert // it has the method
	return err == nil && !utf8.Valid(text)
}
