package check

import "fmt"

// finding is what a check decided.
type finding struct {
	verdict  Verdict
	severity Severity
	summary  string
	help     string // in place of the check's Fix, or what an undecided check needs
}

func passed(format string, args ...any) finding {
	return finding{verdict: Passed, summary: fmt.Sprintf(format, args...)}
}

func noted(format string, args ...any) finding {
	return finding{verdict: Noted, summary: fmt.Sprintf(format, args...)}
}

func broken(severity Severity, format string, args ...any) finding {
	return finding{verdict: Broken, severity: severity, summary: fmt.Sprintf(format, args...)}
}

// undecided says why, and what to give the checker.
func undecided(help, format string, args ...any) finding {
	return finding{verdict: Undecided, summary: fmt.Sprintf(format, args...), help: help}
}

// unfit is the finding when the first request of a check does not succeed.
func unfit(r *reply) finding {
	return undecided("Give a request that is answered with 2xx each time it is sent with a new key.",
		"the first request was answered %s", r)
}

const needOracle = "Count the effects: --count, --count-command, --webhooks or --proxy."

// countedOnce judges n effects of an operation whose client was answered with success. ok is false
// if that is broken.
func countedOnce(n int64) (f finding, ok bool) {
	switch {
	case n > 1:
		return broken(Critical, "one operation took effect %s", times(n)), false
	case n == 0:
		return broken(Critical, "the answer was a success, and the operation never took effect"), false
	}
	return finding{}, true
}
