// Package assert has the few comparisons that tests here need often. If one fails, it ends the test
// and says what was checked, what it got and what it wanted. Call them only on the test's own
// goroutine.
package assert

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// T has the methods of a test that an assertion needs; *testing.T and *testing.B implement it.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Equal wants got to be deeply equal to want; nil and empty slices differ.
func Equal[V any](t T, got, want V, what string, args ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %s, want %s", fmt.Sprintf(what, args...), printValue(got), printValue(want))
	}
}

// NotEqual wants got to differ from other.
func NotEqual[V any](t T, got, other V, what string, args ...any) {
	t.Helper()
	if reflect.DeepEqual(got, other) {
		t.Fatalf("%s: got %s, want anything else", fmt.Sprintf(what, args...), printValue(got))
	}
}

// True wants ok; what describes the expectation.
func True(t T, ok bool, what string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf("got false, want true: %s", fmt.Sprintf(what, args...))
	}
}

// NoError wants err to be nil.
func NoError(t T, err error, what string, args ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: got error %q, want none", fmt.Sprintf(what, args...), err)
	}
}

// ErrorIs wants err to be target or to wrap it.
func ErrorIs(t T, err, target error, what string, args ...any) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: got error %s, want %q", fmt.Sprintf(what, args...), printValue(err), target)
	}
}

// Contains wants s to contain part.
func Contains(t T, s, part, what string, args ...any) {
	t.Helper()
	if !strings.Contains(s, part) {
		t.Fatalf("%s: got %s, want it to contain %q", fmt.Sprintf(what, args...), printValue(s), part)
	}
}

// maxShown limits how much of a value a failure shows; answers may have a megabyte.
const maxShown = 300

func printValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case error:
		return fmt.Sprintf("%q", v.Error())
	case string:
		return noteSize(fmt.Sprintf("%q", cutHead(v)), len(v))
	case []byte:
		if v == nil {
			return "nil bytes"
		}
		return noteSize(fmt.Sprintf("%q", cutHead(string(v))), len(v))
	}
	s := fmt.Sprintf("%+v", v)
	return noteSize(cutHead(s), len(s))
}

func cutHead(s string) string { return s[:min(len(s), maxShown)] }

func noteSize(shown string, size int) string {
	if size <= maxShown {
		return shown
	}
	return fmt.Sprintf("%s… (%d bytes)", shown, size)
}
