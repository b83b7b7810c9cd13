package retrysafe

import (
	"errors"
	"fmt"
)

// Resolution is what a person (or a program that asked the other side) found out about a key in
// doubt.
type Resolution struct {
	// Fence is that of the record that was looked at: if it has changed since, nothing happens
	// ([ErrFenceChanged]).
	Fence Fence
	// Force resolves also under a live lease. The holder may still act: its fence is the only
	// guard.
	Force bool
	// Outcome: Done keeps Answer (an empty one says that it was done and nobody knows the answer),
	// Failed keeps Failure, NotDone lets the next call run, Doubtful leaves it in doubt. NotDone is
	// only safe where the first run is known to be dead, or the resource checks the fence: one that
	// is paused can still act.
	Outcome Outcome
	Answer  Answer
	Failure *Failure
	// Reopen goes with NotDone: [Attempt.Tries] begins with 1 again, for those who give up after so
	// many tries. The next call has to be the same one then: the record keeps its fingerprint and
	// binding.
	Reopen bool
	// By names who resolved, for the record.
	By string
}

func (r *Resolution) validate() error {
	switch {
	case r.Fence == 0:
		return errors.New("retrysafe: Resolve: Fence is zero; give the fence of the record that you looked at")
	case r.Outcome < Done || r.Outcome > Doubtful:
		return fmt.Errorf("retrysafe: Resolve: Outcome is %d; use Done, NotDone, Failed or Doubtful", r.Outcome)
	case r.Reopen && r.Outcome != NotDone:
		return errors.New("retrysafe: Resolve: Reopen goes with NotDone")
	case r.Outcome == Failed && r.Failure == nil:
		return errors.New("retrysafe: Resolve: the outcome is Failed and Failure is nil; say what repeats are told")
	case r.Outcome == Done && r.Answer.Body != nil && !r.Answer.Kept:
		return errors.New("retrysafe: Resolve: Answer has a body and Kept is false; set Kept, or leave the answer empty if nobody knows it")
	case r.Outcome == Done && r.Answer.Kept && r.Answer.Codec == "":
		return errors.New("retrysafe: Resolve: Answer is kept and has no Codec, so that nobody can read it; name the one of the operation, \"json\" as a rule")
	case r.Outcome == Done && len(r.Answer.Body) > MaxStored:
		return fmt.Errorf("retrysafe: Resolve: the answer has %d bytes, at most %d are kept", len(r.Answer.Body), MaxStored)
	}
	return nil
}
