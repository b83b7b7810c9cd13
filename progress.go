package retrysafe

import "github.com/retrysafe/retrysafe/internal/journal"

// Progress is what a call has done so far, as its record stores it until the call has ended. It is
// for lists, for [Policy].Reconcile, and for an operator who resolves a key in doubt by hand.
type Progress struct {
	// Plan is the [Policy].Steps of the attempt that stored it; nil if that declared none.
	Plan []string
	// Input is the input of a resumable operation, in the engine's codec. Its Codec is empty if
	// none is stored.
	Input Answer
	// Steps are the steps that were finished, in the order in which they were, and those under
	// [AtMostOnce] that were begun.
	Steps []StepRecord
	// Reopened is the number of the attempt that last reopened the record (see
	// [Resolution].Reopen). [Attempt.Tries] counts from the next one. Zero means none.
	Reopened int
}

// StepRecord is one step of a half-done call.
type StepRecord struct {
	Name string
	// Finished is false for a step under [AtMostOnce] that was begun and whose outcome is unknown.
	Finished bool
	// Answer is what the step returned. It is not stored if all answers together were too large.
	Answer Answer
}

// ProgressOf returns what the call of a record has done so far, if it has not ended. It returns the
// zero Progress if nothing is stored, and for a finished record. Records from lists do not have it:
// look the record up. The returned bytes are parts of the record's.
func ProgressOf(r *Record) (Progress, error) {
	if r.State.Finished() || r.Answer.Codec == "" {
		return Progress{}, nil
	}
	p, err := journal.Parse(&r.Answer)
	return progressOf(p), err
}

// progressOf returns the progress of a journal.
func progressOf(p journal.Progress) Progress {
	own := Progress{Plan: p.Plan, Input: p.Input, Reopened: p.Reopened}
	for _, s := range p.Steps {
		own.Steps = append(own.Steps, StepRecord(s))
	}
	return own
}
