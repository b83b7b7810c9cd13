package token

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/errortest"
)

// TestProblemsAreFrozen: each error keeps the answer to who asks for a token.
func TestProblemsAreFrozen(t *testing.T) {
	t.Parallel()
	all := append(errortest.All(),
		errortest.Case{Name: "ErrTooMany", Err: &retrysafe.Error{Err: ErrTooMany, RetryAfter: errortest.Later}},
		errortest.Case{Name: "ErrAnonymous", Err: &retrysafe.Error{Err: ErrAnonymous}})
	var b strings.Builder
	for _, c := range all {
		p := problemOf(c.Err)
		fmt.Fprintf(&b, "%s\n  %d %s, after %d s\n", c.Name, p.Status, p.Code, p.RetrySeconds())
	}
	assert.Golden(t, "testdata/problems_v1.golden", b.String())
}
