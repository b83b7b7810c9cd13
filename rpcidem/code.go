package rpcidem

import (
	"fmt"

	"github.com/retrysafe/retrysafe"
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

// outcome returns what the code of a method that ran means for its key, like the status over HTTP.
// A refusal before the work (authentication, permission, rate) did nothing. The error of a crash is
// stored under Refuse, and lets the method run again under Reexecute. Any other code is an answer.
func (c Code) outcome(onDoubt retrysafe.OnDoubt) retrysafe.Outcome {
	switch c {
	case Unauthenticated, PermissionDenied, ResourceExhausted, Aborted, Unimplemented:
		return retrysafe.NotDone
	case Canceled, Unknown, DeadlineExceeded, Internal, Unavailable, DataLoss:
		if onDoubt == retrysafe.Reexecute {
			return retrysafe.NotDone
		}
	}
	return retrysafe.Done
}
