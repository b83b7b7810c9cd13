package answertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"
)

// kind is what has to happen to a value.
type kind int

const (
	// replayed: both callers get the same answer. The zero kind.
	replayed kind = iota
	// refused: no value of the type can be stored, and the work does not run.
	refused
	// unkept: this one value of the type cannot be stored. Both callers get an error, and the work
	// runs once.
	unkept
)

// value is one value of a static type.
type value[T any] struct {
	name string
	of   func() T
	kind kind
	// raw: the codec is retrysafe.Raw.
	raw bool
}

func exactValue[T any](name string, v T) value[T] {
	return value[T]{name: name, of: func() T { return v }}
}

func otherValue[T any](name string, k kind, v T) value[T] {
	return value[T]{name: name, of: func() T { return v }, kind: k}
}

func rawValue[T any](name string, v T) value[T] {
	return value[T]{name: name, of: func() T { return v }, raw: true}
}

type shape interface{ Area() float64 }

type square struct{ Side float64 }

func (s square) Area() float64 { return s.Side * s.Side }

type order struct {
	ID    int64             `json:"id"`
	Name  string            `json:"name,omitempty"`
	Lines []line            `json:"lines"`
	Notes map[string]string `json:"notes"`
	Next  *line             `json:"next,omitempty"`
	Part  float32           `json:"part"`
	Raw   []byte            `json:"raw"`
	Flags [2]bool           `json:"flags"`
}

type line struct {
	Article string
	Count   uint8
}

type hidden struct {
	A string
	b string
	C string `json:"-"`
}

type empties struct {
	Slice []int          `json:"slice,omitempty"`
	Map   map[string]int `json:"map,omitempty"`
	Float float64        `json:"float,omitempty"`
	Zero  time.Time      `json:"zero,omitzero"`
	Text  int64          `json:"text,string"`
}

type embedding struct {
	line
	Article string
}

type odd struct {
	Dash string `json:"-,"`
	Name string `json:"a b"`
}

type pair[A, B any] struct {
	First  A
	Second B
}

type tree struct {
	Name string
	Kids []*tree
}

// upper is written otherwise than it is read: what comes back differs at the first decoding.
type upper struct{ Text string }

func (u upper) MarshalText() ([]byte, error) { return []byte("<" + u.Text + ">"), nil }

func (u *upper) UnmarshalText(b []byte) error { u.Text = string(b); return nil }

// mute can be encoded only.
type mute struct{ Text string }

func (m mute) MarshalJSON() ([]byte, error) { return []byte(`[1]`), nil }

type level string

func pointerTo[T any](v T) *T { return &v }

const bigID = int64(9007199254740993) // 2^53 + 1

