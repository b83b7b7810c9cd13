package report_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	sarif "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// sarifSchema returns sarif-schema-2.1.0.json of OASIS, which go-sarif has as a constant.
func sarifSchema(t *testing.T) []byte {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif").Output()
	assert.NoError(t, err, "go list")
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "schema.go"), nil, 0)
	assert.NoError(t, err, "parse")
	schema := ""
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == "schema" {
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				schema, err = strconv.Unquote(lit.Value)
				assert.NoError(t, err, "unquote")
			}
		}
		return true
	})
	assert.Contains(t, schema, `"title": "Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"`, "the schema")
	return []byte(schema)
}

func asSARIF(t *testing.T, write func(w *bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	assert.NoError(t, write(&b), "SARIF")
	return b.String()
}

func TestSARIF(t *testing.T) {
	t.Parallel()
	assertGolden(t, "report.sarif", asSARIF(t, func(w *bytes.Buffer) error { return report.SARIF(w, sampleReport()) }))
}

func TestSARIFFitsTheSchema(t *testing.T) {
	t.Parallel()
	s := compileSchema(t, sarifSchema(t))
	empty, hostile := sampleReport(), hostileReport()
	empty.Results = nil
	for i := range hostile.Results {
		hostile.Results[i].Page = pages
	}
	for name, r := range map[string]*check.Report{"sample": sampleReport(), "hostile": hostile, "nothing": empty} {
		plain := asSARIF(t, func(w *bytes.Buffer) error { return report.SARIF(w, r) })
		assert.NoError(t, validateJSON(t, s, plain), "%s", name)
		in := asSARIF(t, func(w *bytes.Buffer) error { return report.SARIFIn("api/open api.yaml")(w, r) })
		assert.NoError(t, validateJSON(t, s, in), "%s, with a file", name)
	}
	text := asSARIF(t, func(w *bytes.Buffer) error { return report.SARIF(w, sampleReport()) })
	for what, change := range map[string][2]string{
		"an unknown level":  {`"level": "error"`, `"level": "fatal"`},
		"an unknown member": {`"ruleIndex"`, `"ruleNumber"`},
		"no message":        {`"message"`, `"massage"`},
	} {
		assert.True(t, validateJSON(t, s, strings.Replace(text, change[0], change[1], 1)) != nil, "the schema refuses %s", what)
	}
}

// TestSARIFAsOthersReadIt: a reader that is not ours finds each broken check, its rule, its level,
// and its location.
func TestSARIFAsOthersReadIt(t *testing.T) {
	t.Parallel()
	log, err := sarif.FromBytes([]byte(asSARIF(t, func(w *bytes.Buffer) error { return report.SARIFIn("api/open api.yaml")(w, sampleReport()) })))
	assert.NoError(t, err, "read")
	run := log.Runs[0]
	assert.Equal(t, len(run.Results), 2, "results: broken checks only, since viewers show each result as a problem")
	assert.Equal(t, len(run.Tool.Driver.Rules), 6, "rules")
	for i, want := range []struct{ id, level, page string }{
		{"concurrent-duplicates", "error", pages + "concurrent-duplicates"}, {"other-body", "warning", pages + "other-body"},
	} {
		got := run.Results[i]
		assert.Equal(t, *got.RuleID, want.id, "rule")
		assert.Equal(t, got.Level, want.level, "level")
		rule := run.Tool.Driver.Rules[got.RuleIndex]
		assert.Equal(t, *rule.ID, want.id, "the rule of the index")
		assert.Equal(t, *rule.HelpURI, want.page, "page")
		assert.Equal(t, *got.Locations[0].LogicalLocations[0].FullyQualifiedName, "POST http://localhost:8080/orders", "target")
		assert.Equal(t, *got.Locations[0].PhysicalLocation.ArtifactLocation.URI, "api/open%20api.yaml", "file")
	}
	call := run.Invocations[0]
	assert.Equal(t, len(call.ToolExecutionNotifications), 2, "notifications: one noted, one undecided")
	assert.Equal(t, *call.RuleConfigurationOverrides[0].Descriptor.ID, "kept-as-promised", "the rule that was left out")
}

// TestSARIFFingerprints: a finding keeps its fingerprint in another run, and differs from that of
// another check and another target.
func TestSARIFFingerprints(t *testing.T) {
	t.Parallel()
	prints := func(change func(r *check.Report)) (all []string) {
		r := sampleReport()
		change(r)
		var log struct {
			Runs []struct {
				Results []struct {
					PartialFingerprints map[string]string `json:"partialFingerprints"`
				} `json:"results"`
			} `json:"runs"`
		}
		assert.NoError(t, json.Unmarshal([]byte(asSARIF(t, func(w *bytes.Buffer) error { return report.SARIF(w, r) })), &log), "read")
		for _, one := range log.Runs[0].Results {
			all = append(all, one.PartialFingerprints["checkAndTarget/v1"])
		}
		return all
	}
	first := prints(func(*check.Report) {})
	assert.NotEqual(t, first[0], first[1], "two checks")
	assert.Equal(t, prints(func(r *check.Report) { r.Results[1].Summary = "other numbers"; r.Took++ }), first, "another run")
	assert.NotEqual(t, prints(func(r *check.Report) { r.Target += "/2" })[0], first[0], "another target")
}
