package retrysafe

// OutcomeOfError is the trace's name for the error of a call that ran nothing.
var OutcomeOfError = outcomeName

// KnownErrors returns the errors of the table, and the words for the traces.
func KnownErrors() (errs []error, outcomes []string) {
	for _, e := range knownErrors {
		errs, outcomes = append(errs, e.err), append(outcomes, e.outcome)
	}
	return errs, outcomes
}
