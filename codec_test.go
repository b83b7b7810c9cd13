package retrysafe_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// gobCodec is a codec as users write one.
type gobCodec struct{ decoded *int }

func (gobCodec) Name() string { return "gob" }

func (gobCodec) Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (c gobCodec) Decode(b []byte, v any) error {
	*c.decoded++
	return gob.NewDecoder(bytes.NewReader(b)).Decode(v)
}

// exactGob knows that it keeps integers, and that it has no functions.
type exactGob struct{ gobCodec }

func (exactGob) Accepts(t reflect.Type) error {
	if t.Kind() == reflect.Func {
		return errors.New("gob has no functions")
	}
	return nil
}

func (exactGob) Exact(t reflect.Type, _ []byte) bool { return t.Kind() == reflect.Int }

// TestCodecOfTheUser: the first caller gets what a codec of the user makes of the stored answer. A
// codec that says that it keeps a type is not asked.
func TestCodecOfTheUser(t *testing.T) {
	t.Parallel()
	decoded := 0
	plain := retrysafe.New(memstore.New(nil), &retrysafe.Options{Codec: gobCodec{&decoded}, Sweep: -1})
	type hides struct {
		A string
		b string
	}
	for i := range 2 {
		res, err := retrysafe.Do(t.Context(), plain, retrysafe.Key{Operation: "codec", ID: "hides"}, func(context.Context) (hides, error) { return hides{"a", "b"}, nil })
		assert.NoError(t, err, "call %d", i)
		assert.Equal(t, res.Value, hides{A: "a"}, "value of call %d", i)
		assert.Equal(t, decoded, i+1, "decoded by call %d", i)
	}
	decoded = 0
	exact := retrysafe.New(memstore.New(nil), &retrysafe.Options{Codec: exactGob{gobCodec{&decoded}}, Sweep: -1})
	for i := range 2 {
		res, err := retrysafe.Do(t.Context(), exact, retrysafe.Key{Operation: "codec", ID: "exact"}, func(context.Context) (int, error) { return 7, nil })
		assert.NoError(t, err, "call %d", i)
		assert.Equal(t, res.Value, 7, "value of call %d", i)
		assert.Equal(t, decoded, i, "decoded by call %d", i)
	}
	_, err := retrysafe.Do(t.Context(), exact, retrysafe.Key{Operation: "codec", ID: "func"}, func(context.Context) (func(), error) {
		t.Error("the work runs, whose answer the codec refuses")
		return func() {}, nil
	})
	assert.Contains(t, fmt.Sprint(err), "gob has no functions", "the error of a type that the codec refuses")
}

// TestNumbersInInterfaces: JSON keeps the digits of a number, and its usual type if that has them.
func TestNumbersInInterfaces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		`1`:                             1.0,
		`0.1234567890123456`:            0.1234567890123456,
		`9007199254740992`:              9007199254740992.0,
		`9007199254740993`:              json.Number("9007199254740993"),
		`1000000000000000000000`:        1e21,
		`-0.00000000000000000000`:       0.0,
		`1.00000000000000000e+2`:        100.0,
		`1.0000000000000000e400`:        json.Number("1.0000000000000000e400"),
		`1.000000000000000e-9999999999`: json.Number("1.000000000000000e-9999999999"),
		`"9007199254740993"`:            "9007199254740993",
	} {
		var got any
		assert.NoError(t, retrysafe.JSON.Decode([]byte(text), &got), "decode %s", text)
		assert.True(t, got == want, "%s: got %#v, want %#v", text, got, want)
		deep := struct {
			A map[string][]any
			N json.Number
			P *any
		}{}
		number := "1"
		if text[0] != '"' {
			number = text
		}
		assert.NoError(t, retrysafe.JSON.Decode([]byte(`{"A":{"a":[`+text+`,null]},"N":`+number+`,"P":`+text+`}`), &deep), "decode %s deep", text)
		assert.True(t, deep.A["a"][0] == want && *deep.P == want, "%s: got %#v and %#v, want %#v", text, deep.A["a"][0], *deep.P, want)
		assert.Equal(t, deep.N, json.Number(number), "a field that is a json.Number")
	}
	for _, broken := range []string{`1234567890123456 2`, `[1234567890123456`, `1234567890123456x`} {
		var got any
		assert.True(t, retrysafe.JSON.Decode([]byte(broken), &got) != nil, "%s is no JSON", broken)
	}
}

// FuzzJSONExact: what JSON calls exact is: its bytes decode to the value.
func FuzzJSONExact(f *testing.F) {
	type inner struct {
		Text  string
		Bytes []byte
	}
	type outer struct {
		Name  string            `json:"name,omitempty"`
		Inner inner             `json:"inner"`
		Map   map[string]string `json:"map"`
		List  []string
		Next  *inner `json:"next"`
		Float float64
	}
	f.Add("a", []byte("b"), "\xff", 1.5)
	f.Add(`\ufffd`, []byte(nil), "\ufffd", -0.0)
	codec := retrysafe.JSON.(retrysafe.ExactCodec) //nolint:errcheck,forcetypeassert // it is one
	f.Fuzz(func(t *testing.T, a string, b []byte, c string, x float64) {
		v := outer{a, inner{c, b}, map[string]string{a: c}, []string{c, a}, &inner{a, nil}, x}
		body, err := codec.Encode(v)
		if err != nil {
			return
		}
		var got outer
		assert.NoError(t, codec.Decode(body, &got), "decode")
		exact := codec.Exact(reflect.TypeFor[outer](), body)
		assert.Equal(t, exact, reflect.DeepEqual(got, v), "%q is exact", body)
	})
}
