package retrysafe

// Causes of records in doubt or released, beside those that [Attempt.Doubt] is given; see
// [Record].Cause.
const (
	causeAttempts    = "attempts"     // too many for a worker
	causeResolved    = "resolved"     // by a person
	causeUnattended  = "unattended"   // released, and no caller was told so
	causeUnanswered  = "unanswered"   // a claim whose reply was lost, given back
	causeNothingDone = "nothing-done" // released, and its caller was told so
)
