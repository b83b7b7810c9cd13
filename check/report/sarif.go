package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/check"
)

// SARIF writes r as a SARIF 2.1.0 log: a rule for each check, and a result for each broken one. The
// location of a result is the target, as a logical location. It returns the error of w.
//
// Viewers show every result as a problem. So what is noted or undecided is a notification of the
// run, and what was skipped is a rule that is not enabled.
func SARIF(w io.Writer, r *check.Report) error { return writeSARIF(w, r, "") }

// SARIFIn returns a function that writes r as [SARIF] does, with file as the physical location of
// each result. The file is the description of the API, as a path relative to the repository's root,
// with slashes. GitHub accepts only results that have such a location.
func SARIFIn(file string) func(w io.Writer, r *check.Report) error {
	return func(w io.Writer, r *check.Report) error { return writeSARIF(w, r, file) }
}

func writeSARIF(w io.Writer, r *check.Report, file string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(sarifLog{
		Schema:  "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		Version: "2.1.0",
		Runs:    []sarifRun{sarifRunOf(r, file)},
	})
}

func sarifRunOf(r *check.Report, file string) sarifRun {
	run := sarifRun{
		Tool: sarifTool{Driver: sarifDriver{
			Name: "retrysafe check", InformationURI: "https://github.com/retrysafe/retrysafe/blob/main/docs/check.md",
			Rules: []sarifRule{},
		}},
		AutomationDetails: sarifAutomation{ID: "retrysafe-check/" + identifier(r.Target) + "/"},
		Results:           []sarifResult{},
		LogicalLocations:  []sarifLogical{targetLocation(r)},
		Properties:        sarifProperties{Oracle: r.Oracle, Contract: r.Contract, Requests: r.Requests, Score: Score(r)},
	}
	call := sarifInvocation{
		Successful: !r.Interrupted,
		Start:      r.Started.UTC().Format(time.RFC3339),
		End:        r.Started.Add(r.Took).UTC().Format(time.RFC3339),
	}
	for _, note := range reportRemarks(r) {
		call.Notifications = append(call.Notifications, sarifNotification{Level: "note", Message: sarifText{Text: plainText(note)}})
	}
	for i := range r.Results {
		one := &r.Results[i]
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, ruleOf(one))
		rule := sarifReference{ID: one.ID, Index: i}
		switch one.Verdict {
		case check.Broken:
			run.Results = append(run.Results, resultOf(r, one, i, file))
		case check.Noted, check.Undecided:
			call.Notifications = append(call.Notifications, sarifNotification{
				Level: "note", Rule: &rule, Message: sarifText{Text: one.Verdict.String() + ": " + resultRemark(one)},
			})
		case check.Skipped:
			call.Overrides = append(call.Overrides, sarifOverride{Descriptor: rule})
		case check.Passed:
		}
	}
	run.Invocations = []sarifInvocation{call}
	return run
}

func ruleOf(r *check.Result) sarifRule {
	rule := sarifRule{
		ID: r.ID, Name: pascalCase(r.ID), Short: sarifText{Text: plainText(asSentence(r.Title))}, Full: sarifText{Text: plainText(asSentence(r.Title))},
		HelpURI:    r.Page,
		Default:    sarifLevel{Level: sarifLevels[r.Severity]},
		Properties: sarifTags{Tags: []string{"idempotency", "reliability"}, Severity: r.Severity.String()},
	}
	help := "See " + r.Page
	if r.Verdict == check.Broken && r.Help != "" {
		help = plainText(asSentence(r.Help)) + "\n\n" + help
	}
	rule.Help = sarifText{Text: help}
	return rule
}

func resultOf(r *check.Report, one *check.Result, index int, file string) sarifResult {
	at := sarifLocation{Logical: []sarifLogical{targetLocation(r)}}
	if file != "" {
		at.Physical = &sarifPhysical{Artifact: sarifArtifact{URI: (&url.URL{Path: file}).String()}, Region: sarifRegion{Line: 1}}
	}
	sum := sha256.Sum256([]byte(one.ID + "\n" + r.Target))
	return sarifResult{
		RuleID: one.ID, RuleIndex: index, Kind: "fail", Level: sarifLevels[one.Severity],
		Message:      sarifText{Text: plainText(asSentence(one.Summary)), Markdown: resultMarkdown(one)},
		Locations:    []sarifLocation{at},
		Fingerprints: map[string]string{"checkAndTarget/v1": hex.EncodeToString(sum[:16])},
	}
}

// resultMarkdown is what was seen and how to see it again.
func resultMarkdown(r *check.Result) string {
	text := escapeMarkdown(asSentence(r.Summary))
	if len(r.Exchanges) == 0 {
		return text
	}
	var b strings.Builder
	fence := "```"
	for i := range r.Exchanges {
		e := &r.Exchanges[i]
		line := "# " + plainText(e.Step) + ": " + plainText(answerText(e)) + "\n" + oneLine(e.Curl) + "\n"
		for strings.Contains(line, fence) {
			fence += "`"
		}
		b.WriteString(line)
	}
	return text + "\n\n" + fence + "sh\n" + b.String() + fence + "\n"
}

// escapeMarkdown returns text that Markdown shows as it is.
func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, r := range plainText(s) {
		if strings.ContainsRune("\\`*_{}[]<>()#+!|&~", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func targetLocation(r *check.Report) sarifLogical {
	return sarifLogical{Name: plainText(r.Target), Qualified: plainText(r.Target), Kind: "resource"}
}

var sarifLevels = map[check.Severity]string{check.Critical: "error", check.Serious: "warning", check.Minor: "note"}

// pascalCase returns the words of an id as one name: concurrent-duplicates is ConcurrentDuplicates.
func pascalCase(id string) string {
	words := slices.Collect(strings.SplitSeq(id, "-"))
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}
