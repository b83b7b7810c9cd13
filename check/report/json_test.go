package report_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// compileSchema returns a schema; formats are checked too.
func compileSchema(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	assert.NoError(t, err, "schema")
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	assert.NoError(t, c.AddResource("schema.json", doc), "schema")
	s, err := c.Compile("schema.json")
	assert.NoError(t, err, "schema")
	return s
}

func validateJSON(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	assert.NoError(t, err, "what was written is JSON")
	return s.Validate(doc)
}

func asJSON(t *testing.T, r *check.Report) string {
	t.Helper()
	var b bytes.Buffer
	assert.NoError(t, report.JSON(&b, r), "JSON")
	return b.String()
}

func TestJSON(t *testing.T) {
	t.Parallel()
	text := asJSON(t, sampleReport())
	assertGolden(t, "report.json", text)
	var got struct {
		Version int
		Verdict string
		Counts  map[string]int
		Results []struct{ ID, Verdict string }
	}
	assert.NoError(t, json.Unmarshal([]byte(text), &got), "read")
	assert.Equal(t, got.Verdict, "broken", "verdict")
	assert.Equal(t, got.Counts["critical"], 1, "critical")
	assert.Equal(t, len(got.Results), 6, "results")
}

func TestJSONFitsItsSchema(t *testing.T) {
	t.Parallel()
	s := compileSchema(t, report.Schema())
	empty, passed := sampleReport(), sampleReport()
	empty.Results, empty.Contract = nil, ""
	passed.Results = passed.Results[:1]
	hostile := hostileReport()
	for i := range hostile.Results {
		hostile.Results[i].Page = pages
	}
	for name, c := range map[string]struct {
		r       *check.Report
		verdict string
	}{
		"sample": {sampleReport(), "broken"}, "hostile": {hostile, "broken"}, "nothing": {empty, "undecided"}, "passed": {passed, "passed"},
	} {
		text := asJSON(t, c.r)
		assert.NoError(t, validateJSON(t, s, text), "%s", name)
		assert.Contains(t, text, `"verdict": "`+c.verdict+`"`, "%s", name)
	}
	for what, change := range map[string][2]string{
		"another version":       {`"version": 1`, `"version": 2`},
		"an unknown verdict":    {`"verdict": "noted"`, `"verdict": "good"`},
		"a missing member":      {`"oracle": `, `"oracel": `},
		"no date":               {`"started": "2026`, `"started": "soon`},
		"a text for a number":   {`"requests": 312`, `"requests": "312"`},
		"an unknown severity":   {`"severity": "critical"`, `"severity": "bad"`},
		"a member of a request": {`"curl": `, `"wget": `},
	} {
		text := strings.Replace(asJSON(t, sampleReport()), change[0], change[1], 1)
		assert.True(t, validateJSON(t, s, text) != nil, "the schema refuses %s", what)
	}
}
