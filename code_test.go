package retrysafe_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/errortest"
)

// TestErrorsAreFrozen: each error keeps its outcome in a trace, its text, and whether a retry is of
// use.
func TestErrorsAreFrozen(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, c := range errortest.All() {
		after, again := retrysafe.Retryable(c.Err)
		fmt.Fprintf(&b, "%s\n  trace %s\n  retry %v %v\n  text %s\n", c.Name, retrysafe.OutcomeOfError(c.Err), again, after, &retrysafe.Error{Op: "op", Err: c.Err})
	}
	assert.Golden(t, "testdata/errors_v1.golden", b.String())
}
