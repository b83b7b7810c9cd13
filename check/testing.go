package check

import "context"

// T is what Run needs of a test: a *testing.T is one.
type T interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Run examines target and fails t for each check that is broken, with the requests that show it,
// and if no check could be decided. It logs what is noted and what could not be decided.
func Run(t T, target Target, options *Options) *Report {
	t.Helper()
	report, err := Examine(t.Context(), target, options)
	if err != nil {
		t.Fatalf("%s", err)
		return nil
	}
	for i := range report.Results {
		switch r := &report.Results[i]; r.Verdict {
		case Broken:
			t.Errorf("%s (%s): %s\n%s\n%s\n%s", r.ID, r.Severity, r.Summary, r.Reproduction(), r.Help, r.Page)
		case Noted, Undecided:
			t.Logf("%s, %s: %s %s", r.ID, r.Verdict, r.Summary, r.Help)
		}
	}
	if err := report.Undecided(); err != nil {
		t.Errorf("%s", err)
	}
	return report
}
