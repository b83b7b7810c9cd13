// Package dberr reads the database's error code from a driver's error, for any driver. It imports
// no driver, since that would make the driver a dependency.
package dberr

import (
	"errors"
	"reflect"
)

// Field looks for a field of this kind with one of the names in the errors that err wraps.
func Field(err error, kind reflect.Kind, names ...string) (v reflect.Value, ok bool) {
	for err != nil {
		s := reflect.Indirect(reflect.ValueOf(err))
		if s.IsValid() && s.Kind() == reflect.Struct {
			for _, name := range names {
				if f := s.FieldByName(name); f.IsValid() && f.Kind() == kind {
					return f, true
				}
			}
		}
		if many, is := err.(interface{ Unwrap() []error }); is {
			for _, e := range many.Unwrap() {
				if v, ok := Field(e, kind, names...); ok {
					return v, true
				}
			}
			return v, false
		}
		err = errors.Unwrap(err)
	}
	return v, false
}

// MySQLNumber returns the error number of MySQL or MariaDB, or zero. The driver's error type has it
// in a field, and no method for it.
func MySQLNumber(err error) uint16 {
	if f, ok := Field(err, reflect.Uint16, "Number"); ok {
		return uint16(f.Uint()) //nolint:gosec // it is a uint16
	}
	return 0
}

// SQLState returns PostgreSQL's error code, or "".
func SQLState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// SQLiteCode returns SQLite's extended result code, or zero.
func SQLiteCode(err error) int {
	var e interface{ Code() int }
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
