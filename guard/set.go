package guard

import (
	"database/sql/driver"
	"maps"
	"math"
	"reflect"
	"slices"
)

// Set is what a write puts into which columns. Values are parameters of the statement, never a part
// of its text; what the driver takes may be one.
type Set map[string]any

// addition is what Add makes.
type addition struct{ n any }

// Add makes a column grow by n, which may be negative: `points = points + n`. A NULL counts as 0. n
// is a number of Go, or a driver.Valuer for decimals.
//
// Each time it is carried out it adds: it is why the writes that take it need a guard against
// repeats.
func Add(n any) any { return addition{n} }

func (a addition) check(column string) error {
	if _, ok := a.n.(driver.Valuer); ok {
		return nil
	}
	switch v := reflect.ValueOf(a.n); v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return misuse("Add for the column %s was given %v, which is no amount; look at how it was computed", column, f)
		}
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	}
	return misuse("Add for the column %s was given a %T; give it a number, or a driver.Valuer for a decimal", column, a.n)
}

// columns checks a Set, and tells its columns in an order that does not change, so that equal calls
// are equal statements. own are the columns that the guard writes itself.
func (s Set) columns(what string, mayAdd bool, own ...string) ([]string, error) {
	all := slices.AppendSeq(make([]string, 0, len(s)), maps.Keys(s))
	slices.Sort(all)
	for i, c := range all {
		if err := checkName("a column", c); err != nil {
			return nil, err
		}
		if hasName(own, c) {
			return nil, misuse("the column %s is the guard's own, and stands in %s too; leave it out there", c, what)
		}
		if hasName(all[:i], c) {
			return nil, misuse("the column %s stands twice in %s, in upper and lower case; leave one out", c, what)
		}
		add, ok := s[c].(addition)
		if !ok {
			continue
		}
		if !mayAdd {
			return nil, misuse("the column %s of %s has an Add, and there is nothing yet to add to; give it its first value", c, what)
		}
		if err := add.check(c); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkID refuses ids that are none: most of them come from a field that was forgotten.
func checkID(id any) error {
	if id == nil {
		return misuse("the id is nil; give the id of the one row that is meant")
	}
	v := reflect.ValueOf(id)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	// the id itself may be another value than what the driver is given
	made := reflect.ValueOf(plainValue(id))
	if isNull(id) || v.IsZero() || !made.IsValid() || made.IsZero() || made.Kind() == reflect.Slice && made.Len() == 0 {
		return misuse("the id is the zero value of %T; give the id of the one row that is meant", id)
	}
	return nil
}

// isNull tells whether a value would be NULL in the database.
func isNull(v any) bool {
	if v == nil {
		return true
	}
	if valuer, ok := v.(driver.Valuer); ok {
		if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
			return true
		}
		made, err := valuer.Value()
		return err == nil && made == nil
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return r.IsNil()
	}
	return false
}
