package fingerprint

import (
	"errors"
	"fmt"
)

// The errors of Sum and Form, told apart with errors.Is. Their texts have places and counts, never
// names or values of the request.
var (
	// ErrMalformed: the query or the body cannot be read, or programs differ in how they read it.
	// Answer 400.
	ErrMalformed = errors.New("fingerprint: the request cannot be read in one way only")
	// ErrTooLarge: the request passes MaxBytes or MaxDepth of the rule. Answer 413, or raise the
	// limit.
	ErrTooLarge = errors.New("fingerprint: the request passes a limit of the rule")
	// ErrNothingKept: the rule has Only, and the request has none of its fields. All such requests
	// would have one digest, and be taken for repeats of each other. Answer 400, or name a field
	// that each request has.
	ErrNothingKept = errors.New("fingerprint: the request has none of the fields that Only names")
)

func malformed(where string, at int, what string) error {
	return fmt.Errorf("%w: %s, byte %d: %s", ErrMalformed, where, at, what)
}
