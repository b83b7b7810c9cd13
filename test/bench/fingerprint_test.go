package bench_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
)

// orderBody returns the JSON body of 1 kB that the benchmarks use: an order with twelve items and
// the time of sending, with unsorted keys.
func orderBody() []byte {
	var b strings.Builder
	b.WriteString(`{"timestamp":1700000000123,"customer":{"name":"Ann Example","id":90071992547,"address":{"street":"Long Street 7","city":"Zürich","zip":"8001"}},"currency":"CHF","items":[`)
	for i := range 12 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"SKU-%05d","quantity":%d,"price":%d.50,"gift":false}`, i*37, i+1, i*3)
	}
	b.WriteString(`],"note":"Please ring the bell twice.","coupon":null,"amount":1187.00}`)
	return []byte(b.String())
}

func compileRule(tb testing.TB, r fingerprint.Rule) *fingerprint.Compiled {
	tb.Helper()
	c, err := r.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// TestFingerprintAllocations checks the goal of at most five allocations for a JSON body of 1 kB.
// There is one, the sum.
func TestFingerprintAllocations(t *testing.T) {
	c, body := compileRule(t, fingerprint.Rule{Ignore: fingerprint.TimeFields()}), orderBody()
	got := testing.AllocsPerRun(1000, func() {
		if _, err := c.Sum("application/json", "", body); err != nil {
			t.Fatal(err)
		}
	})
	if got > 2 {
		t.Errorf("%v allocations, at most 2", got)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	body := orderBody()
	for _, bb := range []struct {
		name string
		rule fingerprint.Rule
	}{{"everything", fingerprint.Rule{}}, {"without times", fingerprint.Rule{Ignore: fingerprint.TimeFields()}}} {
		b.Run("retrysafe "+bb.name, func(b *testing.B) {
			c := compileRule(b, bb.rule)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := c.Sum("application/json", "", body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("jcs and SHA-256", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			form, err := jcs.Transform(body)
			if err != nil {
				b.Fatal(err)
			}
			sha256.Sum256(form)
		}
	})
}

// canonicalText returns the JSON text within the form that is hashed.
func canonicalText(tb testing.TB, c *fingerprint.Compiled, body []byte) ([]byte, error) {
	tb.Helper()
	form, err := c.Form("application/json", "", body)
	if err != nil {
		return nil, err
	}
	_, text, found := bytes.Cut(form, []byte("application/json"))
	if !found {
		tb.Fatalf("the form %q has no media type", form)
	}
	return text, nil
}

// TestCanonicalLikeJCS: if every number is a 64-bit float with at most 15 digits, the canonical
// text is the one of RFC 8785, as another program writes it. What that program refuses is also
// refused here.
func TestCanonicalLikeJCS(t *testing.T) {
	t.Parallel()
	c := compileRule(t, fingerprint.Rule{})
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	for range 3000 {
		body := []byte(randomJSON(r, 4))
		want, err := jcs.Transform(body)
		if err != nil {
			t.Fatalf("seed %d: jcs refuses %s: %v", seed, body, err)
		}
		got, err := canonicalText(t, c, body)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the form of %s is\n%s, RFC 8785's is\n%s, error %v", seed, body, got, want, err)
		}
	}
	for _, body := range []string{`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `["\ud800"]`, `["\udc00\ud800"]`, `[1e400]`, `{} {}`, `[NaN]`, `[01]`, `[1,]`} {
		if _, err := jcs.Transform([]byte(body)); err == nil {
			t.Errorf("jcs takes %s", body)
		}
		if _, err := canonicalText(t, c, []byte(body)); err == nil {
			t.Errorf("the fingerprint takes %s", body)
		}
	}
}

// TestDigitsThatJCSLoses: if numbers have more digits than a float, RFC 8785 makes different bodies
// equal. Here they differ.
func TestDigitsThatJCSLoses(t *testing.T) {
	t.Parallel()
	c := compileRule(t, fingerprint.Rule{})
	for _, pair := range [][2]string{{`[9007199254740993]`, `[9007199254740992]`}, {`[0.1]`, `[0.10000000000000000001]`}} {
		var theirs, ours [2]string
		for i, body := range pair {
			b, err := jcs.Transform([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			theirs[i] = string(b)
			if b, err = canonicalText(t, c, []byte(body)); err != nil {
				t.Fatal(err)
			}
			ours[i] = string(b)
		}
		if theirs[0] != theirs[1] || ours[0] == ours[1] {
			t.Errorf("%q: jcs has %q, the fingerprint %q", pair, theirs, ours)
		}
	}
}

var pieces = []string{
	"a", "Z", "0", " ", "é", "\u2028", "\ue000", "\uffff", "😀", "𐀀", "/", "<", "\x7f",
	`\n`, `\u0000`, `\u001f`, `\"`, `\\`, `\/`, `\b`, `\f`, `\t`, `\u0041`, `\u20AC`, `\ud83d\uDE00`,
}

// randomJSON returns a JSON text with keys in random order. The first part of a key makes it
// unique.
func randomJSON(r *rand.Rand, depth int) string {
	text := func() string {
		s := ""
		for range r.IntN(5) {
			s += pieces[r.IntN(len(pieces))]
		}
		return s
	}
	kind := r.IntN(6)
	if depth == 0 {
		kind = r.IntN(4)
	}
	switch kind {
	case 0:
		return []string{"null", "true", "false", "-0", "0.000", "0e7"}[r.IntN(6)]
	case 1:
		return `"` + text() + `"`
	case 2:
		return fmt.Sprintf("%d", r.Int64N(2e15)-1e15)
	case 3:
		return fmt.Sprintf("%d.%0*de%+d", r.IntN(1000)-500, 1+r.IntN(9), r.IntN(10), r.IntN(580)-290)
	case 4:
		var list []string
		for range r.IntN(4) {
			list = append(list, randomJSON(r, depth-1))
		}
		return "[" + strings.Join(list, " ,\n") + "]"
	}
	var members []string
	for _, i := range r.Perm(13)[:r.IntN(6)] {
		members = append(members, `"`+pieces[i]+text()+`":`+randomJSON(r, depth-1))
	}
	return "{ " + strings.Join(members, " , ") + "}"
}
