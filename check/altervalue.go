package check

import (
	"encoding/json"
	"slices"
	"strings"
)

// alterNumber returns another number in place of one.
func alterNumber(v any) (any, bool) {
	n, ok := v.(json.Number)
	raised := alterDigit(n)
	return raised, ok && raised != n
}

// alterString returns another string in place of one that is not empty.
func alterString(v any) (any, bool) {
	text, ok := v.(string)
	return alterText(text), ok && text != ""
}

func alterBool(v any) (any, bool) {
	b, ok := v.(bool)
	return !b, ok
}

// codes are texts with a small set of valid values, which stand for each other.
var alikeCodes = []string{"EUR", "USD", "eur", "usd", "DE", "US", "de", "us", "en", "fr"}

// alterText returns another text that an API is likely to accept where it accepts this one: another
// currency, country or language, another last digit of a number or a date, or one letter more.
func alterText(text string) string {
	if i := slices.Index(alikeCodes, text); i >= 0 {
		return alikeCodes[i^1]
	}
	upper := strings.IndexFunc(text, func(c rune) bool { return c < 'A' || c > 'Z' }) < 0
	switch {
	case upper && len(text) == 3:
		return "EUR"
	case upper && len(text) == 2:
		return "DE"
	}
	last := len(text) - 1
	switch {
	case last < 0 || text[last] < '0' || text[last] > '9':
		return text + "x"
	case text[last] == '0' || strings.HasSuffix(text, "01"): // the last day of a month stays a day
		return text[:last] + string(text[last]+1)
	}
	return text[:last] + string(text[last]-1)
}
