package rpcidem_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// statusesOf returns the statuses and the codes in the first two columns of a table.
func statusesOf(t *testing.T, table string) (statuses map[int]bool, codes map[string]bool) {
	t.Helper()
	statuses, codes = map[int]bool{}, map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		if status, err := strconv.Atoi(strings.TrimSpace(cells[1])); err == nil {
			statuses[status] = true
		}
		for _, m := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(cells[2], -1) {
			codes[m[1]] = true
		}
	}
	assert.True(t, len(statuses) > 0 && len(codes) > 0, "the page has a table")
	return statuses, codes
}

// TestOutcomesOfThePage tests that docs/outcomes.md, package httpidem, this package and the script
// for nginx release a key by the same statuses and codes, and that the promise names each of them.
func TestOutcomesOfThePage(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		assert.NoError(t, err, "read")
		return string(text)
	}
	script, promise := read("../deploy/nginx/retrysafe.lua"), read("../docs/guarantees.md")
	_, promise, _ = strings.Cut(promise, "1. **At most once.**")
	promise, _, _ = strings.Cut(promise, "\n2. ")
	inLua := func(table string) map[int]bool {
		_, rest, ok := strings.Cut(script, "\nlocal "+table+" = {")
		assert.True(t, ok, "the script has %s", table)
		rest, _, _ = strings.Cut(rest, "}")
		found := map[int]bool{}
		for _, m := range regexp.MustCompile(`\[(\d+)\]`).FindAllStringSubmatch(rest, -1) {
			status, _ := strconv.Atoi(m[1])
			found[status] = true
		}
		return found
	}
	for page, titles := range map[string][2]string{
		"../docs/outcomes.md":       {"## Released under every policy", "## Released under Reexecute only"},
		"../docs/outcomes.zh-CN.md": {"## 任何策略下都释放", "## 只在 Reexecute 下释放"},
	} {
		_, rest, ok := strings.Cut(read(page), titles[0])
		every, under, ok2 := strings.Cut(rest, titles[1])
		assert.True(t, ok && ok2, "%s has both tables", page)
		statuses, codes := statusesOf(t, every)
		reexecuted, underReexecute := statusesOf(t, under)
		assert.Equal(t, inLua("not_run"), statuses, "the script and %s", page)
		assert.Equal(t, inLua("not_run_reexecute"), reexecuted, "the script under reexecute and %s", page)
		for status := 100; status < 600; status++ {
			assert.Equal(t, httpidem.NotRun(status), statuses[status], "%d in %s", status, page)
			assert.True(t, !statuses[status] || strings.Contains(promise, strconv.Itoa(status)), "the promise names %d", status)
		}
		for code := rpcidem.OK; code <= rpcidem.Unauthenticated; code++ {
			assert.Equal(t, code.NotRun(), codes[code.String()], "%v in %s", code, page)
			assert.True(t, !codes[code.String()] || strings.Contains(promise, "`"+code.String()+"`"), "the promise names %v", code)
			assert.True(t, !codes[code.String()] || !underReexecute[code.String()], "%v is in one table", code)
		}
		assert.True(t, underReexecute["ABORTED"] && underReexecute["DATA_LOSS"] && len(underReexecute) == 7, "codes under Reexecute: %v", underReexecute)
	}
}
