package fingerprint

import (
	"errors"
	"fmt"
)

// Errors of Sum and Form; use errors.Is. Their texts have positions and counts, never names or
// values of the request.
var (
	// ErrMalformed means that the query or the body cannot be read, or that programs read it
	// differently. Answer 400.
	ErrMalformed = errors.New("fingerprint: the request cannot be read in one way only")
	// ErrTooLarge means that the request exceeds MaxBytes or MaxDepth of the rule. Answer 413, or
	// raise the limit.
	ErrTooLarge = errors.New("fingerprint: the request passes a limit of the rule")
	// ErrNothingKept means that the rule has Only, and that the request has none of its fields. All
	// such requests would have one digest, and would count as duplicates of each other. Answer 400,
	// or name a field that every request has.
	ErrNothingKept = errors.New("fingerprint: the request has none of the fields that Only names")
)

func malformedError(where string, at int, what string) error {
	return fmt.Errorf("%w: %s, byte %d: %s", ErrMalformed, where, at, what)
}
