package rpcidem

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/errortest"
)

// TestRefusalsAreFrozen: each refusal keeps its words, and each error its refusal.
func TestRefusalsAreFrozen(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, reason := range Reasons() {
		r := NewRefusal(reason, nil)
		fmt.Fprintf(&b, "%s\n  %v %s %v: %s\n", reason, r.Code, r.Reason, r.RetryAfter, r.Message)
	}
	for _, c := range errortest.All() {
		r := refusalOf(c.Err)
		fmt.Fprintf(&b, "%s\n  %v %s, after %v\n", c.Name, r.Code, r.Reason, r.RetryAfter)
	}
	assert.Golden(t, "testdata/refusals_v1.golden", b.String())
}
