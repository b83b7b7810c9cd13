package bench_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
)

// canonicalByRival returns the canonical form of RFC 8785, by another implementation, of a body
// whose numbers are written as exact fractions. RFC 8785 itself knows only numbers of 64 bits.
func canonicalByRival(body []byte) ([]byte, bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	// in an array, since jcs takes no plain values
	text, err := json.Marshal([]any{replaceNumbers(v)})
	if err != nil {
		return nil, false
	}
	form, err := jcs.Transform(text)
	return form, err == nil
}

// replaceNumbers replaces each number, and each text by one that no number becomes.
func replaceNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			return "?" + v.String()
		}
		return "=" + r.RatString()
	case string:
		return "'" + v
	case []any:
		for i := range v {
			v[i] = replaceNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = replaceNumbers(v[name])
		}
	}
	return v
}

// FuzzEquality: two bodies have the same sum if and only if another implementation gives them the
// same canonical form.
func FuzzEquality(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":1,"b":[2.50,null]}`, "{ \"b\":[25e-1,null],\n\"a\":1.0}"},
		{`{"a":1}`, `{"a":2}`},
		{`{"a":null}`, `{}`},
		{`"\u00e9"`, `"é"`},
		{`9007199254740993`, `9007199254740992`},
		{`-0`, `0`},
		{`1e300`, `10e299`},
		{`["1"]`, `[1]`},
		{`{"":0,"z":[]}`, `{"z":[],"":0.0}`},
		{`{"\u20ac":1,"\r":2,"1":3,"\ud83d\ude00":4}`, `{"1":3,"\r":2,"😀":4,"€":1}`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	rule, err := fingerprint.Rule{}.Compile()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a) == 0 || len(b) == 0 || len(a)+len(b) > 10_000 || bytes.Contains(a, []byte("e")) && len(a) > 1000 {
			return // huge exponents take the other implementation for ever
		}
		for _, pair := range [][2][]byte{{a, b}, {a, rewriteBody(a)}} {
			ours, err := rule.Sum("application/json", "", pair[0])
			if err != nil {
				return // in two readings, or none: compared byte for byte
			}
			other, err := rule.Sum("application/json", "", pair[1])
			if err != nil {
				continue
			}
			want, ok := canonicalByRival(pair[0])
			got, ok2 := canonicalByRival(pair[1])
			if !ok || !ok2 {
				t.Fatalf("the other implementation refuses %q or %q", pair[0], pair[1])
			}
			if bytes.Equal(ours, other) != bytes.Equal(want, got) {
				t.Fatalf("%q and %q: the same sum %v, the same form %v", pair[0], pair[1], bytes.Equal(ours, other), bytes.Equal(want, got))
			}
		}
	})
}

// rewriteBody writes a body as another program would.
func rewriteBody(body []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil
	}
	return text
}
