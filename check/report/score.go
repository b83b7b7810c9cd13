package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/check"
)

// Score returns the result of an examination in one line: "14 of 18 passed, 2 broken (1 critical),
// 2 undecided; 312 requests, 4.1 s". Checks that were skipped are not among the 18.
func Score(r *check.Report) string {
	skipped := r.Count(check.Skipped)
	parts := []string{fmt.Sprintf("%d of %d passed", r.Count(check.Passed), len(r.Results)-skipped)}
	if n := r.Count(check.Broken); n > 0 {
		part := fmt.Sprintf("%d broken", n)
		if c := countSeverity(r, check.Critical); c > 0 {
			part += fmt.Sprintf(" (%d critical)", c)
		}
		parts = append(parts, part)
	}
	for _, v := range []check.Verdict{check.Noted, check.Undecided, check.Skipped} {
		if n := r.Count(v); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return fmt.Sprintf("%s; %s, %s", strings.Join(parts, ", "), countNoun(r.Requests, "request"), durationText(r.Took))
}

// headlineOf answers the question of the examination in one sentence.
func headlineOf(r *check.Report) string {
	switch undecided := r.Count(check.Undecided); {
	case countSeverity(r, check.Critical) > 0:
		return "Not safe to retry: an operation can take effect twice or never, or an answer can reach a stranger."
	case countSeverity(r, check.Serious) > 0:
		return "A retry can get an answer that is not true."
	case r.Count(check.Broken) > 0:
		return "Safe to retry, but clients get less than they could use."
	case r.Interrupted:
		return fmt.Sprintf("Interrupted: %s done, no fault found so far.", countNoun(len(r.Results), "check"))
	case undecided == 0 && r.Count(check.Passed)+r.Count(check.Noted) == 0:
		return "Nothing was checked."
	case r.Count(check.Passed)+r.Count(check.Noted) == 0:
		return "Nothing was decided, so this says nothing about the API."
	case undecided > 0:
		return fmt.Sprintf("No fault found, but %s could not be decided.", countNoun(undecided, "check"))
	}
	return "Safe to retry: no check found a fault."
}

// countSeverity returns how many results are broken with this severity.
func countSeverity(r *check.Report, s check.Severity) int {
	n := 0
	for i := range r.Results {
		if r.Results[i].Verdict == check.Broken && r.Results[i].Severity == s {
			n++
		}
	}
	return n
}

// verdictLabel is the verdict, with the severity of what is broken.
func verdictLabel(r *check.Result) string {
	if r.Verdict == check.Broken {
		return fmt.Sprintf("%s (%s)", r.Verdict, r.Severity)
	}
	return r.Verdict.String()
}

// marks are the signs of the verdicts. They differ without colour too.
var verdictMarks = map[check.Verdict]string{
	check.Passed: "✓", check.Noted: "!", check.Broken: "✗", check.Undecided: "?", check.Skipped: "-",
}

// durationText returns d in the unit that a person reads: 12 ms, 4.1 s, 83 s.
func durationText(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

func countNoun(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// reportRemarks are sentences about the whole examination.
func reportRemarks(r *check.Report) []string {
	if !r.Interrupted {
		return r.Notes
	}
	return append([]string{"The examination was interrupted: checks are missing."}, r.Notes...)
}
