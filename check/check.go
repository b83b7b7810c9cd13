package check

import "context"

// Check is one question about an API. [Checks] has them all.
type Check struct {
	// ID is the name of the check in options and reports: lower case, words with hyphens.
	ID string
	// Title says in one line what a right API does.
	Title string
	// Severity is the harm of the worst that the check can find.
	Severity Severity
	// Sends has what is sent, one sentence a step.
	Sends []string
	// Why says which accident of real clients the check stands for.
	Why string
	// Wrong has what counts as broken, one sentence each.
	Wrong []string
	// Fix says how a service, or retrysafe in front of it, is made right.
	Fix string
	// Requests is the largest number of requests that the check sends.
	Requests int

	run func(ctx context.Context, s *session) finding
}

// Page returns the address of what docs/checks.md says of the check.
func (c *Check) Page() string {
	return "https://github.com/retrysafe/retrysafe/blob/main/docs/checks.md#" + c.ID
}
