package retrysafe

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe/stores/storeapi"
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

// checkDecodable returns an error if the codec can never decode a value of type T.
func checkDecodable[T any](c Codec) error {
	if _, ok := any((*T)(nil)).(*handledAnswer); ok {
		return nil
	}
	if exact, ok := c.(ExactCodec); ok {
		return exact.Accepts(reflect.TypeFor[T]())
	}
	return nil
}

// encodeForPolicy returns the answer of a call that has succeeded. If duplicates will decode it, *v
// is set to what they get.
func encodeForPolicy[T any](p *Policy, c Codec, v *T) (Answer, error) {
	if replaysAnswers(p) {
		return encodeShared(c, v)
	}
	return encodeAnswer(c, v)
}

// replaysAnswers reports whether duplicates decode the answer of finished work.
func replaysAnswers(p *Policy) bool { return p.Duplicate != Succeed && p.Duplicate != Reject }

// encodeShared is encode, and sets *v to what others will decode. If that is nothing, the answer is
// not kept, and *v stays.
func encodeShared[T any](c Codec, v *T) (Answer, error) {
	answer, err := encodeAnswer(c, v)
	if err != nil || !answer.Kept {
		return answer, err
	}
	if err := decodeForFirst(c, &answer, v); err != nil {
		return Answer{Codec: answer.Codec}, notKeptError(answer.Codec, err)
	}
	return answer, nil
}

func notKeptError(codec string, err error) error {
	return fmt.Errorf("retrysafe: the work is done, but its answer cannot be kept: codec %s: %w", codec, err)
}

// encodeAnswer returns the answer of a call that has succeeded. A []byte under Raw, the hot path,
// bypasses the Codec interface.
func encodeAnswer[T any](c Codec, v *T) (Answer, error) {
	if raw, ok := any(v).(*[]byte); ok && c == Raw {
		return Answer{Codec: "raw", Body: *raw, Kept: true}, nil
	}
	if h, ok := any(v).(*handledAnswer); ok {
		return Answer(*h), nil
	}
	body, err := c.Encode(*v)
	if err != nil {
		return Answer{Codec: c.Name()}, notKeptError(c.Name(), err)
	}
	return Answer{Codec: c.Name(), Body: body, Kept: true}, nil
}

