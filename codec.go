package retrysafe

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
)

// Codec encodes answers as bytes and decodes them. Its name is stored with each answer. An engine
// decodes answers of its own codec, of [JSON] and of [Raw]. Methods may be called concurrently.
//
// The first caller gets what duplicates get: the engine decodes an answer once when it is encoded.
// A codec that is an [ExactCodec] can spare that.
type Codec interface {
	Name() string
	Encode(v any) ([]byte, error)
	// Decode decodes b into the pointer v. It may keep b.
	Decode(b []byte, v any) error
}

// ExactCodec is a [Codec] that knows which types it can decode.
type ExactCodec interface {
	Codec
	// Accepts returns an error if no value of type t can be encoded and decoded. The call is then
	// refused before its work runs.
	Accepts(t reflect.Type) error
	// Exact reports whether b, which Encode has made of a value of type t, decodes to that same
	// value. The engine then does not decode it for the first caller.
	Exact(t reflect.Type, b []byte) bool
}

// The codecs of this package.
var (
	// JSON uses encoding/json. It is the default. What JSON does not have is lost for the first
	// caller too: unexported fields, fields tagged "-", the monotonic clock of a time, and bytes of
	// a string that are no UTF-8. In an interface, a struct becomes a map, and a number a float64,
	// or a json.Number if a float64 has not its digits. An answer of an interface type with
	// methods, and one that is a protocol buffer, is refused before the work runs.
	JSON Codec = jsonCodec{}
	// Raw stores a []byte or string as it is, and nothing for [Run]. Other types are refused before
	// the work runs.
	Raw Codec = rawCodec{}
)

type rawCodec struct{}

var errRawType = errors.New("codec raw takes []byte and string only; use another Options.Codec")

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	case struct{}:
		return nil, nil
	}
	return nil, errRawType
}

func (rawCodec) Decode(b []byte, v any) error {
	switch p := v.(type) {
	case *[]byte:
		*p = b
	case *string:
		*p = string(b)
	case *struct{}:
	default:
		return errRawType
	}
	return nil
}

func (rawCodec) Accepts(t reflect.Type) error {
	switch t {
	case reflect.TypeFor[[]byte](), reflect.TypeFor[string](), reflect.TypeFor[struct{}]():
		return nil
	}
	return errRawType
}

func (rawCodec) Exact(reflect.Type, []byte) bool { return true }

// accepts returns an error if the codec can never decode a value of type T.
func accepts[T any](c Codec) error {
	if _, ok := any((*T)(nil)).(*handled); ok {
		return nil
	}
	if exact, ok := c.(ExactCodec); ok {
		return exact.Accepts(reflect.TypeFor[T]())
	}
	return nil
}

// encodeFor returns the answer of a call that has succeeded. If duplicates will decode it, *v is
// set to what they get.
func encodeFor[T any](p *Policy, c Codec, v *T) (Answer, error) {
	if replays(p) {
		return encodeShared(c, v)
	}
	return encode(c, v)
}

// replays reports whether duplicates decode the answer of finished work.
func replays(p *Policy) bool { return p.Duplicate != Succeed && p.Duplicate != Reject }

// encodeShared is encode, and sets *v to what others will decode. If that is nothing, the answer is
// not kept, and *v stays.
func encodeShared[T any](c Codec, v *T) (Answer, error) {
	answer, err := encode(c, v)
	if err != nil || !answer.Kept {
		return answer, err
	}
	if err := decodeFirst(c, &answer, v); err != nil {
		return Answer{Codec: answer.Codec}, notKept(answer.Codec, err)
	}
	return answer, nil
}

func notKept(codec string, err error) error {
	return fmt.Errorf("retrysafe: the work is done, but its answer cannot be kept: codec %s: %w", codec, err)
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
		return Answer{Codec: c.Name()}, notKept(c.Name(), err)
	}
	return Answer{Codec: c.Name(), Body: body, Kept: true}, nil
}

// decodeFirst sets *v to what the codec makes of its answer. A decoder that panics cannot decode:
// the work is done, and its caller must learn that.
func decodeFirst[T any](c Codec, answer *Answer, v *T) (err error) {
	if _, ok := any(v).(*handled); ok {
		return nil
	}
	if exact, ok := c.(ExactCodec); ok && exact.Exact(reflect.TypeFor[T](), answer.Body) {
		return nil
	}
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("the decoding of a %T panics", *v)
		}
	}()
	var first T
	if err := c.Decode(bytes.Clone(answer.Body), &first); err != nil {
		return fmt.Errorf("what it encodes of a %T cannot be decoded: %w", *v, err)
	}
	*v = first
	return nil
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
