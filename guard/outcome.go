package guard

import (
	"errors"
	"fmt"
)

// Outcome is the result of a successful guarded write. Everything else is an error, so `if err !=
// nil` is always correct.
type Outcome uint8

const (
	// Applied means that this call has written. The caller must commit its transaction.
	Applied Outcome = iota + 1
	// AlreadyApplied means that the same request has written before, and that this call has written
	// nothing. Skip the request's other writes to the database, and answer as if they had been
	// done.
	AlreadyApplied
)

// String returns the constant's name in words.
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case AlreadyApplied:
		return "already applied"
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}

// Errors of guards. A guard wraps each in an error that says which table it is about, and what to
// do. Roll back after any of them.
var (
	// ErrStale means that the row changed after the client read it. Read it again, and let the
	// client decide again.
	ErrStale = errors.New("guard: another writer was first")
	// ErrMissing means that there is no row with this id.
	ErrMissing = errors.New("guard: no such row")
	// ErrRefused means that the condition does not hold. Nothing was changed. It does not mean that
	// the request is a duplicate.
	ErrRefused = errors.New("guard: the condition does not hold")
	// ErrIllegal means that the row's state does not lead to the requested one.
	ErrIllegal = errors.New("guard: the move is not allowed")
	// ErrFenced means that a later holder has written. This holder must stop.
	ErrFenced = errors.New("guard: the holder is out of date")
	// ErrConflict means that there is a row with the same values in a unique index, and that it is
	// not this request's.
	ErrConflict = errors.New("guard: another request's row is there")
	// ErrLocked means that another transaction has locked the row, or SQLite's file, for longer
	// than this one can wait. The same call in a new transaction may succeed.
	ErrLocked = errors.New("guard: another transaction is in the way")
	// ErrMisuse means that the program or the table is not as the guard needs it. The text says
	// what to change. A retry does not help.
	ErrMisuse = errors.New("guard: misuse")
)

// failure is an error of one kind, with a text that says what to do, and the driver's error if
// there is one. It leaves out the driver's text, which may contain values of the row.
type failure struct {
	kind, cause error
	text        string
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() []error {
	if f.cause == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.cause}
}

// newFailure returns an error of the given kind. Its text is the kind's own text and then format.
func newFailure(kind, cause error, format string, args ...any) error {
	return &failure{kind, cause, kind.Error() + ": " + fmt.Sprintf(format, args...)}
}

func misuseError(format string, args ...any) error {
	return newFailure(ErrMisuse, nil, format, args...)
}
