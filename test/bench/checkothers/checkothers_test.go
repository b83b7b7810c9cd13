package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestPage: docs/check.md has a row for each check and a column for each subject.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/check.md")
	assert.NoError(t, err, "the page")
	_, rest, found := bytes.Cut(page, beginMark)
	report, _, closed := bytes.Cut(rest, endMark)
	assert.True(t, found && closed, "the page has the marks of the report")
	head := "| check |"
	for _, s := range subjects {
		head += " " + s.name + " |"
	}
	assert.Contains(t, string(report), head+"\n", "the report")
	for _, c := range check.Checks() {
		assert.True(t, strings.Contains(string(report), "\n| "+c.ID+" |"), "a row of %s; make check-others writes it", c.ID)
	}
}

// TestSubjects: the services in this process take effect once for a key, with what their
// documentation shows.
func TestSubjects(t *testing.T) {
	t.Parallel()
	for _, s := range subjects {
		if s.name == "express" {
			continue // it needs npm, and its packages
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			running, err := s.start(t.Context())
			assert.NoError(t, err, "start")
			defer running.close()
			report, err := check.Examine(t.Context(), newTarget(running.address, s.keyHeader), &check.Options{Only: []string{"sequential-duplicate"}})
			assert.NoError(t, err, "Examine")
			assert.Equal(t, report.Count(check.Passed), 1, "passed: %+v", report.Results[0])
		})
	}
}
