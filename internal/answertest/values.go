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

func val[T any](name string, v T) value[T] { return value[T]{name: name, of: func() T { return v }} }

func no[T any](name string, k kind, v T) value[T] {
	return value[T]{name: name, of: func() T { return v }, kind: k}
}

func bare[T any](name string, v T) value[T] {
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

// values are the values of the suite. Each is stored exactly, or differs for both callers alike, or
// is refused.
func values() []testable {
	zone := time.FixedZone("nowhere", 3*3600+30*60)
	return []testable{
		val("a string", "plain <&> \u2028 \ufffd"),
		val("a string that is no UTF-8", "a\xffb"),
		val("strings that are no UTF-8", []string{"\xc3", "ok"}),
		val("a string with a written escape", `\ufffd \\ufffd`),
		val("a key of a map that is no UTF-8", map[string]int{"\x80": 1, "k": 2}),
		val("an int64", bigID),
		val("the largest uint64", uint64(math.MaxUint64)),
		val[any]("a big integer in an interface", bigID),
		val[any]("an integer in an interface", 42),
		val[any]("a number of many digits in an interface", json.Number("0.12345678901234567890123")),
		val[any]("a tiny number in an interface", json.Number("1.0000000000000000000e-99999")),
		val[any]("a float in an interface", 0.1234567890123456),
		val[any]("a struct in an interface", struct{ A int }{1}),
		val[any]("nothing in an interface", nil),
		val("a big integer in a map of interfaces", map[string]any{"id": bigID, "all": []any{bigID, 1.5, "1234567890123456"}}),
		val("a big integer in a field", pair[any, map[string][]any]{bigID, map[string][]any{"a": {bigID}}}),
		val("a json.Number", json.Number("")),
		val("raw JSON", json.RawMessage(` {"a":1, "\ufffd": 2} `)),
		val("a big.Int", big.NewInt(bigID)),
		val("a struct", order{ID: bigID, Lines: []line{{"tea", 2}}, Next: &line{"cup", 1}, Raw: []byte{0, 255}, Part: 0.1}),
		val("a zero struct", order{}),
		val("hidden fields", hidden{"a", "b", "c"}),
		val("fields that are left out", empties{Slice: []int{}, Map: map[string]int{}, Float: math.Copysign(0, -1), Text: bigID}),
		val("an embedded struct", embedding{line{"inner", 1}, "outer"}),
		val("fields of unusual names", odd{"a", "b"}),
		val("generics in generics", pair[pair[string, []int], *pair[int, any]]{pair[string, []int]{"a", []int{}}, &pair[int, any]{1, int8(2)}}),
		val("a recursive type", &tree{"root", []*tree{{"kid", nil}, nil}}),
		val("a type that reads otherwise than it writes", upper{"a"}),
		val("a named string", level("gold")),
		val("a nil slice", []int(nil)),
		val("an empty slice", []int{}),
		val("a nil map", map[string]int(nil)),
		val("an empty map", map[string]int{}),
		val("a map by number", map[int]string{-1: "\x80"}),
		val("nil bytes", []byte(nil)),
		val("empty bytes", []byte{}),
		val("bytes", []byte{0, 255}),
		val("a nil pointer", (*hidden)(nil)),
		val("a pointer", &hidden{A: "x", b: "y"}),
		val("a pointer to a nil pointer", pointerTo((*int)(nil))),
		val("a pointer to a nil slice", pointerTo([]int(nil))),
		val("a time with a monotonic clock", time.Now()),
		val("a time in a zone", time.Date(2026, 2, 3, 4, 5, 6, 7, zone)),
		val("a duration", 3*time.Second),
		val("minus zero", math.Copysign(0, -1)),
		val("an array", [3]int8{1, -2}),
		val("nothing", struct{}{}),
		val[*shape]("a nil pointer to an interface", nil),
		val("a nil interface in a field", pair[shape, int]{nil, 1}),

		no[shape]("an interface", refused, square{2}),
		no[error]("an error", refused, errors.New("hm")),
		no("a function", refused, func() {}),
		no("a channel", refused, make(chan int)),
		no("a complex number", refused, 1i),
		no("a map with keys of structs", refused, map[line]int{}),
		no("a channel in a field", refused, pair[int, chan int]{1, nil}),
		no("a function deep in fields", refused, pair[pair[int, func()], int]{}),

		no("not a number", unkept, math.NaN()),
		no("an infinite part", unkept, pair[float64, int]{math.Inf(1), 1}),
		no("an interface in a field", unkept, pair[shape, int]{square{2}, 1}),
		no[any]("a channel in an interface", unkept, make(chan int)),
		no("a type that can only be written", unkept, mute{"a"}),

		bare("raw bytes", []byte{0, 255}),
		bare("nil raw bytes", []byte(nil)),
		bare("no raw bytes", []byte{}),
		bare("a raw string", "a\xffb"),
		bare("nothing, raw", struct{}{}),
		value[int]{name: "a number, raw", of: func() int { return 1 }, kind: refused, raw: true},
	}
}

func (v value[T]) String() string {
	if v.raw {
		return "raw/" + v.name
	}
	return v.name
}

// show prints a value with what its pointers point to.
func show(v any) string {
	if b, err := json.Marshal(v); err == nil {
		return fmt.Sprintf("%#v %.300s", v, b)
	}
	return fmt.Sprintf("%#v", v)
}
