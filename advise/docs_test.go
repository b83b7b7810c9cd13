package advise_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/advise"
	"github.com/retrysafe/retrysafe/internal/assert"
)

var shown = regexp.MustCompile("(?s)```sql ([a-z]+)\n(.*?)```\n\n```text\n(.*?)```\n")

// TestDocs: the output in docs/which-guard.md is the real output.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/which-guard.md")
	assert.NoError(t, err, "read")
	found := shown.FindAllStringSubmatch(string(page), -1)
	assert.Equal(t, len(found), strings.Count(string(page), "```sql"), "examples")
	assert.True(t, len(found) >= 4, "examples: %d", len(found))
	for _, m := range found {
		r, err := advise.Advise(m[2], "", advise.Dialect(m[1]))
		assert.NoError(t, err, "%s", m[2])
		if got := r.Text(); got != m[3] {
			t.Errorf("docs/which-guard.md: of\n%s\nit is said:\n%s", m[2], got)
		}
	}
}
