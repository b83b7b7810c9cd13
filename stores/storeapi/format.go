package storeapi

import (
	"fmt"
	"log/slog"

	"github.com/retrysafe/retrysafe/internal/enum"
)

// String returns the operation and the state of the record, without key and answer, which must not
// be printed by mistake. JSON and other encodings do show them.
func (r Record) String() string {
	state := r.State.String()
	if r.InDoubt() {
		state = "in doubt"
	}
	return fmt.Sprintf("%s: %s, attempt %d, fence %d, cause %q", r.Key.Operation, state, r.Attempt, r.Fence, r.Cause)
}

// GoString returns String.
func (r Record) GoString() string { return r.String() }

// LogValue returns String.
func (r Record) LogValue() slog.Value { return slog.StringValue(r.String()) }

// String returns the codec and the size of the answer, without its body.
func (a Answer) String() string {
	return fmt.Sprintf("answer (%s, %d bytes, kept %v)", a.Codec, max(a.Size, int64(len(a.Body))), a.Kept)
}

// GoString returns String.
func (a Answer) GoString() string { return a.String() }

// LogValue returns String.
func (a Answer) LogValue() slog.Value { return slog.StringValue(a.String()) }

// String returns the constant's name in words.
func (o OnDoubt) String() string { return enum.Name(o, "default", "refuse", "reexecute") }

// String returns the constant's name in words.
func (s Status) String() string {
	return enum.Name(s, "none", "acquired", "in progress", "finished", "in doubt", "mismatch", "principal changed", "fence changed", "not issued",
		"already issued", "owner spent")
}
