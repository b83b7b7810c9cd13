package report_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
	"github.com/retrysafe/retrysafe/internal/assert"
)

const (
	docs   = "../../docs/"
	update = "UPDATE=1 go test -run TestPages ./check/report writes it"
	begin  = "<!-- checks: made from the code by UPDATE=1 go test -run TestPages ./check/report -->\n"
	end    = "<!-- end of checks -->\n"
)

// written compares a file of the documentation with its text, which UPDATE=1 writes.
func written(t *testing.T, path, want string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		assert.NoError(t, os.WriteFile(path, []byte(want), 0o644), "write")
	}
	got, err := os.ReadFile(path)
	assert.NoError(t, err, "%s; %s", path, update)
	assert.Equal(t, string(got), want, "%s; %s", path, update)
}

// TestPages: each check has its page and its row in docs/check.md, and there is no page without a
// check. UPDATE=1 writes them.
func TestPages(t *testing.T) {
	t.Parallel()
	checks := check.Checks()
	assert.True(t, len(checks) > 20, "checks: %d", len(checks))
	names := map[string]bool{}
	for _, c := range checks {
		names[c.ID+".md"] = true
		assert.Contains(t, c.Page(), "/docs/checks/"+c.ID+".md", "the address of the page")
		written(t, docs+"checks/"+c.ID+".md", "<!-- made from the code by UPDATE=1 go test -run TestPages ./check/report -->\n\n"+
			strings.Replace(report.Page(c), "\n\n", "\n\n[中文]("+c.ID+".zh-CN.md)\n\n", 1))
	}
	files, err := filepath.Glob(docs + "checks/*.md")
	assert.NoError(t, err, "list")
	for _, path := range files {
		page := strings.Replace(filepath.Base(path), ".zh-CN.md", ".md", 1)
		if os.Getenv("UPDATE") != "" && !names[page] {
			assert.NoError(t, os.Remove(path), "remove")
			continue
		}
		assert.True(t, names[page], "%s is the page of a check; UPDATE=1 removes it", path)
	}
	text, err := os.ReadFile(docs + "check.md")
	assert.NoError(t, err, "read")
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	assert.True(t, ok && ok2, "docs/check.md has both marks")
	written(t, docs+"check.md", before+begin+report.Overview(checks)+end+after)
}

// TestWords: scripts of users name these checks, and programs read these words of a report.
func TestWords(t *testing.T) {
	t.Parallel()
	words := []string{}
	for _, c := range check.Checks() {
		words = append(words, fmt.Sprintf("check %s %s", c.ID, c.Severity))
	}
	var schema any
	assert.NoError(t, json.Unmarshal(report.Schema(), &schema), "schema")
	var walk func(at string, v any)
	walk = func(at string, v any) {
		object, _ := v.(map[string]any)
		for name, below := range object {
			switch name {
			case "properties", "$defs":
				members, _ := below.(map[string]any)
				for member, of := range members {
					words = append(words, "report "+at+member)
					walk(at+member+".", of)
				}
			case "enum":
				words = append(words, fmt.Sprint("report ", at, " one of ", below))
			case "const":
				words = append(words, fmt.Sprint("report ", at, " always ", below))
			case "items":
				walk(at, below)
			}
		}
	}
	walk("", schema)
	assert.Words(t, "testdata/words.golden", words)
}

var lower = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// TestChecksAreDescribed: the pages have something to say, and reports keep their form.
func TestChecksAreDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range check.Checks() {
		assert.True(t, lower.MatchString(c.ID) && !seen[c.ID], "the id %q", c.ID)
		seen[c.ID] = true
		assert.True(t, c.Title != "" && c.Why != "" && c.Fix != "" && len(c.Sends) > 0 && c.Requests > 0, "%s is described", c.ID)
		assert.True(t, utf8.RuneCountInString(c.Title) <= 60, "%s: the title has at most 60 characters: %s", c.ID, c.Title)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	c := &check.Check{
		ID: "one", Title: "a right API does one thing", Severity: check.Serious, Requests: 1, Why: "Because", Fix: strings.Repeat("word ", 30) + "`code that is not broken`",
		Sends: []string{"One request.", strings.Repeat("long ", 30) + "- 1. end"}, Wrong: []string{"It is wrong."},
	}
	second := "Long" + strings.Repeat(" long", 18) + "\n  " + strings.Repeat(" long", 11)
	want := `# one

A right API does one thing.

Severity serious: a client gets an answer that is not true.

## Why

Because.

## What is sent

1. One request.
2. ` + second + ` - 1. end.

At most 1 request.

## What counts as broken

- It is wrong.

## How to mend it

` + "Word" + strings.Repeat(" word", 19) + "\n" + strings.Repeat("word ", 10) + "`code that is not broken`.\n"
	assert.Equal(t, report.Page(c), want, "page")
	c.Wrong = nil
	assert.Contains(t, report.Page(c), "## What counts as broken\n\nNothing. The check notes what clients have to know.\n\n## How", "nothing is broken")
	assert.Equal(t, report.Overview([]*check.Check{c}), "| check | what a right API does | severity |\n|---|---|---|\n| [one](checks/one.md) | a right API does one thing | serious |\n", "overview")
}
