package report_test

import (
	"encoding/json"
	"fmt"
	"os"
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
	head   = `<!-- made from the code by UPDATE=1 go test -run TestPages ./check/report -->

# The checks

[中文](checks.zh-CN.md)

What [retrysafe check](check.md) asks of an API, in the order in which it asks. The page of the
command says what a [verdict and a severity](check.md#what-is-found) mean.

`
)

// assertWritten compares a file of the documentation with its text, which UPDATE=1 writes.
func assertWritten(t *testing.T, path, want string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		assert.NoError(t, os.WriteFile(path, []byte(want), 0o644), "write")
	}
	got, err := os.ReadFile(path)
	assert.NoError(t, err, "%s; %s", path, update)
	assert.Equal(t, string(got), want, "%s; %s", path, update)
}

var (
	headings = regexp.MustCompile(`(?m)^## (\S+)$`)
	rows     = regexp.MustCompile(`(?m)^\| \[(\S+)\]\(#(\S+)\) \| .+ \| (\w+) \|$`)
)

// TestPages: docs/checks.md has what the checks say of themselves; UPDATE=1 writes it. Its twin has
// a row and a heading for each check, in the same order.
func TestPages(t *testing.T) {
	t.Parallel()
	checks := check.Checks()
	assert.True(t, len(checks) > 20, "checks: %d", len(checks))
	page := head + report.Overview(checks)
	for _, c := range checks {
		assert.True(t, strings.HasSuffix(c.Page(), "/docs/checks.md#"+c.ID), "the address of the page: %s", c.Page())
		page += "\n" + report.Page(c)
	}
	assertWritten(t, docs+"checks.md", page)
	twin, err := os.ReadFile(docs + "checks.zh-CN.md")
	assert.NoError(t, err, "read")
	found, listed := headings.FindAllStringSubmatch(string(twin), -1), rows.FindAllStringSubmatch(string(twin), -1)
	assert.True(t, len(found) == len(checks) && len(listed) == len(checks), "checks in the twin: %d and %d", len(found), len(listed))
	for i, c := range checks {
		assert.Equal(t, found[i][1], c.ID, "heading in the twin")
		assert.Equal(t, listed[i][1:], []string{c.ID, c.ID, c.Severity.String()}, "row in the twin")
	}
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
	want := `## one

A right API does one thing. Severity: serious.

**Why:** Because.

**What is sent**, at most 1 request:

1. One request.
2. ` + second + ` - 1. end.

**What counts as broken:**

- It is wrong.

` + "**How to mend it:** Word" + strings.Repeat(" word", 15) + "\n" + strings.Repeat("word ", 14) + "`code that is not broken`.\n"
	assert.Equal(t, report.Page(c), want, "page")
	c.Wrong = nil
	assert.Contains(t, report.Page(c), "**What counts as broken:** nothing. The check notes what clients have to know.\n\n**How", "nothing is broken")
	assert.Equal(t, report.Overview([]*check.Check{c}), "| check | what a right API does | severity |\n|---|---|---|\n| [one](#one) | a right API does one thing | serious |\n", "overview")
}
