package main

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/check"
)

// renderReport returns the report as Markdown: one table of verdicts, and for each subject what was
// seen where a check did not simply pass.
func renderReport(all []subjectReport) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "| check |")
	for _, e := range all {
		fmt.Fprintf(&b, " %s |", e.name)
	}
	fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---|", len(all)))
	for i, c := range check.Checks() {
		fmt.Fprintf(&b, "| %s |", c.ID)
		for _, e := range all {
			fmt.Fprintf(&b, " %s |", verdictCell(&e.report.Results[i]))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\n*%s, %s/%s, %s.*\n", time.Now().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.Version())
	for _, e := range all {
		writeFindings(&b, &e)
	}
	return b.Bytes()
}

// verdictCell is a cell of the table: the severity stands where something is broken.
func verdictCell(r *check.Result) string {
	if r.Verdict == check.Broken {
		return "**broken** (" + r.Severity.String() + ")"
	}
	return r.Verdict.String()
}

func writeFindings(b *bytes.Buffer, e *subjectReport) {
	fmt.Fprintf(b, "\n### %s\n\n| what | |\n|---|---|\n| versions | %s |\n| set up | %s |\n| requests | %d |\n",
		e.name, e.version, e.configuration, e.report.Requests)
	fmt.Fprintf(b, "| verdicts | %d passed, %d noted, %d broken, %d undecided |\n",
		e.report.Count(check.Passed), e.report.Count(check.Noted), e.report.Count(check.Broken), e.report.Count(check.Undecided))
	fmt.Fprintf(b, "\n| check | verdict | what was seen |\n|---|---|---|\n")
	for i := range e.report.Results {
		if r := &e.report.Results[i]; r.Verdict != check.Passed {
			fmt.Fprintf(b, "| %s | %s | %s |\n", r.ID, verdictCell(r), strings.ReplaceAll(r.Summary, "|", "\\|"))
		}
	}
}
