package retrysafe

// Causes of records that are in doubt or released, besides those that [Attempt.LeaveInDoubt] sets.
// See [Record].Cause.
const (
	causeAttempts    = "attempts"     // too many attempts for a worker
	causeResolved    = "resolved"     // resolved by an operator
	causeUnattended  = "unattended"   // released, and no caller got that outcome
	causeUnanswered  = "unanswered"   // a claim whose reply was lost, given back
	causeNothingDone = "nothing-done" // released, and its caller got that outcome
)
