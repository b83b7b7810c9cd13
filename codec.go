package retrysafe

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Codec encodes answers as bytes and decodes them. Its name is stored with each answer. An engine
// decodes answers of its own codec, of [JSON] and of [Raw]. Methods may be called concurrently.
type Codec interface {
	Name() string
	Encode(v any) ([]byte, error)
	// Decode decodes b into the pointer v. It may keep b.
	Decode(b []byte, v any) error
}

// The codecs of this package.
var (
	// JSON uses encoding/json. It is the default.
	JSON Codec = jsonCodec{}
	// Raw stores a []byte or string as it is. Other types are an error.
	Raw Codec = rawCodec{}
)

type jsonCodec struct{}

func (jsonCodec) Name() string                 { return "json" }
func (jsonCodec) Encode(v any) ([]byte, error) { return json.Marshal(v) }
func (jsonCodec) Decode(b []byte, v any) error { return json.Unmarshal(b, v) }

type rawCodec struct{}

var errRawType = errors.New("codec raw takes []byte and string only; use another Options.Codec")

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, errRawType
}

func (rawCodec) Decode(b []byte, v any) error {
	switch p := v.(type) {
	case *[]byte:
		*p = b
	case *string:
		*p = string(b)
	default:
		return errRawType
	}
	return nil
}

// encode returns the answer of a call that has succeeded. A []byte under Raw, the hot path,
// bypasses the Codec interface.
func encode[T any](c Codec, v *T) (Answer, error) {
	if raw, ok := any(v).(*[]byte); ok && c == Raw {
		return Answer{Codec: "raw", Body: *raw, Kept: true}, nil
	}
	if h, ok := any(v).(*handled); ok {
		return Answer(*h), nil
	}
	body, err := c.Encode(*v)
	if err != nil {
		return Answer{Codec: c.Name()}, fmt.Errorf("retrysafe: the work is done, but its answer cannot be kept: codec %s: %w", c.Name(), err)
	}
	return Answer{Codec: c.Name(), Body: body, Kept: true}, nil
}

// decode decodes a stored answer.
func decode[T any](c Codec, a *Answer) (v T, err error) {
	if a.Codec == "raw" {
		if p, ok := any(&v).(*[]byte); ok {
			*p = a.Body
			return v, nil
		}
	}
	return decodeAny[T](c, a)
}

// decodeAny is a function of its own so that v escapes to the heap only here.
func decodeAny[T any](c Codec, a *Answer) (T, error) {
	var v T
	for _, known := range []Codec{c, JSON, Raw} {
		if known.Name() != a.Codec {
			continue
		}
		if err := known.Decode(a.Body, &v); err != nil {
			// The codec's error may show the answer, so it is left out.
			return v, fmt.Errorf("retrysafe: the stored answer (codec %s) does not fit %T; nothing was run again", a.Codec, v)
		}
		return v, nil
	}
	return v, fmt.Errorf("retrysafe: the stored answer has codec %q, which this engine does not have; nothing was run again", a.Codec)
}

// handled is an answer that is stored as it is.
type handled Answer
