package check

import "fmt"

// finding is what a check decided.
type finding struct {
	verdict  Verdict
	severity Severity
	summary  string
	help     string // in place of the check's Fix, or what an undecided check needs
}

func passedFinding(format string, args ...any) finding {
	return finding{verdict: Passed, summary: fmt.Sprintf(format, args...)}
}

func notedFinding(format string, args ...any) finding {
	return finding{verdict: Noted, summary: fmt.Sprintf(format, args...)}
}

func brokenFinding(severity Severity, format string, args ...any) finding {
	return finding{verdict: Broken, severity: severity, summary: fmt.Sprintf(format, args...)}
}

// undecidedFinding says why, and what to give the checker.
func undecidedFinding(help, format string, args ...any) finding {
	return finding{verdict: Undecided, summary: fmt.Sprintf(format, args...), help: help}
}

// unfitFinding is the finding when the first request of a check does not succeed.
func unfitFinding(r *reply) finding {
	return undecidedFinding("Give a request that is answered with 2xx each time it is sent with a new key.",
		"the first request was answered %s", r)
}

const needOracle = "Count the effects: --count, --count-command, --webhooks or --proxy."

// judgeOnce judges n effects of an operation whose client was answered with success. ok is false
// if that is broken.
func judgeOnce(n int64) (f finding, ok bool) {
	switch {
	case n > 1:
		return brokenFinding(Critical, "one operation took effect %s", timesText(n)), false
	case n == 0:
		return brokenFinding(Critical, "the answer was a success, and the operation never took effect"), false
	}
	return finding{}, true
}
