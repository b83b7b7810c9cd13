package mqidem

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// IDFunc returns the id that identifies a message and its duplicates. An empty id means that the
// message has none; see [Options].MissingID. If it returns an error, the message becomes a dead
// letter as [DeadPoison].
type IDFunc func(*Message) (string, error)

// FromHeader returns an IDFunc that reads the id from a header.
func FromHeader(name string) IDFunc {
	return func(m *Message) (string, error) { return m.Header(name), nil }
}

// FromBody returns an IDFunc that reads the id from a JSON body, by a JSON Pointer (RFC 6901) such
// as "/order/id". The pointer must name a string or a whole number below 2^53. Any other number is
// an error, and so is a name on the path that occurs twice, since two programs could read them
// differently. FromBody panics if the text is not a JSON Pointer.
func FromBody(pointer string) IDFunc {
	if pointer == "" || pointer[0] != '/' {
		panic(fmt.Sprintf("mqidem: %q is no JSON Pointer to a part of a body; write \"/\" before each name, for example \"/order/id\"", pointer))
	}
	var path []string
	for _, part := range strings.Split(pointer[1:], "/") {
		path = append(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
	}
	return func(m *Message) (string, error) { return findInJSON(m.Body, path) }
}

// BodyDigest returns the SHA-256 of the body as the id. It is for producers that set no id and send
// the same bytes again. Two orders with the same content are then one order.
func BodyDigest(m *Message) (string, error) {
	sum := sha256.Sum256(m.Body)
	return "sha256." + hex.EncodeToString(sum[:]), nil
}

// errBody shows nothing of the body.
var errBody = errors.New("mqidem: the body is not JSON, so that it has no id for Options.ID")

// findInJSON returns the value at path in a JSON text. A missing part gives an empty id.
func findInJSON(body []byte, path []string) (string, error) {
	var raw json.RawMessage
	if json.Unmarshal(body, &raw) != nil {
		return "", errBody
	}
	raw = bytes.TrimSpace(raw)
	for _, name := range path {
		var err error
		if raw, err = jsonMember(raw, name); raw == nil || err != nil {
			return "", err
		}
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return "", errBody
	}
	switch v := value.(type) {
	case string:
		return v, nil
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil && n < 1<<53 && n > -1<<53 && strconv.FormatInt(n, 10) == v.String() {
			return v.String(), nil
		}
	case nil:
		return "", nil
	}
	return "", errors.New("mqidem: the id in the body is neither a string nor a whole number below 2^53; send it as a string")
}

// jsonMember returns one element of an object or an array, or nil if there is none.
func jsonMember(raw json.RawMessage, name string) (json.RawMessage, error) {
	if raw[0] == '[' {
		var all []json.RawMessage
		if json.Unmarshal(raw, &all) != nil {
			return nil, errBody
		}
		for i, one := range all {
			if strconv.Itoa(i) == name {
				return one, nil
			}
		}
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, errBody
	}
	var found json.RawMessage
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, errBody
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errBody
		}
		if key == name {
			if found != nil {
				return nil, errors.New("mqidem: the body has a member twice on the path to the id; send each member once")
			}
			found = value
		}
	}
	return found, nil
}
