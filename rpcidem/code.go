package rpcidem

import (
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/notrun"
)

// Code is a status code of gRPC (https://grpc.io/docs/guides/status-codes/). Those of Connect have
// the same numbers.
type Code uint32

// The codes.
const (
	OK Code = iota
	Canceled
	Unknown
	InvalidArgument
	DeadlineExceeded
	NotFound
	AlreadyExists
	PermissionDenied
	ResourceExhausted
	FailedPrecondition
	Aborted
	OutOfRange
	Unimplemented
	Internal
	Unavailable
	DataLoss
	Unauthenticated
)

var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// String returns the name in capitals.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("CODE_%d", uint32(c))
}

// NotRun reports whether a method answers with c before it acts, so that its key is released under
// every policy: UNAUTHENTICATED, PERMISSION_DENIED, RESOURCE_EXHAUSTED and UNIMPLEMENTED. See
// docs/outcomes.md.
func (c Code) NotRun() bool { return notrun.Code(uint32(c)) }

// mayHaveActed reports whether Options.NotRun may not have c under Refuse: libraries answer it by
// themselves for a method that has begun.
func (c Code) mayHaveActed() bool {
	switch c {
	case Canceled, Unknown, DeadlineExceeded, Internal, DataLoss:
		return true
	}
	return false
}

// outcome returns what the code of a method that ran means for its key, like the status over HTTP.
// A conflict and the error of a crash are stored under Refuse, since the method may have acted, and
// let it run again under Reexecute. Any other code is an answer.
func (c Code) outcome(onDoubt retrysafe.OnDoubt) retrysafe.Outcome {
	if c.NotRun() || onDoubt == retrysafe.Reexecute && notrun.CodeUnderReexecute(uint32(c)) {
		return retrysafe.NotDone
	}
	return retrysafe.Done
}
