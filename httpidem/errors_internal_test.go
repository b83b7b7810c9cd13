package httpidem

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/errortest"
)

// draws is how often an answer with a random Retry-After is made to see all its values.
const draws = 500

// TestProblemsAreFrozen: each problem keeps its bytes, and each error its problem.
func TestProblemsAreFrozen(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, code := range Codes() {
		w := httptest.NewRecorder()
		NewProblem(code, nil).ServeHTTP(w, nil)
		fmt.Fprintf(&b, "%s\n  %d %s", code, w.Code, w.Body)
	}
	for _, c := range errortest.All() {
		fmt.Fprintf(&b, "%s\n", c.Name)
		for _, reject := range []bool{false, true} {
			least, most := 1<<30, 0
			for range draws {
				p := problemOf(c.Err, reject)
				least, most = min(least, p.retryAfter), max(most, p.retryAfter)
			}
			p := problemOf(c.Err, reject)
			fmt.Fprintf(&b, "  reject %v: %d %s %d, after %d to %d s: %s\n", reject, p.Status, p.Code, p.ErrorCode, least, most, p.Detail)
		}
	}
	assert.Golden(t, "testdata/problems_v1.golden", b.String())
}
