package guard

import (
	"database/sql/driver"
	"maps"
	"math"
	"reflect"
	"slices"
)

// Set maps the columns of a write to their values. Values are parameters of the statement, never a
// part of its text. Any value that the driver accepts is allowed.
type Set map[string]any

// addedAmount is the value that Add returns.
type addedAmount struct{ n any }

// Add adds n, which may be negative, to a column: `points = points + n`. NULL counts as 0. n is a
// Go number, or a driver.Valuer for decimals.
//
// Each run adds again, so a write with Add needs a guard that detects duplicates.
func Add(n any) any { return addedAmount{n} }

func (a addedAmount) validate(column string) error {
	if _, ok := a.n.(driver.Valuer); ok {
		return nil
	}
	switch v := reflect.ValueOf(a.n); v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return misuseError("Add for the column %s was given %v, which is no amount; look at how it was computed", column, f)
		}
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	}
	return misuseError("Add for the column %s was given a %T; give it a number, or a driver.Valuer for a decimal", column, a.n)
}

// sortedColumns checks a Set and returns its columns in a fixed order, so that equal calls send
// equal statements. own are the columns that the guard writes itself.
func (s Set) sortedColumns(what string, mayAdd bool, own ...string) ([]string, error) {
	all := slices.AppendSeq(make([]string, 0, len(s)), maps.Keys(s))
	slices.Sort(all)
	for i, c := range all {
		if err := checkName("a column", c); err != nil {
			return nil, err
		}
		if hasName(own, c) {
			return nil, misuseError("the column %s is the guard's own, and stands in %s too; leave it out there", c, what)
		}
		if hasName(all[:i], c) {
			return nil, misuseError("the column %s stands twice in %s, in upper and lower case; leave one out", c, what)
		}
		add, ok := s[c].(addedAmount)
		if !ok {
			continue
		}
		if !mayAdd {
			return nil, misuseError("the column %s of %s has an Add, and there is nothing yet to add to; give it its first value", c, what)
		}
		if err := add.validate(c); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkID refuses empty ids; most of them come from a field that the caller forgot to set.
func checkID(id any) error {
	if id == nil {
		return misuseError("the id is nil; give the id of the one row that is meant")
	}
	v := reflect.ValueOf(id)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	// the driver may get another value than the id itself
	made := reflect.ValueOf(plainValue(id))
	if isNull(id) || v.IsZero() || !made.IsValid() || made.IsZero() || made.Kind() == reflect.Slice && made.Len() == 0 {
		return misuseError("the id is the zero value of %T; give the id of the one row that is meant", id)
	}
	return nil
}

// isNull reports whether the database would store the value as NULL.
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
