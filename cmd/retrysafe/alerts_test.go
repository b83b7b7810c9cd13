package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/anchor"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

const deployed = "../../deploy/"

// alertRule is a rule of deploy/alerts.yml.
type alertRule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// alertRules returns the rules of deploy/alerts.yml.
func alertRules(t *testing.T) (rules []alertRule) {
	t.Helper()
	text, err := os.ReadFile(deployed + "alerts.yml")
	assert.NoError(t, err, "alerts")
	var file struct {
		Groups []struct {
			Name  string
			Rules []alertRule
		}
	}
	assert.NoError(t, yaml.UnmarshalWithOptions(text, &file, yaml.Strict()), "alerts")
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	assert.True(t, len(rules) > 20, "rules: %d", len(rules))
	return rules
}

// runPromtool runs promtool, which must be installed and find nothing wrong.
func runPromtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), servertest.Program(t, "promtool", "prometheus"), args...).CombinedOutput()
	assert.NoError(t, err, "promtool %s:\n%s", strings.Join(args, " "), out)
}

// TestAlertRules: each rule fires, does not fire and ends as deploy/alerts_test.yml says.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	runPromtool(t, "check", "rules", deployed+"alerts.yml")
	runPromtool(t, "test", "rules", deployed+"alerts_test.yml")
}

// TestAlertsAreTested: for each rule there is a test in which it does not fire, fires, and ends.
func TestAlertsAreTested(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(deployed + "alerts_test.yml")
	assert.NoError(t, err, "tests of alerts")
	var file struct {
		Tests []struct {
			Name  string
			Tests []struct {
				Expr    string
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	assert.NoError(t, yaml.Unmarshal(text, &file), "tests of alerts")
	for _, r := range alertRules(t) {
		want := fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing"}`, r.Alert)
		var fires []string
		for _, one := range file.Tests {
			got := ""
			for _, c := range one.Tests {
				if c.Expr == want {
					got += map[bool]string{true: "+", false: "-"}[len(c.Samples) > 0]
				}
			}
			fires = append(fires, got)
		}
		assert.True(t, slices.Contains(fires, "-+-"), "%s: no test has it not fire, fire and end: %q", r.Alert, fires)
	}
}

// TestAlertsSayWhatToDo: each rule has a severity, a summary, a description and a runbook, whose
// heading is there in both languages.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/runbook.md")
	assert.NoError(t, err, "runbook")
	anchors := anchor.OfPage(string(page))
	names := map[string]bool{}
	for _, r := range alertRules(t) {
		assert.True(t, !names[r.Alert], "%s is there once", r.Alert)
		names[r.Alert] = true
		assert.True(t, slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]), "%s: severity %q", r.Alert, r.Labels["severity"])
		assert.True(t, r.Annotations["summary"] != "" && r.Annotations["description"] != "", "%s: summary and description", r.Alert)
		place, ok := strings.CutPrefix(r.Annotations["runbook_url"], "https://github.com/retrysafe/retrysafe/blob/main/docs/runbook.md#")
		assert.True(t, ok && slices.Contains(anchors, place), "%s: docs/runbook.md has no heading %q", r.Alert, place)
		assert.Contains(t, string(page), "`"+r.Alert+"`", "the runbook names the alert")
	}
}

// TestRunbookOfTheProblems: each problem that an operator has to act on, that is one with a status
// of 5xx and outcome-unknown, is in the runbook, and its page links to the part.
func TestRunbookOfTheProblems(t *testing.T) {
	t.Parallel()
	n := 0
	for _, twin := range []string{".md", ".zh-CN.md"} {
		runbook, err := os.ReadFile("../../docs/runbook" + twin)
		assert.NoError(t, err, "runbook")
		anchors := anchor.OfPage(string(runbook))
		for _, code := range retrysafe.Codes() {
			if code.HTTPStatus() < 500 && code != retrysafe.CodeOutcomeUnknown {
				continue
			}
			n++
			page, err := os.ReadFile("../../docs/problems/" + code.String() + twin)
			assert.NoError(t, err, "page of %s", code)
			_, place, _ := strings.Cut(string(page), "../runbook"+twin+"#")
			place, _, _ = strings.Cut(place, ")")
			assert.True(t, slices.Contains(anchors, place), "%s%s links to no part of the runbook: %q", code, twin, place)
			assert.Contains(t, string(runbook), "`"+code.String()+"`", "the runbook")
		}
	}
	assert.Equal(t, n, 12, "problems in two languages")
}

