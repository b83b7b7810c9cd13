package rpcidem_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
)

var reasonRow = regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| `([A-Z_]+)` \\|([^|]*)\\| (.+) \\|$")

// TestReasons: docs/rpc.md has a row for each reason, with its code and either an existing page of
// the problem codes or its own text. It has no row for anything else. If a page exists, the row
// links it.
func TestReasons(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/rpc.md")
	assert.NoError(t, err, "page")
	rows := map[string][]string{}
	for _, m := range reasonRow.FindAllStringSubmatch(string(page), -1) {
		assert.True(t, rows[m[1]] == nil, "%s has one row", m[1])
		rows[m[1]] = m
	}
	assert.Equal(t, len(rows), len(rpcidem.Reasons()), "rows")
	for _, reason := range rpcidem.Reasons() {
		row := rows[reason]
		assert.True(t, row != nil, "%s has a row in docs/rpc.md", reason)
		r := rpcidem.NewRefusal(reason, nil)
		assert.Equal(t, row[2], r.Code.String(), "the code of %s", reason)
		if c, _ := retrysafe.ParseCode(reason); c != retrysafe.CodeOutcomeUnknown {
			// that depends on the policy
			assert.Equal(t, strings.TrimSpace(row[3]), map[bool]string{true: "yes"}[c.Retryable()], "whether %s is answered differently again", reason)
		}
		assert.Equal(t, r.Reason, reason, "the reason of %s", reason)
		assert.True(t, len(r.Message) > 20, "%s says what to do", reason)
		problem := strings.ReplaceAll(strings.ToLower(reason), "_", "-") + ".md"
		if _, err := os.Stat("../docs/problems/" + problem); err == nil {
			assert.Equal(t, row[4], "[page](problems/"+problem+")", "the page of %s", reason)
		} else {
			assert.True(t, len(row[4]) > 40, "%s has no page, and is explained", reason)
		}
	}
	assert.Equal(t, rpcidem.Unauthenticated.String()+rpcidem.Code(99).String(), "UNAUTHENTICATEDCODE_99", "names of codes")
	panics(t, func() { _ = rpcidem.NewRefusal("NO_SUCH_REASON", nil) }, "a reason that is none")
}
