package advise

import (
	"cmp"
	"strings"
)

// literal is the kind of a plain value that is no parameter.
type literal uint8

const (
	// ofOther is a value that is not compared here: a number with a fraction, bytes.
	ofOther literal = iota
	ofInteger
	ofText
	ofTruth
)

// integer returns a whole number, as it is written.
func integer(digits string) *expr {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return &expr{kind: plain, text: sign + digits}
	}
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		sign, digits = "", "0"
	}
	return &expr{kind: plain, text: sign + digits, lit: ofInteger}
}

// quoted returns a string.
func quoted(s string) *expr { return &expr{kind: plain, text: "'" + s + "'", lit: ofText} }

// truth returns TRUE or FALSE.
func truth(b bool) *expr {
	if b {
		return &expr{kind: plain, text: "true", lit: ofTruth}
	}
	return &expr{kind: plain, text: "false", lit: ofTruth}
}

// negative returns a number with the other sign.
func negative(e *expr) *expr {
	if e.lit == ofInteger {
		return integer("-" + e.text)
	}
	return &expr{kind: plain, text: "-" + e.text}
}

// cast is the name of an op that converts a value to the type in its text.
const cast = "cast"

// cutting is the name of an op that converts a value, and may cut it.
const cutting = "cutting"

// uncast returns the value inside casts, and the type of the outermost.
func uncast(e *expr) (inner *expr, to string) {
	for e != nil && e.kind == op && e.name == cast && len(e.args) == 1 {
		if to == "" {
			to = e.text
		}
		e = e.args[0]
	}
	return e, to
}

// isPlain reports whether e is a literal or a parameter, perhaps with a cast.
func isPlain(e *expr) bool {
	v, _ := uncast(e)
	return v != nil && v.kind == plain
}

// hasParameter reports whether e has a parameter.
func hasParameter(e *expr) bool {
	return e.has(func(e *expr) bool { return e.kind == plain && e.name == "param" })
}

// equal reports whether two expressions are written in the same way, with the same parameters.
func equal(a, b *expr) bool {
	if a == nil || b == nil || a.kind != b.kind || a.name != b.name || a.table != b.table || a.text != b.text || len(a.args) != len(b.args) {
		return a == b
	}
	for i := range a.args {
		if !equal(a.args[i], b.args[i]) {
			return false
		}
	}
	return true
}

// answer is what a text says to a question.
type answer uint8

const (
	no answer = iota + 1
	maybe
	yes
)

// mostDigits is how many digits a number may have to be the same in every type of a column.
const mostDigits = 7

// kept reports whether a column has this value again after it was stored, so that it compares equal
// to it. Columns round fractions, and cut long values.
func kept(v *expr) bool {
	v, _ = uncast(v)
	switch {
	case v == nil || v.kind != plain:
		return false
	case v.name == "param", v.lit == ofTruth:
		return true
	case v.lit == ofInteger:
		return len(v.text) <= mostDigits
	}
	return v.lit == ofText && (isWord(v.text) || isNumber(v.text))
}

// unlike reports whether a column that has the value a no longer compares equal to b. Two literals
// are unlike if they are of one type and plainly differ: databases compare 2, '2', 2.0 and TRUE
// with each other, and 'x' with 'X ', 'é' with 'e'. Two parameters can be unlike.
func unlike(a, b *expr, t columnType) answer {
	a, to := uncast(a)
	b, from := uncast(b)
	switch {
	case a == nil || b == nil || a.kind != plain || b.kind != plain || isNull(b):
		return no
	case isNull(a):
		return yes
	case a.name == "param" || b.name == "param":
		if a.name == b.name && a.text == b.text && to == from {
			return no
		}
		return yes
	case a.lit == b.lit && a.text == b.text && to == from && kept(a):
		return no
	case to != "" && from != "" && to != from:
		return maybe
	}
	if t.class == anyClass {
		t = postgresType(strings.Fields(cmp.Or(to, from)), "")
	}
	if a.lit != b.lit || !differ(a, b, t) {
		return maybe
	}
	return yes
}

// differ reports whether two literals of one kind plainly differ in a column of type t.
func differ(a, b *expr, t columnType) bool {
	switch {
	case t.class == timeClass || t.class == otherClass || a.text == b.text:
		return false
	case a.lit == ofTruth:
		return true
	case a.lit == ofInteger:
		return len(a.text) <= mostDigits && len(b.text) <= mostDigits
	case a.lit != ofText:
		return false
	case isNumber(a.text) && isNumber(b.text):
		return integer(strings.Trim(a.text, "'")).text != integer(strings.Trim(b.text, "'")).text
	case !isWord(a.text) || !isWord(b.text) || t.class == numberClass || t.class == truthClass:
		return false
	}
	return letters(a.text) != letters(b.text) && (t.class == textClass || !special[letters(a.text)] || !special[letters(b.text)])
}

// special are words that columns of some types read as a value: t and true, inf and infinity.
var special = words(`t tr tru true f fa fal fals false y ye yes n no on of off 0 1 inf infinity nan now today tomorrow yesterday epoch allballs`)

// isNumber reports whether a quoted text is a whole number without a sign.
func isNumber(quoted string) bool {
	s := strings.Trim(quoted, "'")
	return s != "" && len(s) <= mostDigits && strings.Trim(s, "0123456789") == ""
}

// isWord reports whether a quoted text is a word or several, in ASCII, that no type but text reads
// in a way of its own.
func isWord(quoted string) bool {
	s := strings.ToLower(strings.Trim(quoted, "'"))
	return s != "" && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_- ") == "" && strings.TrimSpace(s) == s
}

// letters returns what every collation and every type tells apart in a word.
func letters(quoted string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("'_- ", r) {
			return -1
		}
		return r
	}, strings.ToLower(quoted))
}

func isNull(e *expr) bool {
	v, _ := uncast(e)
	return v != nil && v.kind == plain && v.text == "NULL" && v.name == ""
}
