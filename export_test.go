package retrysafe

// OutcomeOfError is the trace's name for the error of a call that ran nothing.
var OutcomeOfError = outcome
