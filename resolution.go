package retrysafe

import (
	"errors"
	"fmt"
)

// Resolution is what an operator, or a program that asked the other side, found out about a key in
// doubt.
type Resolution struct {
	// Fence is the fence of the record that was looked at. If it has changed since, nothing happens
	// ([ErrFenceChanged]).
	Fence Fence
	// Force resolves the key under a live lease too. The holder may still act: only its fence
	// guards the resource.
	Force bool
	// Outcome is the outcome of the work. Done stores Answer (an empty one says that the work was
	// done and its answer is unknown). Failed stores Failure. NotDone lets the next call run.
	// Doubtful leaves the key in doubt. NotDone is safe only if the first run is known to be dead,
	// or if the resource checks the fence: a run that is paused can still act.
	Outcome Outcome
	Answer  Answer
	Failure *Failure
	// Reopen goes with NotDone: [Attempt.Tries] starts at 1 again, for callers that give up after a
	// number of tries. The next call then has to be the same one: the record keeps its fingerprint
	// and binding.
	Reopen bool
	// By names who resolved the key, for the record.
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
