package retrysafe

// OnDoubt is what happens to work that may have taken effect when nobody knows: its process died,
// its lease lapsed, its answer was cut.
type OnDoubt uint8

// The policies on doubt.
const (
	// Refuse starts work at most once: a call in doubt answers [ErrInDoubt] until it is resolved.
	// It is the default.
	Refuse OnDoubt = iota + 1
	// Reexecute starts it again: at least once, with suppression of the repeats that can be told.
	// For work that does no harm twice.
	Reexecute
)

// Outcome is what became of the work, as far as it is known.
type Outcome uint8

// The outcomes of work.
const (
	// Done: it happened.
	Done Outcome = iota + 1
	// NotDone: certainly nothing happened; the record is released and a retry runs again.
	NotDone
	// Failed: a final refusal, kept and given to every repeat.
	Failed
	// Doubtful: it may have happened; [Policy].OnDoubt decides.
	Doubtful
)
