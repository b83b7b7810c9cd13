package fingerprint_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// A tree is a JSON value in the random tests: nil, bool, string, number, []any, or fields.
type (
	fields []field
	field  struct {
		name    string
		value   any
		ignored bool
	}
	number struct {
		mantissa int64
		exponent int
	}
)

var words = []string{"a", "b", "amount", "é", "😀", "\uffff", "a\n", "\"", "\\", "", "long name", "id", "10"}

func randomTree(r *rand.Rand, depth int) any {
	kind := r.IntN(8)
	if depth == 0 {
		kind = r.IntN(4)
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return words[r.IntN(len(words))] + strconv.Itoa(r.IntN(5))
	case 3:
		return number{r.Int64N(1<<62) >> r.IntN(62), r.IntN(30) - 20}
	case 4:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, randomTree(r, depth-1))
		}
		return list
	default:
		return randomFields(r, depth)
	}
}

func randomFields(r *rand.Rand, depth int) fields {
	f := fields{}
	for _, i := range r.Perm(len(words))[:1+r.IntN(4)] {
		f = append(f, field{name: words[i], value: randomTree(r, depth-1)})
	}
	if r.IntN(2) == 0 {
		f = append(f, field{name: "ts", ignored: true})
	}
	return f
}

// spell writes the tree with its keys in random order, random spelling, and random values of
// ignored fields.
func spell(b *strings.Builder, r *rand.Rand, tree any) {
	if r.IntN(4) == 0 {
		b.WriteString(" \n\t"[:1+r.IntN(3)])
	}
	switch v := tree.(type) {
	case string:
		spellString(b, r, v)
	case number:
		zeros := 0
		if v.mantissa != 0 {
			zeros = r.IntN(3)
		}
		b.WriteString(strconv.FormatInt(v.mantissa, 10))
		b.WriteString("00"[:zeros])
		b.WriteByte('e')
		b.WriteString(strconv.Itoa(v.exponent - zeros))
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(b, r, e)
		}
		b.WriteByte(']')
	case fields:
		b.WriteByte('{')
		for n, i := range r.Perm(len(v)) {
			if n > 0 {
				b.WriteByte(',')
			}
			spellString(b, r, v[i].name)
			b.WriteByte(':')
			if v[i].ignored {
				spell(b, r, randomTree(r, 1))
			} else {
				spell(b, r, v[i].value)
			}
		}
		b.WriteByte('}')
	case bool:
		b.WriteString(strconv.FormatBool(v))
	default:
		b.WriteString("null")
	}
}

func spellString(b *strings.Builder, r *rand.Rand, s string) {
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c < 0x10000 && (c < ' ' || c == '"' || c == '\\' || r.IntN(4) == 0):
			spellUnit(b, c)
		case c >= 0x10000 && r.IntN(4) == 0:
			high, low := utf16.EncodeRune(c)
			spellUnit(b, high)
			spellUnit(b, low)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}

func spellUnit(b *strings.Builder, unit rune) {
	const hex = "0123456789aBcDeF"
	b.WriteString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		b.WriteByte(hex[unit>>shift&15])
	}
}

// leaves counts the places that change can change.
func leaves(tree any) int {
	n := 1
	switch v := tree.(type) {
	case []any:
		for _, e := range v {
			n += leaves(e)
		}
	case fields:
		for _, f := range v {
			if !f.ignored {
				n += leaves(f.value)
			}
		}
	}
	return n
}

// change returns the tree with the nth kept value changed.
func change(tree any, n *int) any {
	*n--
	here := *n < 0
	if here {
		*n = 1 << 30
	}
	switch v := tree.(type) {
	case nil:
		if here {
			return false
		}
	case bool:
		if here {
			return !v
		}
	case string:
		if here {
			return v + "x"
		}
	case number:
		if here {
			return number{v.mantissa + 1, v.exponent}
		}
	case []any:
		if here {
			return append(v[:len(v):len(v)], nil)
		}
		list := []any{}
		for _, e := range v {
			list = append(list, change(e, n))
		}
		return list
	case fields:
		if here {
			return append(v[:len(v):len(v)], field{name: "another"})
		}
		f := fields{}
		for _, e := range v {
			if !e.ignored {
				e.value = change(e.value, n)
			}
			f = append(f, e)
		}
		return f
	}
	return tree
}

// TestRandomBodies: another order of keys, other spellings and other values of ignored fields do
// not change the sum. Any other change does.
func TestRandomBodies(t *testing.T) {
	t.Parallel()
	c := compile(t, fingerprint.Rule{Ignore: []string{"ts"}})
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	text := func(tree any) string {
		var b strings.Builder
		spell(&b, r, tree)
		return b.String()
	}
	of := func(body string) string { // without the allocations of the helpers' failure messages
		got, err := c.Sum(jsonType, "", []byte(body))
		if err != nil {
			t.Fatalf("seed %d: %v of %s", seed, err, body)
		}
		return string(got)
	}
	for range 20000 {
		tree := any(randomFields(r, 2))
		one, two := text(tree), text(tree)
		n := r.IntN(leaves(tree))
		three := text(change(tree, &n))
		want := of(one)
		if of(two) != want {
			t.Fatalf("seed %d: these differ, and are one:\n%s\n%s", seed, one, two)
		}
		if of(three) == want {
			t.Fatalf("seed %d: these are the same, and a kept value differs:\n%s\n%s", seed, one, three)
		}
	}
	assert.Equal(t, leaves(fields{{name: "a", value: []any{nil}}}), 3, "leaves of the smallest tree")
}