// decodeForFirst sets *v to what the codec makes of its answer. A decoder that panics cannot
// decode: the work is done, and its caller must learn that.
func decodeForFirst[T any](c Codec, answer *Answer, v *T) (err error) {
	if _, ok := any(v).(*handledAnswer); ok {
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

// decodeAnswer decodes a stored answer.
func decodeAnswer[T any](c Codec, a *Answer) (v T, err error) {
	if a.Codec == "raw" {
		if p, ok := any(&v).(*[]byte); ok {
			*p = a.Body
			return v, nil
		}
	}
	return decodeByName[T](c, a)
}

// decodeByName is a function of its own so that v escapes to the heap only here.
func decodeByName[T any](c Codec, a *Answer) (T, error) {
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

// handledAnswer is an answer that is stored as it is.
type handledAnswer Answer

// Answer is the answer that duplicates get: the name of its codec and its body, or the size and
// digest of one that was too large to store.
type Answer = storeapi.Answer

// MaxStored is the largest answer that every store accepts, in bytes: 1 MiB for a body and 64 KiB
// for what is stored with it.
const MaxStored = storeapi.MaxStored

type jsonCodec struct{}

func (jsonCodec) Name() string { return "json" }

func (jsonCodec) Encode(v any) ([]byte, error) { return json.Marshal(v) }

// Decode is json.Unmarshal, except that a number in an interface whose digits do not fit a float64
// becomes a json.Number: an id of 19 digits must not become another id.
func (jsonCodec) Decode(b []byte, v any) error {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || !jsonTypeOf(t.Elem()).dynamic || !hasLongNumber(b) {
		return json.Unmarshal(b, v)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON value")
	}
	shortenNumbers(reflect.ValueOf(v))
	return nil
}

func (jsonCodec) Accepts(t reflect.Type) error { return jsonTypeOf(t).neverError }

func (jsonCodec) Exact(t reflect.Type, b []byte) bool {
	return jsonTypeOf(t).exact && !hasReplacedText(b)
}

// hasReplacedText reports whether json.Marshal has met a text that is no UTF-8: it writes U+FFFD as
// an escape only then.
func hasReplacedText(b []byte) bool {
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte(`\ufffd`))
		if i < 0 {
			return false
		}
		at += i
		before := at - len(bytes.TrimRight(b[:at], `\`))
		if before%2 == 0 {
			return true // the backslash begins the escape
		}
		at++
	}
}

// exactDigits is how many decimal digits a float64 keeps, whichever they are.
const exactDigits = 15

// hasLongNumber reports whether b may have a number with more digits than every float64 keeps.
func hasLongNumber(b []byte) bool {
	run := 0
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			if run++; run > exactDigits {
				return true
			}
		case c != '.':
			run = 0
		}
	}
	return false
}

// shortenNumbers replaces each json.Number in an interface by the float64 that has the same digits,
// if there is one. That is what encoding/json makes of every number.
func shortenNumbers(v reflect.Value) {
	if !jsonTypeOf(v.Type()).dynamic {
		return // there is no interface that encoding/json sets
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			shortenNumbers(v.Elem())
		}
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		if n, ok := v.Interface().(json.Number); !ok {
			shortenNumbers(v.Elem())
		} else if f, exact := exactFloat(n); exact && v.CanSet() {
			v.Set(reflect.ValueOf(f))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			shortenNumbers(v.Index(i))
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			value := reflect.New(v.Type().Elem()).Elem() // an entry itself cannot be set
			value.Set(entries.Value())
			shortenNumbers(value)
			v.SetMapIndex(entries.Key(), value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() || field.Anonymous {
				shortenNumbers(v.Field(i))
			}
		}
	}
}

// exactFloat returns the float64 that stands for the same decimal number as n.
func exactFloat(n json.Number) (float64, bool) {
	// A float64 has at most 767 significant digits, written out; big.Rat takes long for more.
	if len(n) > 1100 {
		return 0, false
	}
	f, err := n.Float64()
	if err != nil {
		return 0, false
	}
	if f == 0 { // a tiny number is rounded to it, and big.Rat would write out its exponent
		digits, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
		return f, strings.Trim(digits, "-0.") == ""
	}
	is, ok := new(big.Rat).SetString(n.String())
	short, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return f, ok && is.Cmp(short) == 0
}

// jsonType is what encoding/json does with the values of a type.
type jsonType struct {
	// neverError says why no value can be stored and read again; nil: some can.
	neverError error
	// exact: a value whose texts are UTF-8 comes back as it was. It is false in doubt.
	exact bool
	// dynamic: there is an interface in it, outside of types that encode or decode themselves.
	dynamic bool
}

var jsonTypes sync.Map // of *jsonType, by reflect.Type

func jsonTypeOf(t reflect.Type) *jsonType {
	if known, ok := jsonTypes.Load(t); ok {
		return known.(*jsonType) //nolint:forcetypeassert // only these are stored
	}
	found := &jsonType{exact: true}
	if reason := unreadableReason(t); reason != "" {
		found.neverError = fmt.Errorf("retrysafe: codec json cannot read an answer of type %v again: %s", t, reason)
	}
	found.visitType(t, map[reflect.Type]bool{})
	jsonTypes.Store(t, found)
	return found
}

// unreadableReason says why no value of type t can be encoded and decoded, or returns "".
func unreadableReason(t reflect.Type) string {
	if encodesItself(t) {
		return ""
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return "a " + t.Kind().String() + " has no JSON form"
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return "JSON does not say which type was in the interface; use a concrete type"
		}
	case reflect.Map:
		if key := t.Key(); !encodesItself(key) && !isJSONKey(key.Kind()) {
			return fmt.Sprintf("a map's key of type %v has no JSON form", key)
		}
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			tag := field.Tag.Get("json")
			if field.Anonymous || !field.IsExported() || tag == "-" || strings.Contains(tag, ",omit") || field.Type.Kind() == reflect.Interface {
				continue // left out, always or for some values, or shadowed; nil can be read
			}
			if reason := unreadableReason(field.Type); reason != "" {
				return fmt.Sprintf("in its field %s, %s", field.Name, reason)
			}
		}
	}
	return ""
}

func isJSONKey(k reflect.Kind) bool {
	return k == reflect.String || k >= reflect.Int && k <= reflect.Uintptr
}

// visitType adds what the values of type t do. inside are the types around t; true means that they
// have not ended yet.
func (j *jsonType) visitType(t reflect.Type, inside map[reflect.Type]bool) {
	if open, seen := inside[t]; seen {
		j.exact = j.exact && !open // encoding/json decodes to a limited depth
		return
	}
	inside[t] = true
	defer func() { inside[t] = false }()
	if encodesItself(t) {
		j.exact = false
		return
	}
	switch t.Kind() {
	case reflect.Interface:
		j.exact, j.dynamic = false, true
	case reflect.Pointer:
		switch t.Elem().Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
			j.exact = false // null can be either of two values
		}
		j.visitType(t.Elem(), inside)
	case reflect.Slice, reflect.Array:
		j.visitType(t.Elem(), inside)
	case reflect.Map:
		j.visitType(t.Key(), inside)
		j.visitType(t.Elem(), inside)
	case reflect.Struct:
		j.visitFields(t, inside)
	case reflect.String:
		j.exact = j.exact && t != reflect.TypeFor[json.Number]() // an empty one becomes 0
	}
}

func (j *jsonType) visitFields(t reflect.Type, inside map[reflect.Type]bool) {
	names := make(map[string]bool, t.NumField())
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		// What is left out, written in another form, or named in a way that has rules of its own.
		if field.Anonymous || !field.IsExported() || names[name] || strings.Trim(name, jsonNameBytes) != "" ||
			options != "" && !(options == "omitempty" && onlyZeroIsEmpty(field.Type.Kind())) {
			j.exact = false
		}
		names[name] = true
		j.visitType(field.Type, inside)
	}
}

// jsonNameBytes are the bytes of usual names. A lone "-" leaves a field out.
const jsonNameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// onlyZeroIsEmpty reports whether omitempty leaves out no other value than the one that the field
// has if it is missing.
func onlyZeroIsEmpty(k reflect.Kind) bool {
	return k == reflect.Bool || k == reflect.String || k == reflect.Pointer || k >= reflect.Int && k <= reflect.Uintptr
}

// encodesItself reports whether encoding/json calls methods of t.
func encodesItself(t reflect.Type) bool {
	if t.Kind() == reflect.Interface {
		return false
	}
	p := reflect.PointerTo(t)
	for _, methods := range selfEncoding {
		if t.Implements(methods) || p.Implements(methods) {
			return true
		}
	}
	return false
}

var selfEncoding = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}
