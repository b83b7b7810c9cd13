package check

import "fmt"

// Verdict is what a check found.
type Verdict uint8

// The verdicts.
const (
	// Passed: the API did what makes a retry safe.
	Passed Verdict = iota + 1
	// Noted: nothing is wrong, and there is something that clients have to know.
	Noted
	// Broken: a client that retries is harmed. Result has the requests that show it.
	Broken
	// Undecided: the check lacks something, and Result.Help says what to give.
	Undecided
	// Skipped: Options left the check out.
	Skipped
)

var verdicts = map[Verdict]string{
	Passed: "passed", Noted: "noted", Broken: "broken", Undecided: "undecided", Skipped: "skipped",
}

// String returns the verdict as one word in lower case.
func (v Verdict) String() string { return verdicts[v] }

// MarshalText returns the word of String.
func (v Verdict) MarshalText() ([]byte, error) {
	if s := v.String(); s != "" {
		return []byte(s), nil
	}
	return nil, fmt.Errorf("check: %d is no verdict", uint8(v))
}

// Severity is the harm that a broken check does.
type Severity uint8

// The severities.
const (
	// Minor: a client gets less than it could use.
	Minor Severity = iota + 1
	// Serious: a client gets an answer that is not true.
	Serious
	// Critical: an operation takes effect twice or never, or an answer reaches a stranger.
	Critical
)

var severities = map[Severity]string{Minor: "minor", Serious: "serious", Critical: "critical"}

// String returns the severity as one word in lower case.
func (s Severity) String() string { return severities[s] }

// MarshalText returns the word of String.
func (s Severity) MarshalText() ([]byte, error) {
	if t := s.String(); t != "" {
		return []byte(t), nil
	}
	return nil, fmt.Errorf("check: %d is no severity", uint8(s))
}
