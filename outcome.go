package retrysafe

import (
	"github.com/retrysafe/retrysafe/internal/enum"
	"github.com/retrysafe/retrysafe/storeapi"
)

// OnDoubt is the policy for work that may have taken effect and whose outcome is unknown, because
// its process died, its lease expired or its answer was cut off.
type OnDoubt = storeapi.OnDoubt

// The policies for an outcome in doubt.
const (
	// Refuse starts the work at most once: calls for a key in doubt get [ErrInDoubt] until it is
	// resolved. It is the default.
	Refuse = storeapi.Refuse
	// Reexecute starts the work again, so it runs at least once. Duplicates that can be recognised
	// are suppressed. Use it for work that does no harm if it runs twice.
	Reexecute = storeapi.Reexecute
)

// Outcome is the outcome of the work, as far as it is known. [Policy].Classify returns it for an
// error, the marks [NothingDone], [Permanent] and [InDoubt] say it, and a [Resolution] stores it.
type Outcome uint8

// The outcomes of work.
const (
	// Done means that the work took effect. The record is completed.
	Done Outcome = iota + 1
	// NotDone means that certainly nothing happened. The record is released, and a retry runs
	// again.
	NotDone
	// Failed means that the work refused for good. The refusal is stored, and every duplicate gets
	// it.
	Failed
	// Doubtful means that the work may have taken effect. [Policy].OnDoubt decides.
	Doubtful
)

// String returns the constant's name in words.
func (o Outcome) String() string {
	return enum.Name(o, "none", "done", "not done", "failed", "doubtful")
}
