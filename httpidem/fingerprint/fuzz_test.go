package fingerprint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// decode reads a JSON text with encoding/json, with exact numbers. It does not detect duplicate
// keys.
func decode(body []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	_, err := d.Token()
	return v, errors.Is(err, io.EOF)
}

// exact writes equal numbers in the same spelling.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		digits, _, _ := strings.Cut(strings.ToLower(v.String()), "e")
		if strings.Trim(digits, "-0.") == "" {
			return json.Number("0") // its exponent may be too large for math/big
		}
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			panic("no number: " + v.String())
		}
		return json.Number(r.RatString())
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

// altered returns v with one value changed.
func altered(v any) any {
	switch v := v.(type) {
	case json.Number:
		digits, negative := strings.CutPrefix(v.String(), "-")
		if negative {
			return json.Number("-1" + digits)
		}
		return json.Number("1" + digits)
	case string:
		return v + "."
	case []any:
		if len(v) > 0 {
			return append([]any{altered(v[0])}, v[1:]...)
		}
		return []any{nil}
	case map[string]any:
		m := map[string]any{}
		changed := false
		for k, e := range v {
			if !changed {
				e, changed = altered(e), true
			}
			m[k] = e
		}
		if !changed {
			m["a"] = nil
		}
		return m
	default:
		return "other"
	}
}

// FuzzJSON: two bodies have the same form if and only if encoding/json reads equal values from
// them.
func FuzzJSON(f *testing.F) {
	for _, b := range [][2]string{
		{`{"a":1,"b":[1.0,null]}`, `{"b":[1,null],"a":1e0}`},
		{`{"a":{"b":"\u0041\ud83d\ude00"}}`, `{"a":{"b":"A"}}`},
		{`[9007199254740993]`, `[9007199254740992]`},
		{`{"\uffff":1,"😀":2,"a\n":3,"a":4}`, `{"😀":2,"a":4}`},
		{`-0`, `0e5`},
		{`0e00000789012345678901234567890`, `0`},
		{`{"a":1,"a":2}`, `"\ud800"`},
		{`[1e308,1e-324,123456789012345678901234567890]`, `[0.000001,0.0000001]`},
	} {
		f.Add([]byte(b[0]), []byte(b[1]))
	}
	c := compile(f, everything)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		fa, okA := checked(t, c, a)
		fb, okB := checked(t, c, b)
		if okA && okB {
			assert.Equal(t, bytes.Equal(fa.form, fb.form), reflect.DeepEqual(fa.value, fb.value), "whether %q and %q are equal", a, b)
		}
	})
}

type read struct {
	form  []byte
	value any
}

// checked reads a body in both ways, and also reads its canonical form.
func checked(t *testing.T, c *fingerprint.Compiled, body []byte) (read, bool) {
	t.Helper()
	form, err := c.Form(jsonType, "", body)
	if err != nil || len(body) == 0 {
		assert.True(t, err == nil || errors.Is(err, fingerprint.ErrMalformed) || errors.Is(err, fingerprint.ErrTooLarge), "the error %v is one of the package's", err)
		return read{}, false
	}
	value, ok := decode(body)
	assert.True(t, ok, "encoding/json reads %q, too", body)
	other, err := json.Marshal(altered(value))
	assert.NoError(t, err, "Marshal")
	same, err := json.Marshal(value) // with sorted keys and other escapes
	assert.NoError(t, err, "Marshal")
	again, err := c.Form(jsonType, "", same)
	assert.NoError(t, err, "Form of %q", same)
	assert.Equal(t, again, form, "the form of %q, written by encoding/json", body)
	value = exact(value)
	canonical := form[bytes.Index(form, []byte("json"))+4:]
	back, ok := decode(canonical)
	assert.True(t, ok, "the form %q of %q is JSON", canonical, body)
	assert.Equal(t, exact(back), value, "the value of the form %q", canonical)
	if otherForm, err := c.Form(jsonType, "", other); err == nil {
		changed, _ := decode(other)
		if !reflect.DeepEqual(exact(changed), value) {
			assert.NotEqual(t, otherForm, form, "the form of %q after a change of %q", other, body)
		}
	}
	return read{form, value}, true
}