// allValues are the values of the suite. Each is stored exactly, or differs for both callers alike,
// or is refused.
func allValues() []testable {
	zone := time.FixedZone("nowhere", 3*3600+30*60)
	return []testable{
		exactValue("a string", "plain <&> \u2028 \ufffd"),
		exactValue("a string that is no UTF-8", "a\xffb"),
		exactValue("strings that are no UTF-8", []string{"\xc3", "ok"}),
		exactValue("a string with a written escape", `\ufffd \\ufffd`),
		exactValue("a key of a map that is no UTF-8", map[string]int{"\x80": 1, "k": 2}),
		exactValue("an int64", bigID),
		exactValue("the largest uint64", uint64(math.MaxUint64)),
		exactValue[any]("a big integer in an interface", bigID),
		exactValue[any]("an integer in an interface", 42),
		exactValue[any]("a number of many digits in an interface", json.Number("0.12345678901234567890123")),
		exactValue[any]("a tiny number in an interface", json.Number("1.0000000000000000000e-99999")),
		exactValue[any]("a float in an interface", 0.1234567890123456),
		exactValue[any]("a struct in an interface", struct{ A int }{1}),
		exactValue[any]("nothing in an interface", nil),
		exactValue("a big integer in a map of interfaces", map[string]any{"id": bigID, "all": []any{bigID, 1.5, "1234567890123456"}}),
		exactValue("a big integer in a field", pair[any, map[string][]any]{bigID, map[string][]any{"a": {bigID}}}),
		exactValue("a json.Number", json.Number("")),
		exactValue("raw JSON", json.RawMessage(` {"a":1, "\ufffd": 2} `)),
		exactValue("a big.Int", big.NewInt(bigID)),
		exactValue("a struct", order{ID: bigID, Lines: []line{{"tea", 2}}, Next: &line{"cup", 1}, Raw: []byte{0, 255}, Part: 0.1}),
		exactValue("a zero struct", order{}),
		exactValue("hidden fields", hidden{"a", "b", "c"}),
		exactValue("fields that are left out", empties{Slice: []int{}, Map: map[string]int{}, Float: math.Copysign(0, -1), Text: bigID}),
		exactValue("an embedded struct", embedding{line{"inner", 1}, "outer"}),
		exactValue("fields of unusual names", odd{"a", "b"}),
		exactValue("generics in generics", pair[pair[string, []int], *pair[int, any]]{pair[string, []int]{"a", []int{}}, &pair[int, any]{1, int8(2)}}),
		exactValue("a recursive type", &tree{"root", []*tree{{"kid", nil}, nil}}),
		exactValue("a type that reads otherwise than it writes", upper{"a"}),
		exactValue("a named string", level("gold")),
		exactValue("a nil slice", []int(nil)),
		exactValue("an empty slice", []int{}),
		exactValue("a nil map", map[string]int(nil)),
		exactValue("an empty map", map[string]int{}),
		exactValue("a map by number", map[int]string{-1: "\x80"}),
		exactValue("nil bytes", []byte(nil)),
		exactValue("empty bytes", []byte{}),
		exactValue("bytes", []byte{0, 255}),
		exactValue("a nil pointer", (*hidden)(nil)),
		exactValue("a pointer", &hidden{A: "x", b: "y"}),
		exactValue("a pointer to a nil pointer", pointerTo((*int)(nil))),
		exactValue("a pointer to a nil slice", pointerTo([]int(nil))),
		exactValue("a time with a monotonic clock", time.Now()),
		exactValue("a time in a zone", time.Date(2026, 2, 3, 4, 5, 6, 7, zone)),
		exactValue("a duration", 3*time.Second),
		exactValue("minus zero", math.Copysign(0, -1)),
		exactValue("an array", [3]int8{1, -2}),
		exactValue("nothing", struct{}{}),
		exactValue[*shape]("a nil pointer to an interface", nil),
		exactValue("a nil interface in a field", pair[shape, int]{nil, 1}),

		otherValue[shape]("an interface", refused, square{2}),
		otherValue[error]("an error", refused, errors.New("hm")),
		otherValue("a function", refused, func() {}),
		otherValue("a channel", refused, make(chan int)),
		otherValue("a complex number", refused, 1i),
		otherValue("a map with keys of structs", refused, map[line]int{}),
		otherValue("a channel in a field", refused, pair[int, chan int]{1, nil}),
		otherValue("a function deep in fields", refused, pair[pair[int, func()], int]{}),

		otherValue("not a number", unkept, math.NaN()),
		otherValue("an infinite part", unkept, pair[float64, int]{math.Inf(1), 1}),
		otherValue("an interface in a field", unkept, pair[shape, int]{square{2}, 1}),
		otherValue[any]("a channel in an interface", unkept, make(chan int)),
		otherValue("a type that can only be written", unkept, mute{"a"}),

		rawValue("raw bytes", []byte{0, 255}),
		rawValue("nil raw bytes", []byte(nil)),
		rawValue("no raw bytes", []byte{}),
		rawValue("a raw string", "a\xffb"),
		rawValue("nothing, raw", struct{}{}),
		value[int]{name: "a number, raw", of: func() int { return 1 }, kind: refused, raw: true},
	}
}

func (v value[T]) String() string {
	if v.raw {
		return "raw/" + v.name
	}
	return v.name
}

// printValue prints a value with what its pointers point to.
func printValue(v any) string {
	if b, err := json.Marshal(v); err == nil {
		return fmt.Sprintf("%#v %.300s", v, b)
	}
	return fmt.Sprintf("%#v", v)
}
