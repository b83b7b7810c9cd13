package report_test

import (
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
)

func ExampleScore() {
	r := &check.Report{Requests: 12, Took: 3 * time.Second, Results: []check.Result{
		{ID: "duplicate", Verdict: check.Passed}, {ID: "concurrent", Verdict: check.Broken, Severity: check.Critical},
	}}
	fmt.Println(report.Score(r))
	// Output: 1 of 2 passed, 1 broken (1 critical); 12 requests, 3.0 s
}
