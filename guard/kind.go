package guard

import (
	"database/sql/driver"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// kind is what the values of a column are, as far as it decides how a database compares them with a
// value of another type: to MySQL "7 or so" is the number 7, and 123 the text "0123"; to SQLite and
// PostgreSQL " 1" is 1.
type kind string

const (
	wholeNumbers kind = "integer"
	numbers      kind = "number" // with a fraction, or in decimals, which drivers take as texts
	texts        kind = "text"   // bytes too
	days         kind = "day"
	// moments are followed by the digits of a second that the column keeps. It rounds a time that
	// has more, and then is not equal to it.
	moments = "moment "
)

func (k kind) String() string {
	switch k {
	case wholeNumbers:
		return "whole numbers"
	case numbers:
		return "numbers"
	case texts:
		return "texts"
	case days:
		return "days"
	}
	return "times to " + strings.TrimPrefix(string(k), moments) + " digits of a second"
}

// takes tells whether a value is compared as what it is. Of other kinds of columns, and of other
// values, such as times, the driver and the database know.
func (k kind) takes(v any) bool {
	v = plainValue(v)
	if at, ok := v.(time.Time); ok {
		return k.keeps(at)
	}
	r := reflect.ValueOf(v)
	if !r.IsValid() {
		return true
	}
	text, isText := "", false
	switch {
	case r.Kind() == reflect.String:
		text, isText = r.String(), true
	case r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8:
		text, isText = string(r.Bytes()), true
	}
	switch k {
	case wholeNumbers:
		const exact = 1 << 53 // beyond it a float stands for several whole numbers
		return !isText && (!r.CanFloat() || r.Float() == math.Trunc(r.Float()) && math.Abs(r.Float()) < exact)
	case numbers:
		return !isText || isDecimal(text)
	case texts:
		return !r.CanInt() && !r.CanUint() && !r.CanFloat() && r.Kind() != reflect.Bool
	}
	return true
}

// keeps tells whether a column has a time as it was given.
func (k kind) keeps(at time.Time) bool {
	unit := 24 * time.Hour
	if digits, ok := strings.CutPrefix(string(k), moments); ok {
		unit = time.Second
		for n, err := strconv.Atoi(digits); err == nil && n > 0; n-- {
			unit /= 10
		}
	} else if k != days {
		return true
	}
	// beyond microseconds drivers cut off by themselves, each time
	return unit <= time.Microsecond || at.Equal(at.Truncate(unit))
}

// isDecimal tells whether a text is what every database reads as one number, and all of it.
func isDecimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole, fraction, dotted := strings.Cut(s, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	return digits(whole) && (!dotted || digits(fraction))
}

// plainValue is what the driver is given in the end: behind pointers, and what a driver.Valuer
// makes. It is nil where that is NULL.
func plainValue(v any) any {
	const most = 8 // pointers to pointers, and Valuers that make Valuers
	for range most {
		r := reflect.ValueOf(v)
		if !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil() {
			return nil
		}
		if valuer, ok := v.(driver.Valuer); ok {
			made, err := valuer.Value()
			if err != nil {
				return v // the driver will say so
			}
			v = made
			continue
		}
		if r.Kind() != reflect.Pointer {
			break
		}
		v = r.Elem().Interface()
	}
	return v
}

// compares wants a value that stands beside a column of the unique index to be of the column's
// kind.
func (p *plan) compares(column string, v any) error {
	for i, c := range p.unique {
		if !sameName(c, column) || p.kinds[i].takes(v) {
			continue
		}
		if _, ok := plainValue(v).(time.Time); ok {
			return misuse("%s: the column %s has %s and would round this time, so that a repeat would not find the row; truncate it before (time.Time.Truncate, in UTC), or let the "+
				"column keep microseconds", p.where, c, p.kinds[i])
		}
		return misuse("%s: the column %s has %s, and was given a %T; the database would convert one of them, and may meet another row than the one that is meant: convert it in Go, "+
			"where what is no such value is an error", p.where, c, p.kinds[i], v)
	}
	return nil
}
