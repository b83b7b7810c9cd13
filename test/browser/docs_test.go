package browsertest_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestTableOfDocs tests that docs/browser.md says of each mechanism what TestMechanisms finds.
func TestTableOfDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "browser.md"))
	assert.NoError(t, err, "read")
	_, rest, found := strings.Cut(string(text), "<!-- table: TestMechanisms -->\n")
	assert.True(t, found, "docs/browser.md marks the table")
	var habitNames []string
	documented := map[string]map[string]int{}
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case habitNames == nil:
			habitNames = cells[1:]
		case strings.HasPrefix(cells[0], "---"):
		default:
			row := map[string]int{}
			for i, habit := range habitNames {
				row[habit], err = strconv.Atoi(cells[i+1])
				assert.NoError(t, err, "%s, %s", cells[0], habit)
			}
			documented[cells[0]] = row
		}
	}
	tested := map[string]map[string]int{}
	for mechanism, rows := range table {
		tested[mechanism] = map[string]int{}
		for habit, want := range rows {
			tested[mechanism][habit] = want.orders
		}
	}
	assert.Equal(t, documented, tested, "the table")
}
