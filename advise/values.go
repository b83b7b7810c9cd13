package advise

import (
	"cmp"
	"strings"
)

// literalKind is the kind of a plain value that is no parameter.
type literalKind uint8

const (
	// literalOther is a value that is not compared here: a number with a fraction, bytes.
	literalOther literalKind = iota
	literalInteger
	literalText
	literalTruth
)

// integerLiteral returns a whole number, as it is written.
func integerLiteral(digits string) *expr {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return &expr{kind: valueExpr, text: sign + digits}
	}
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		sign, digits = "", "0"
	}
	return &expr{kind: valueExpr, text: sign + digits, lit: literalInteger}
}

// textLiteral returns a string.
func textLiteral(s string) *expr {
	return &expr{kind: valueExpr, text: "'" + s + "'", lit: literalText}
}

// truthLiteral returns TRUE or FALSE.
func truthLiteral(b bool) *expr {
	if b {
		return &expr{kind: valueExpr, text: "true", lit: literalTruth}
	}
	return &expr{kind: valueExpr, text: "false", lit: literalTruth}
}

// negate returns a number with the other sign.
func negate(e *expr) *expr {
	if e.lit == literalInteger {
		return integerLiteral("-" + e.text)
	}
	return &expr{kind: valueExpr, text: "-" + e.text}
}

// castOp is the name of an op that converts a value to the type in its text.
const castOp = "cast"

// cuttingCast is the name of an op that converts a value, and may cut it.
const cuttingCast = "cutting"

// stripCasts returns the value inside casts, and the type of the outermost.
func stripCasts(e *expr) (inner *expr, to string) {
	for e != nil && e.kind == opExpr && e.name == castOp && len(e.args) == 1 {
		if to == "" {
			to = e.text
		}
		e = e.args[0]
	}
	return e, to
}

// isPlain reports whether e is a literal or a parameter, perhaps with a cast.
func isPlain(e *expr) bool {
	v, _ := stripCasts(e)
	return v != nil && v.kind == valueExpr
}

// hasParameter reports whether e has a parameter.
func hasParameter(e *expr) bool {
	return e.hasPart(func(e *expr) bool { return e.kind == valueExpr && e.name == "param" })
}

// equalExprs reports whether two expressions are written in the same way, with the same parameters.
func equalExprs(a, b *expr) bool {
	if a == nil || b == nil || a.kind != b.kind || a.name != b.name || a.table != b.table || a.text != b.text || len(a.args) != len(b.args) {
		return a == b
	}
	for i := range a.args {
		if !equalExprs(a.args[i], b.args[i]) {
			return false
		}
	}
	return true
}

// certainty is what a text says to a question.
type certainty uint8

const (
	no certainty = iota + 1
	maybe
	yes
)

// mostDigits is how many digits a number may have to be the same in every type of a column.
const mostDigits = 7

// isStoredExactly reports whether a column has this value again after it was stored, so that it
// compares equal to it. Columns round fractions, and cut long values.
func isStoredExactly(v *expr) bool {
	v, _ = stripCasts(v)
	switch {
	case v == nil || v.kind != valueExpr:
		return false
	case v.name == "param", v.lit == literalTruth:
		return true
	case v.lit == literalInteger:
		return len(v.text) <= mostDigits
	}
	return v.lit == literalText && (isWord(v.text) || isNumber(v.text))
}

// comparesUnlike reports whether a column that has the value a no longer compares equal to b. Two
// literals are unlike if they are of one type and plainly differ: databases compare 2, '2', 2.0 and
// TRUE with each other, and 'x' with 'X ', 'é' with 'e'. Two parameters can be unlike.
func comparesUnlike(a, b *expr, t columnType) certainty {
	a, to := stripCasts(a)
	b, from := stripCasts(b)
	switch {
	case a == nil || b == nil || a.kind != valueExpr || b.kind != valueExpr || isNull(b):
		return no
	case isNull(a):
		return yes
	case a.name == "param" || b.name == "param":
		if a.name == b.name && a.text == b.text && to == from {
			return no
		}
		return yes
	case a.lit == b.lit && a.text == b.text && to == from && isStoredExactly(a):
		return no
	case to != "" && from != "" && to != from:
		return maybe
	}
	if t.class == anyClass {
		t = postgresType(strings.Fields(cmp.Or(to, from)), "")
	}
	if a.lit != b.lit || !plainlyDiffer(a, b, t) {
		return maybe
	}
	return yes
}

// plainlyDiffer reports whether two literals of one kind plainly differ in a column of type t.
func plainlyDiffer(a, b *expr, t columnType) bool {
	switch {
	case t.class == timeClass || t.class == otherClass || a.text == b.text:
		return false
	case a.lit == literalTruth:
		return true
	case a.lit == literalInteger:
		return len(a.text) <= mostDigits && len(b.text) <= mostDigits
	case a.lit != literalText:
		return false
	case isNumber(a.text) && isNumber(b.text):
		return integerLiteral(strings.Trim(a.text, "'")).text != integerLiteral(strings.Trim(b.text, "'")).text
	case !isWord(a.text) || !isWord(b.text) || t.class == numberClass || t.class == truthClass:
		return false
	}
	return significantLetters(a.text) != significantLetters(b.text) && (t.class == textClass || !specialWords[significantLetters(a.text)] || !specialWords[significantLetters(b.text)])
}

// specialWords are words that columns of some types read as a value: t and true, inf and infinity.
var specialWords = wordSet(`t tr tru true f fa fal fals false y ye yes n no on of off 0 1 inf infinity nan now today tomorrow yesterday epoch allballs`)

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

// significantLetters returns what every collation and every type tells apart in a word.
func significantLetters(quoted string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("'_- ", r) {
			return -1
		}
		return r
	}, strings.ToLower(quoted))
}

func isNull(e *expr) bool {
	v, _ := stripCasts(e)
	return v != nil && v.kind == valueExpr && v.text == "NULL" && v.name == ""
}
