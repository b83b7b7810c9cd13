// Package place gives errors about a text their place in it: line and column.
package place

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is an error at a place.
type Error struct {
	at  int
	err error
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Fault returns an error at a place, in bytes from the begin.
func Fault(at int, format string, args ...any) error {
	return &Error{at, fmt.Errorf(format, args...)}
}

// Named puts line and column, from 1, in front of an error that [Fault] or [OfJSON] has made. A
// column is a character.
func Named(src string, err error) error {
	var p *Error
	if !errors.As(err, &p) {
		return err
	}
	before := src[:min(p.at, len(src))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Errorf("line %d, column %d: %w", line, column, p.err)
}

// OfJSON gives an error of encoding/json its place.
func OfJSON(data []byte, err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return Fault(max(0, int(syntax.Offset)-1), "%w", err)
	case errors.As(err, &wrong):
		return Fault(max(0, int(wrong.Offset)-1), "/%s is a JSON %s of the wrong kind",
			strings.ReplaceAll(wrong.Field, ".", "/"), wrong.Value)
	}
	return Fault(len(data), "%w", err)
}
