package report_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestNotes: each form has the notes, and says that an examination was interrupted.
func TestNotes(t *testing.T) {
	t.Parallel()
	r := sampleReport()
	r.Notes, r.Interrupted = []string{"A duplicate is refused."}, true
	r.Results = r.Results[:1] // passed
	sarif := func(w *bytes.Buffer) error { return report.SARIF(w, r) }
	for name, text := range map[string]string{
		"table": tableOf(t, r, report.Style{}), "JUnit": asJUnit(t, r), "HTML": htmlOf(t, r), "SARIF": asSARIF(t, sarif),
	} {
		assert.Contains(t, text, "A duplicate is refused.", "%s", name)
		assert.Contains(t, text, "was interrupted", "%s", name)
	}
	assert.NoError(t, validateJSON(t, compileSchema(t, report.Schema()), asJSON(t, r)), "JSON")
	assert.NoError(t, validateJSON(t, compileSchema(t, sarifSchema(t)), asSARIF(t, sarif)), "SARIF")
	assert.Contains(t, tableOf(t, r, report.Style{}), "Interrupted: 1 check done, no fault found so far", "headline")
	var got struct {
		Verdict     string
		Interrupted bool
		Notes       []string
	}
	assert.NoError(t, json.Unmarshal([]byte(asJSON(t, r)), &got), "read")
	assert.True(t, got.Verdict == "undecided" && got.Interrupted && len(got.Notes) == 1, "JSON: %+v", got)
}

// TestNothingDecided: a report without any decision does not sound like a good one.
func TestNothingDecided(t *testing.T) {
	t.Parallel()
	r := sampleReport()
	for i := range r.Results {
		r.Results[i].Verdict = check.Undecided
	}
	assert.Contains(t, tableOf(t, r, report.Style{}), "Nothing was decided, so this says nothing about the API", "headline")
}
