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
)

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

func (jsonCodec) Accepts(t reflect.Type) error { return jsonTypeOf(t).never }

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
	// never says why no value can be stored and read again; nil: some can.
	never error
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
	if reason := neverReadable(t); reason != "" {
		found.never = fmt.Errorf("retrysafe: codec json cannot read an answer of type %v again: %s", t, reason)
	}
	found.visit(t, map[reflect.Type]bool{})
	jsonTypes.Store(t, found)
	return found
}

// neverReadable says why no value of type t can be encoded and decoded, or returns "".
func neverReadable(t reflect.Type) string {
	if encodesItself(t) {
		return ""
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return "a " + t.Kind().String() + " has no JSON form"
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return "JSON does not say which type was behind the interface; use a concrete type"
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
			if reason := neverReadable(field.Type); reason != "" {
				return fmt.Sprintf("in its field %s, %s", field.Name, reason)
			}
		}
	}
	return ""
}

func isJSONKey(k reflect.Kind) bool {
	return k == reflect.String || k >= reflect.Int && k <= reflect.Uintptr
}

// visit adds what the values of type t do. inside are the types around t; true means that they have
// not ended yet.
func (j *jsonType) visit(t reflect.Type, inside map[reflect.Type]bool) {
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
		j.visit(t.Elem(), inside)
	case reflect.Slice, reflect.Array:
		j.visit(t.Elem(), inside)
	case reflect.Map:
		j.visit(t.Key(), inside)
		j.visit(t.Elem(), inside)
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
		j.visit(field.Type, inside)
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
