package rpcidem_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/notrun"
	"github.com/retrysafe/retrysafe/rpcidem"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	assert.NoError(t, err, "read")
	return string(text)
}

// numbers returns the numbers that pattern finds.
func numbers(text, pattern string) (all []int) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		all = append(all, n)
	}
	return all
}

// statuses returns the statuses of rows.
func statuses(rows []notrun.Row) (all []int) {
	for _, r := range rows {
		if r.Status != 0 && !r.AndAbove {
			all = append(all, r.Status)
		}
	}
	return all
}

// table returns rows as docs/outcomes.md has them.
func table(rows []notrun.Row) string {
	cell := func(text string) string { return strings.TrimRight("| "+text, " ") + " " }
	var b strings.Builder
	for i := range rows {
		r := &rows[i]
		status, codes := "", []string(nil)
		if r.Status != 0 {
			status = strconv.Itoa(r.Status)
		}
		if r.AndAbove {
			status += " and above"
		}
		for _, c := range r.Codes {
			codes = append(codes, "`"+rpcidem.Code(c).String()+"`")
		}
		b.WriteString(cell(status) + cell(strings.Join(codes, ", ")) + cell(r.Why))
		if r.Source != "" {
			b.WriteString(cell(r.Source))
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// TestOutcomesOfThePage: docs/outcomes.md is the table of package notrun, and its twin has the same
// statuses, codes, sentences and sections.
func TestOutcomesOfThePage(t *testing.T) {
	t.Parallel()
	page := read(t, "../docs/outcomes.md")
	assert.Contains(t, page, "| its definition | source |\n|---|---|---|---|\n"+table(notrun.Always)+"\n", "the table of every policy")
	assert.Contains(t, page, "| why it is stored under Refuse |\n|---|---|---|\n"+table(notrun.UnderReexecute)+"\n", "the table of Reexecute")

	facts := regexp.MustCompile("`[A-Z_]+`|\"[^\"]+\"|[0-9]+(?:[.][0-9]+)*")
	rows := func(page, header string) (all [][]string) {
		_, rest, ok := strings.Cut(page, header)
		assert.True(t, ok, "the page has %s", header)
		rest, _, _ = strings.Cut(rest, "\n\n")
		for line := range strings.Lines(rest) {
			if found := facts.FindAllString(line, -1); found != nil {
				all = append(all, found)
			}
		}
		return all
	}
	twin := read(t, "../docs/outcomes.zh-CN.md")
	for header, theirs := range map[string]string{"| its definition |": "| 定义 |", "| why it is stored": "| 为什么在 Refuse 下保存 |"} {
		want := rows(page, header)
		assert.True(t, len(want) >= 3, "rows of %s", header)
		assert.Equal(t, rows(twin, theirs), want, "the facts of the twin's table")
	}
}

// TestOutcomesOfTheCode: this package and package httpidem release a key by the table.
func TestOutcomesOfTheCode(t *testing.T) {
	t.Parallel()
	for status := range 1000 {
		assert.Equal(t, httpidem.NotRun(status), slices.Contains(statuses(notrun.Always), status), "%d", status)
	}
	known := 0
	for code := rpcidem.OK; code <= rpcidem.Unauthenticated; code++ {
		assert.Equal(t, code.NotRun(), notrun.Code(uint32(code)), "%v", code)
		assert.True(t, !code.NotRun() || !notrun.CodeUnderReexecute(uint32(code)), "%v is in one table", code)
		if code.NotRun() || notrun.CodeUnderReexecute(uint32(code)) {
			known++
		}
	}
	for _, r := range slices.Concat(notrun.Always, notrun.UnderReexecute) {
		known -= len(r.Codes)
	}
	assert.Equal(t, known, 0, "codes that are none, or are twice in the table")
}

// TestOutcomesOfTheScripts: the scripts for nginx and for browsers have the statuses of the table.
func TestOutcomesOfTheScripts(t *testing.T) {
	t.Parallel()
	lua := read(t, "../deploy/nginx/retrysafe.lua")
	script := func(text, begin, end string) string {
		_, rest, ok := strings.Cut(text, begin)
		assert.True(t, ok, "the script has %s", begin)
		rest, _, _ = strings.Cut(rest, end)
		return rest
	}
	assert.Equal(t, numbers(script(lua, "\nlocal not_run = {", "}"), `\[(\d+)\]`), statuses(notrun.Always), "nginx")
	assert.Equal(t, numbers(script(lua, "\nlocal not_run_reexecute = {", "}"), `\[(\d+)\]`), statuses(notrun.UnderReexecute), "nginx under reexecute")
	above := notrun.UnderReexecute[len(notrun.UnderReexecute)-1]
	assert.True(t, above.AndAbove, "the last row is that of failures")
	assert.Contains(t, lua, "reexecute and (not_run_reexecute[status] or status >= "+strconv.Itoa(above.Status)+")", "nginx")

	js := read(t, "../httpidem/browser/retrysafe.js")
	have := numbers(script(js, "const NOT_RUN = [", "]"), `(\d+)`)
	for _, status := range numbers(script(js, "const PASSING = [", "]"), `(\d+)`) {
		if releases, _ := notrun.Status(status); releases { // the script sends it again by itself
			have = append(have, status)
		} else {
			assert.True(t, status >= 500, "%d may be different at the next try", status)
		}
	}
	for _, r := range notrun.Always {
		if r.SamePath { // browsers follow it
			have = append(have, r.Status)
		}
	}
	slices.Sort(have)
	assert.Equal(t, have, statuses(notrun.Always), "the browser")
	assert.Equal(t, numbers(script(js, "(!first && /", "/.test(status))"), `(\d+)`), statuses(notrun.UnderReexecute), "conflicts in the browser")
}

// TestOutcomesOfTheTexts: pages and comments that list the answers list those of the table.
func TestOutcomesOfTheTexts(t *testing.T) {
	t.Parallel()
	var list []string
	for _, r := range notrun.Always {
		if r.Status != 0 && !r.SamePath {
			list = append(list, strconv.Itoa(r.Status))
		}
	}
	last := len(list) - 1
	plain := strings.Join(list[:last], ", ")
	for name, chinese := range map[string]bool{
		"../docs/guarantees.md": false, "../docs/gateway.md": false, "../docs/cli.md": false, "../httpidem/outcome.go": false, "../httpidem/doc.go": false,
		"../docs/guarantees.zh-CN.md": true, "../docs/gateway.zh-CN.md": true, "../docs/cli.zh-CN.md": true,
	} {
		text := strings.Join(strings.Fields(strings.ReplaceAll(read(t, name), "//", "")), " ")
		begin, ends := plain, []string{", " + list[last], " and " + list[last], " or " + list[last]}
		if chinese {
			begin, ends = strings.Join(list[:last], "、"), []string{"、" + list[last], " 和 " + list[last], " 或 " + list[last]}
		}
		lists := strings.Split(text, begin)[1:]
		assert.True(t, len(lists) > 0, "%s lists %s", name, begin)
		for _, rest := range lists {
			assert.True(t, slices.ContainsFunc(ends, func(end string) bool { return strings.HasPrefix(rest, end) }), "%s lists %s and %s", name, begin, list[last])
		}
		if strings.Contains(name, "guarantees") {
			assert.Equal(t, len(lists), 2, "lists in %s: of the promise and of H9", name)
			for _, r := range notrun.Always {
				for _, c := range r.Codes {
					assert.Contains(t, text, "`"+rpcidem.Code(c).String()+"`", "%s", name)
				}
			}
		}
	}
}