// FuzzForm: two forms have the same sum if and only if net/url reads the same values from them.
func FuzzForm(f *testing.F) {
	f.Add("a=1&b=2", "b=%32&a=1")
	f.Add("a=1%26b=2", "a=1&b=2")
	f.Add("a=1&a=2&=&&+", "a;b=%")
	c := compile(f, everything)
	f.Fuzz(func(t *testing.T, a, b string) {
		sa, errA := c.Sum("", a, nil)
		sb, errB := c.Sum("", b, nil)
		// net/url refuses them unescaped
		va, refA := url.ParseQuery(strings.ReplaceAll(a, ";", "%3B"))
		vb, refB := url.ParseQuery(strings.ReplaceAll(b, ";", "%3B"))
		assert.Equal(t, errA == nil, refA == nil, "whether %q is read", a)
		assert.Equal(t, errB == nil, refB == nil, "whether %q is read", b)
		if errA == nil && errB == nil {
			assert.Equal(t, bytes.Equal(sa, sb), reflect.DeepEqual(va, vb), "whether %q and %q are equal", a, b)
		}
	})
}

// FuzzRequest: no input causes a panic, a request always has the same sums, and a field that Only
// names counts.
func FuzzRequest(f *testing.F) {
	f.Add(jsonType, "q=1", []byte(`{"a":[{"at":1,"b":2}],"ts":1}`))
	f.Add(formType, "", []byte("a=1&ts=2"))
	f.Add("multipart/form-data; boundary=x", "", []byte("--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--"))
	f.Add("text/plain", "%", []byte("\x00"))
	rules := []*fingerprint.Compiled{
		compile(f, fingerprint.Rule{Ignore: []string{"ts", "$.a[*].at"}, MaxDepth: 5}),
		compile(f, fingerprint.Rule{Only: []string{"b", "$.a[*].at"}, Ignore: fingerprint.TimeFields(), NumbersAsWritten: true}),
	}
	f.Fuzz(func(t *testing.T, contentType, query string, body []byte) {
		before := slices.Clone(body)
		for _, c := range rules {
			one, err := c.Sum(contentType, query, body)
			two, again := c.Sum(contentType, query, body)
			assert.Equal(t, one, two, "sums of one request")
			assert.Equal(t, err == nil, again == nil, "errors of one request")
			if err == nil {
				assert.Equal(t, len(one), fingerprint.Size, "the size")
			}
			_, _ = c.Legacy("p", "u", "m", query, body) // it does not panic
		}
		assert.Equal(t, body, before, "the caller's body")
	})
}

// FuzzLeaveOut: what is left has no parameter that is ignored, is otherwise what was there, and
// stays as it is when asked again.
func FuzzLeaveOut(f *testing.F) {
	for _, seed := range []string{"", "a=1&ts=2", "ts", "%74s=1&a;ts=2", "&&ts=&", "t%s=1", "ts=1;a=2"} {
		f.Add(seed)
	}
	rule, err := fingerprint.Rule{Ignore: []string{"ts", "$.a"}}.Compile()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, params string) {
		left := rule.LeaveOut(params)
		if again := rule.LeaveOut(left); again != left {
			t.Fatalf("%q becomes %q, and then %q", params, left, again)
		}
		counts := func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			name, err := url.QueryUnescape(name)
			return err != nil || name != "ts" || strings.Contains(pair, ";")
		}
		var want []string
		all := strings.Split(params, "&")
		for _, pair := range all {
			if counts(pair) {
				want = append(want, pair)
			}
		}
		if strings.Join(want, "&") != left {
			t.Fatalf("%q becomes %q, want %q", params, left, want)
		}
	})
}
