package guard

import (
	"database/sql/driver"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// columnKind is the type of a column, as far as it decides how a database compares the column with
// a value of another type. To MySQL "7 or so" is the number 7, and 123 equals the text "0123". To
// SQLite and PostgreSQL " 1" is 1.
type columnKind string

const (
	wholeNumbers columnKind = "integer"
	// with a fraction or decimals; drivers accept decimals as text
	numbers columnKind = "number"
	texts   columnKind = "text" // also bytes
	days    columnKind = "day"
	// moments is followed by the number of digits of a second that the column keeps. The column
	// rounds a time that has more digits, and the rounded time is not equal to the original.
	moments = "moment "
)

func (k columnKind) String() string {
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

// accepts reports whether the database compares a value with the column by type. Other kinds of
// columns and other values, such as times, are left to the driver and the database.
func (k columnKind) accepts(v any) bool {
	v = plainValue(v)
	if at, ok := v.(time.Time); ok {
		return k.keepsExactly(at)
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
		const exact = 1 << 53 // above it a float represents several integers
		return !isText && (!r.CanFloat() || r.Float() == math.Trunc(r.Float()) && math.Abs(r.Float()) < exact)
	case numbers:
		return !isText || isDecimal(text)
	case texts:
		return !r.CanInt() && !r.CanUint() && !r.CanFloat() && r.Kind() != reflect.Bool
	}
	return true
}

// keepsExactly reports whether a column stores a time without rounding it.
func (k columnKind) keepsExactly(at time.Time) bool {
	unit := 24 * time.Hour
	if digits, ok := strings.CutPrefix(string(k), moments); ok {
		unit = time.Second
		for n, err := strconv.Atoi(digits); err == nil && n > 0; n-- {
			unit /= 10
		}
	} else if k != days {
		return true
	}
	// drivers always cut off what is finer than microseconds
	return unit <= time.Microsecond || at.Equal(at.Truncate(unit))
}

// isDecimal reports whether every database reads all of a text as the same number.
func isDecimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole, fraction, dotted := strings.Cut(s, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	return digits(whole) && (!dotted || digits(fraction))
}

// plainValue returns the value that the driver gets in the end: it follows pointers and calls
// driver.Valuer. It returns nil if the value is NULL.
func plainValue(v any) any {
	const most = 8 // pointers to pointers, and Valuers that return Valuers
	for range most {
		r := reflect.ValueOf(v)
		if !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil() {
			return nil
		}
		if valuer, ok := v.(driver.Valuer); ok {
			made, err := valuer.Value()
			if err != nil {
				return v // the driver will report it
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

// checkKind returns an error if a value that is compared with a column of the unique index is not
// of the column's kind.
func (p *plan) checkKind(column string, v any) error {
	for i, c := range p.unique {
		if !sameName(c, column) || p.kinds[i].accepts(v) {
			continue
		}
		if _, ok := plainValue(v).(time.Time); ok {
			return misuseError("%s: the column %s has %s and would round this time, so that a duplicate would not find the row; truncate it before (time.Time.Truncate, in UTC), or let the "+
				"column keep microseconds", p.tableText, c, p.kinds[i])
		}
		return misuseError("%s: the column %s has %s, and was given a %T; the database would convert one of them, and may meet another row than the one that is meant: convert it in Go, "+
			"where what is no such value is an error", p.tableText, c, p.kinds[i], v)
	}
	return nil
}
