package sealstore

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Ring has the master keys: the current one, which wraps data keys, and older ones, which still
// unwrap them. It does not change, and is safe for concurrent use. Printing it shows no key.
type Ring struct {
	current string
	keys    map[string]*[keySize]byte
}

// ringFile is the JSON form of a ring.
type ringFile struct {
	Current string `json:"current"`
	Keys    []struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	} `json:"keys"`
}

// ParseRing parses the text of a key file:
//
//	{"current": "2026-11", "keys": [{"id": "2026-11", "key": "…"}, {"id": "2026-05", "key": "…"}]}
//
// A key is 32 random bytes in base64, such as the output of "openssl rand -base64 32". An id has 1
// to 64 letters, digits, dots, dashes and underscores. It must never be given to another key. The
// text of an error shows no key. A file that was written in part is an error.
func ParseRing(text []byte) (*Ring, error) {
	var f ringFile
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, ringSyntax(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("sealstore: the key file goes on after its end; write one JSON object")
	}
	r := &Ring{current: f.Current, keys: make(map[string]*[keySize]byte, len(f.Keys))}
	for i, k := range f.Keys {
		if err := checkID(k.ID); err != nil {
			return nil, fmt.Errorf("sealstore: key %d of the key file: %w", i+1, err)
		}
		key, err := base64.StdEncoding.Strict().DecodeString(k.Key)
		if err != nil || len(key) != keySize {
			return nil, fmt.Errorf("sealstore: the key %q is not %d bytes in base64; make one with: openssl rand -base64 %d", k.ID, keySize, keySize)
		}
		if r.keys[k.ID] != nil {
			return nil, fmt.Errorf("sealstore: the key file has two keys with the id %q", k.ID)
		}
		r.keys[k.ID] = (*[keySize]byte)(key)
	}
	if r.keys[r.current] == nil {
		return nil, fmt.Errorf("sealstore: current is %q, and the key file has no such key", r.current)
	}
	return r, nil
}

// ringSyntax returns the error for a text that is no ring. The message of the JSON parser can show
// a part of a key.
func ringSyntax(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("sealstore: the key file ends in the middle")
	case errors.As(err, &syntax):
		return fmt.Errorf("sealstore: the key file is no JSON at byte %d", syntax.Offset)
	}
	return errors.New(`sealstore: the key file is not of the form {"current": "ID", "keys": [{"id": "ID", "key": "BASE64"}]}`)
}

func checkID(id string) error {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_"
	if id == "" || len(id) > 64 || strings.Trim(id, allowed) != "" {
		return errors.New("its id is not 1 to 64 letters, digits, dots, dashes and underscores")
	}
	return nil
}

// ReadRing reads and parses a key file.
func ReadRing(path string) (*Ring, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("sealstore: %w", err)
	}
	r, err := ParseRing(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// NewRing returns a ring with one new key, for tests and for processes whose store ends with them.
func NewRing(id string) *Ring {
	if err := checkID(id); err != nil {
		panic("sealstore: NewRing: " + err.Error())
	}
	key := new([keySize]byte)
	_, _ = rand.Read(key[:]) // never fails
	return &Ring{current: id, keys: map[string]*[keySize]byte{id: key}}
}

// Current returns the id of the key that wraps new data keys.
func (r *Ring) Current() string { return r.current }

// String returns the id of the current key and the number of keys, without any key.
func (r *Ring) String() string { return fmt.Sprintf("%d keys, current %s", len(r.keys), r.current) }

// GoString returns the same as String.
func (r *Ring) GoString() string { return r.String() }

// NewKeyFile returns the text of a key file with one new key.
func NewKeyFile(id string) ([]byte, error) {
	if err := checkID(id); err != nil {
		return nil, fmt.Errorf("sealstore: %w", err)
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return fmt.Appendf(nil, "{\n  \"current\": %q,\n  \"keys\": [\n    {\"id\": %q, \"key\": %q}\n  ]\n}\n", id, id, base64.StdEncoding.EncodeToString(key)), nil
}
