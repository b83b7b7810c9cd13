package guard

import (
	"errors"
	"fmt"
)

// Outcome is how a guarded write ended well. All else is an error, so that `if err != nil` is never
// wrong.
type Outcome uint8

const (
	// Applied says that this call has written, and its transaction has to be committed.
	Applied Outcome = iota + 1
	// Repeat says that the same request has written before, and that this call has written nothing.
	// Leave out what else the request does to the database, and answer as if it had been done.
	Repeat
)

func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case Repeat:
		return "repeat"
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}

// Errors of guards. Each comes wrapped in one that says on which table, and what to do. After any
// of them roll back.
var (
	// ErrStale: the row was changed since the request was decided on. Read it again, and let the
	// client decide again.
	ErrStale = errors.New("guard: another writer was first")
	// ErrMissing: there is no row with this id.
	ErrMissing = errors.New("guard: no such row")
	// ErrRefused: the condition does not hold, and nothing was changed. It is no sign of a repeat.
	ErrRefused = errors.New("guard: the condition does not hold")
	// ErrIllegal: the state that the row is in does not lead to the one asked for.
	ErrIllegal = errors.New("guard: the move is not allowed")
	// ErrFenced: a later holder has written. This one must stop.
	ErrFenced = errors.New("guard: the holder is out of date")
	// ErrConflict: a row with the same values in a unique index is there, and is not this
	// request's.
	ErrConflict = errors.New("guard: another request's row is there")
	// ErrLocked: another transaction has the row, or SQLite's file, for longer than this one may
	// wait. The same in a new transaction may succeed.
	ErrLocked = errors.New("guard: another transaction is in the way")
	// ErrMisuse: the program or the table is not as the guard needs it. The text says what to
	// change; trying again does not help.
	ErrMisuse = errors.New("guard: misuse")
)

// failure is an error of a kind, with a text that says what to do, and the driver's error where
// there is one. The driver's text is left out: it may have values of the row.
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

// fail is an error of a kind; format goes on behind the kind's own text.
func fail(kind, cause error, format string, args ...any) error {
	return &failure{kind, cause, kind.Error() + ": " + fmt.Sprintf(format, args...)}
}

func misuse(format string, args ...any) error { return fail(ErrMisuse, nil, format, args...) }
