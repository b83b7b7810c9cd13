package retrysafe

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Codec turns answers into bytes and back. Its name is kept with each answer: an engine reads
// answers of its own codec, JSON and Raw. Methods may be called concurrently.
type Codec interface {
	Name() string
	Encode(v any) ([]byte, error)
	// Decode reads b into the pointer v. It may keep b.
	Decode(b []byte, v any) error
}

// The codecs of this package.
var (
	// JSON is encoding/json. It is the default.
	JSON Codec = jsonCodec{}
	// Raw keeps []byte and string as they are; other types are an error.
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

// encode makes the answer of a finished call. []byte under Raw, the hot path, goes without the
// interface.
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

// decode reads a kept answer.
func decode[T any](c Codec, a *Answer) (v T, err error) {
	if a.Codec == "raw" {
		if p, ok := any(&v).(*[]byte); ok {
			*p = a.Body
			return v, nil
		}
	}
	return decodeAny[T](c, a)
}

// decodeAny stands apart so that v escapes to the heap only here.
func decodeAny[T any](c Codec, a *Answer) (T, error) {
	var v T
	for _, known := range []Codec{c, JSON, Raw} {
		if known.Name() != a.Codec {
			continue
		}
		if err := known.Decode(a.Body, &v); err != nil {
			// The cause may show the answer: it is left out.
			return v, fmt.Errorf("retrysafe: the stored answer (codec %s) does not fit %T; nothing was run again", a.Codec, v)
		}
		return v, nil
	}
	return v, fmt.Errorf("retrysafe: the stored answer has codec %q, which this engine does not have; nothing was run again", a.Codec)
}

// handled is an answer that is kept as it is.
type handled Answer