var (
	otelInstrument = regexp.MustCompile(`\b(counter|level|timer|count|seconds|Int64Histogram)\((?:&i\.\w+, )?"(retrysafe\.[a-z.]+)"`)
	otelAttribute  = regexp.MustCompile(`attribute\.Key\("(retrysafe\.[a-z.]+)"\)`)
	goldenMetric   = regexp.MustCompile(`(?m)^metric (retrysafe_[a-z_]+)$`)
	helpOfMetric   = regexp.MustCompile(`(?m)^# TYPE (retrysafe_[a-z_]+) `)
	nameInQuery    = regexp.MustCompile(`\bretrysafe_[a-z_]+\b`)
)

// prometheusName is the name that Prometheus gives to a metric of OpenTelemetry: dots are
// underscores, a unit of seconds and the total of a counter come last, and other units are left
// out.
func prometheusName(kind, name string) string {
	name = strings.ReplaceAll(name, ".", "_")
	switch kind {
	case "counter":
		return name + "_total"
	case "timer", "seconds":
		return name + "_seconds"
	}
	return name
}

// knownMetrics returns the names of all metrics as Prometheus has them, and the labels whose names
// look like those of metrics.
func knownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	// TestWords of gateway compares it with /metrics
	golden, err := os.ReadFile("../../gateway/testdata/words.golden")
	assert.NoError(t, err, "metrics of the gateway")
	for _, m := range goldenMetric.FindAllStringSubmatch(string(golden), -1) {
		known[m[1]] = true
	}
	_, base := startIDs(t, "--store", "memory:", "--unsafe")
	_, text, _ := fetchURL(t, base+"/metrics")
	for _, m := range helpOfMetric.FindAllStringSubmatch(text, -1) {
		known[m[1]] = true
	}
	// of tags, which this server has none of; TestIDsServe reads it
	known["retrysafe_ids_left"] = true
	sources, err := filepath.Glob("../../adapters/otelidem/*.go")
	assert.NoError(t, err, "otelidem")
	n := 0
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		assert.NoError(t, err, "otelidem")
		for _, m := range otelInstrument.FindAllStringSubmatch(string(source), -1) {
			known[prometheusName(m[1], m[2])] = true
			n++
		}
		for _, m := range otelAttribute.FindAllStringSubmatch(string(source), -1) {
			known[strings.ReplaceAll(m[1], ".", "_")] = true
		}
	}
	assert.True(t, len(known) > 50 && n > 20, "metrics: %d, and %d instruments of OpenTelemetry", len(known), n)
	return known
}

// unknownIn returns the names in a query that are no metric, and no label, of the code.
func unknownIn(known map[string]bool, query string) (unknown []string) {
	for _, name := range nameInQuery.FindAllString(query, -1) {
		found := known[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			found = found || known[strings.TrimSuffix(name, suffix)]
		}
		if !found {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// boardQueries returns the queries of the dashboard by the title of their panel, with values for
// its variables.
func boardQueries(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(deployed + "grafana-dashboard.json")
	assert.NoError(t, err, "board")
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	assert.NoError(t, json.Unmarshal(text, &board), "board")
	queries := map[string][]string{}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			queries[p.Title] = append(queries[p.Title], strings.NewReplacer("$instance", ".*", "$__rate_interval", "5m").Replace(q.Expr))
		}
	}
	assert.True(t, len(queries) > 30, "panels with queries: %d", len(queries))
	return queries
}

// TestMetricsOfTheAlertsExist: each metric that a rule or a panel of the board names is one of the
// code.
func TestMetricsOfTheAlertsExist(t *testing.T) {
	t.Parallel()
	known := knownMetrics(t)
	assert.Equal(t, unknownIn(known, `rate(retrysafe_requests_totals[5m]) + sum by (retrysafe_causes) (retrysafe_locks_total)`),
		[]string{"retrysafe_requests_totals", "retrysafe_causes"}, "names that are none")
	for _, r := range alertRules(t) {
		assert.Equal(t, unknownIn(known, r.Expr), nil, "%s", r.Alert)
	}
	for title, queries := range boardQueries(t) {
		for _, q := range queries {
			assert.Equal(t, unknownIn(known, q), nil, "panel %q: %s", title, q)
		}
	}
}

// TestQueriesOfTheBoard: each query of the dashboard is one that Prometheus can read.
func TestQueriesOfTheBoard(t *testing.T) {
	t.Parallel()
	var rules []map[string]string
	for _, queries := range boardQueries(t) {
		for _, q := range queries {
			rules = append(rules, map[string]string{"record": fmt.Sprint("board:query:", len(rules)), "expr": q})
		}
	}
	// JSON is YAML.
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "board", "rules": rules}}})
	assert.NoError(t, err, "rules")
	file := filepath.Join(t.TempDir(), "board.yml")
	assert.NoError(t, os.WriteFile(file, text, 0o600), "rules")
	runPromtool(t, "check", "rules", file)
}
