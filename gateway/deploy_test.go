package gateway_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// family is one metric as /metrics prints it.
type family struct {
	help   string
	labels map[string]map[string]bool // values by name
}

// families returns all metrics of a gateway that has served, refused and lost requests, and a line
// of its access log.
func families(t *testing.T) (all map[string]*family, accessLine string) {
	t.Helper()
	var broken, away atomic.Bool
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
	}))
	up.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(up.Close)
	m, store, access := gateway.NewMonitor(nil), memstore.New(nil), new(lockedBuffer)
	m.WatchInDoubt(store)
	m.WatchStore(store, "")
	m.SetCertificateFiles([]gateway.CertificateFile{{Use: "server", File: "cert.pem", Expires: time.Now()}})
	faulty := storetest.NewFaulty(store, func(string, int) storetest.Fault {
		if away.Load() {
			return storetest.LoseRequest
		}
		return 0
	})
	e := retrysafe.New(faulty, &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler), Trace: m.Trace()})
	g, base := serveGateway(t, e, &gateway.Options{Upstreams: []string{up.URL}, Monitor: m, AccessLog: slog.New(slog.NewJSONHandler(access, nil))})
	live := gateway.NewLive(g)
	m.WatchUpstreams(live)
	m.WatchServer(gateway.NewServer(live, &gateway.ServerOptions{Logger: slog.New(slog.DiscardHandler)}))
	assert.Equal(t, told(t, base, "POST", "k", "x"), "200", "the first")
	assert.Equal(t, told(t, base, "POST", "k", "x"), "200", "a repeat")
	for _, cookie := range []string{"s=1", "s=2"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/votes", http.NoBody)
		assert.NoError(t, err, "request")
		r.Header = http.Header{"Idempotency-Key": {"a-key-of-at-least-22-characters"}, "Cookie": {cookie}}
		resp, err := http.DefaultClient.Do(r)
		assert.NoError(t, err, "a request with cookies")
		_ = resp.Body.Close()
	}
	broken.Store(true)
	assert.Equal(t, told(t, base, "POST", "doubt", "x"), "502 outcome-unknown", "one that breaks")
	away.Store(true)
	assert.Equal(t, told(t, base, "POST", "away", "x"), "503 store-unavailable 1", "while the store is away")
	_, text := ask(t, gateway.Admin(live, e, m), "/metrics")
	accessLine, _, _ = strings.Cut(access.String(), "\n")
	return familiesOf(text), accessLine
}

var (
	sample  = regexp.MustCompile(`^([a-z_0-9]+?)(?:\{(.*)\})? [^ ]+$`)
	ofLabel = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

func familiesOf(text string) map[string]*family {
	all, kind := map[string]*family{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			all[name] = &family{help: help, labels: map[string]map[string]bool{}}
			kind = name
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, l := range ofLabel.FindAllStringSubmatch(m[2], -1) {
			f := all[kind]
			if f.labels[l[1]] == nil {
				f.labels[l[1]] = map[string]bool{}
			}
			f.labels[l[1]][l[2]] = true
		}
	}
	return all
}

var (
	selector = regexp.MustCompile(`\b((?:retrysafe|process|go)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without) \(([a-z_, ]+)\)`)
	legend   = regexp.MustCompile(`\{\{ *([a-z]+) *\}\}`)
)

// wrongIn returns the metrics, labels and values that an expression names and /metrics does not
// have. The scraper adds instance and job.
func wrongIn(all map[string]*family, expr string) (wrong []string) {
	known, found := map[string]bool{"instance": true, "job": true}, false
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		f := all[s[1]]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			f = cmp.Or(f, all[strings.TrimSuffix(s[1], suffix)])
		}
		if f == nil {
			wrong = append(wrong, s[1])
			continue
		}
		found = true
		for name := range f.labels {
			known[name] = true
		}
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			for value := range strings.SplitSeq(m[3], "|") {
				if m[1] != "instance" && m[1] != "job" && !f.labels[m[1]][value] {
					wrong = append(wrong, m[1]+"="+value)
				}
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(g[1], ", ") {
			if !known[name] {
				wrong = append(wrong, "by "+name)
			}
		}
	}
	if !found {
		wrong = append(wrong, "no metric in "+expr)
	}
	return wrong
}

// elsewhere matches queries of what a gateway does not export: the state of processes, ids, and the
// metrics of services by OpenTelemetry. A test of cmd/retrysafe looks for their names.
var elsewhere = regexp.MustCompile(`\bup\b[{(]|\bALERTS\b|retrysafe_(ids|outbox|deliveries|locks|doubts_open|doubts_oldest)`)

// TestBoardAndAlert tests that the dashboard names only metrics, labels and values of a gateway,
// and all of its metrics.
func TestBoardAndAlert(t *testing.T) {
	t.Parallel()
	all, _ := families(t)
	text, err := os.ReadFile("../deploy/grafana-dashboard.json")
	assert.NoError(t, err, "board")
	var board struct {
		SchemaVersion int
		Templating    struct{ List []struct{ Name, Type string } }
		Panels        []struct {
			ID         int
			Type       string
			Title      string
			Datasource struct{ UID string }
			Targets    []struct{ Expr, LegendFormat string }
		}
	}
	assert.NoError(t, json.Unmarshal(text, &board), "board")
	assert.Equal(t, fmt.Sprint(board.Templating.List), "[{datasource datasource} {instance query}]", "variables")
	shown, ids := 0, map[int]bool{}
	for _, p := range board.Panels {
		assert.True(t, !ids[p.ID], "panel %q has an id of its own", p.Title)
		ids[p.ID] = true
		assert.True(t, p.Type == "row" || p.Datasource.UID == "${datasource}" && len(p.Targets) > 0, "panel %q asks the data source that is chosen", p.Title)
		for _, target := range p.Targets {
			shown++
			if elsewhere.MatchString(target.Expr) {
				continue
			}
			assert.Equal(t, wrongIn(all, target.Expr), nil, "panel %q", p.Title)
			for _, l := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.True(t, strings.Contains(target.Expr, "by ("+l[1]) || strings.Contains(target.Expr, ", "+l[1]) || l[1] == "instance", "panel %q: legend %s", p.Title, l[1])
			}
		}
	}
	assert.True(t, shown >= 15, "figures on the board: %d", shown)
	for name := range all {
		if strings.HasPrefix(name, "retrysafe_") {
			assert.Contains(t, string(text), name, "the board")
		}
	}
}

// TestAlerts tests that the alerts about gateways name only metrics, labels and values of a
// gateway. Tests of cmd/retrysafe show when they fire.
func TestAlerts(t *testing.T) {
	t.Parallel()
	all, _ := families(t)
	text, err := os.ReadFile("../deploy/alerts.yml")
	assert.NoError(t, err, "alerts")
	var alerts struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	assert.NoError(t, yaml.UnmarshalWithOptions(text, &alerts, yaml.Strict()), "alerts")
	checked := 0
	for _, g := range alerts.Groups {
		for _, rule := range g.Rules {
			if !elsewhere.MatchString(rule.Expr) {
				checked++
				assert.Equal(t, wrongIn(all, rule.Expr), nil, "%s", rule.Alert)
			}
			if rule.Alert == "RetrysafeDoubts" {
				for _, words := range []string{"keys list --in-doubt", "keys resolve", "keys release", "--fence N"} {
					assert.Contains(t, rule.Annotations["description"], words, "what to do")
				}
			}
		}
	}
	assert.True(t, checked >= 10, "alerts about gateways: %d", checked)
}

func TestWrongIn(t *testing.T) {
	t.Parallel()
	all := familiesOf("# HELP retrysafe_a A.\n# TYPE retrysafe_a counter\nretrysafe_a{x=\"1\",y=\"2\"} 3\n# HELP retrysafe_b B.\nretrysafe_b_bucket{le=\"+Inf\"} 3\n")
	for expr, want := range map[string]string{
		`sum by (x) (rate(retrysafe_a{x="1",instance=~"$i"}[5m]))`:  "[]",
		`histogram_quantile(0.5, sum by (le) (retrysafe_b_bucket))`: "[]",
		`retrysafe_a{x=~"1|2"}`:        "[x=2]",
		`retrysafe_a{z="1"}`:           "[z=1]",
		`sum by (x, le) (retrysafe_a)`: "[by le]",
		`retrysafe_c > 0`:              "[retrysafe_c no metric in retrysafe_c > 0]",
	} {
		assert.Equal(t, fmt.Sprint(wrongIn(all, expr)), want, "%s", expr)
	}
}

// TestMetricsOfThePage tests that docs/gateway.md lists every metric; UPDATE=1 writes the list
// again.
func TestMetricsOfThePage(t *testing.T) {
	t.Parallel()
	all, _ := families(t)
	table := "\n| metric | labels | meaning |\n|---|---|---|\n"
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "retrysafe_") {
			continue
		}
		labels := []string{}
		for l := range all[name].labels {
			if l != "le" {
				labels = append(labels, "`"+l+"`")
			}
		}
		slices.Sort(labels)
		table += fmt.Sprintf("| `%s` | %s | %s |\n", name, strings.Join(labels, ", "), all[name].help)
	}
	const page = "../docs/gateway.md"
	text, err := os.ReadFile(page)
	assert.NoError(t, err, "page")
	const begin, end = "<!-- metrics: made from the code by UPDATE=1 go test -run TestMetricsOfThePage ./gateway -->\n", "<!-- end of metrics -->\n"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	assert.True(t, ok && ok2, "the page has both marks")
	want := before + begin + table + end + after
	if os.Getenv("UPDATE") != "" {
		assert.NoError(t, os.WriteFile(page, []byte(want), 0o600), "write")
		return
	}
	assert.True(t, string(text) == want, "docs/gateway.md has the metrics of the code; UPDATE=1 go test -run TestMetricsOfThePage writes them")
	assert.True(t, strings.Count(table, "\n") > 12, "metrics: %s", table)
}

// TestWords: boards and alerts know these metrics and labels, and programs these fields of the
// access log.
func TestWords(t *testing.T) {
	t.Parallel()
	all, line := families(t)
	words := []string{}
	for name, f := range all {
		if !strings.HasPrefix(name, "retrysafe_") {
			continue
		}
		words = append(words, "metric "+name)
		for label := range f.labels {
			words = append(words, "metric "+name+" label "+label)
		}
	}
	var log map[string]any
	assert.NoError(t, json.Unmarshal([]byte(line), &log), "line %s", line)
	for field := range log {
		words = append(words, "access log "+field)
	}
	assert.Words(t, "testdata/words.golden", words)
}

// TestAccessLogOfThePage tests that docs/gateway.md lists exactly the fields of a log line.
func TestAccessLogOfThePage(t *testing.T) {
	t.Parallel()
	_, line := families(t)
	var got map[string]any
	assert.NoError(t, json.Unmarshal([]byte(line), &got), "line %s", line)
	text, err := os.ReadFile("../docs/gateway.md")
	assert.NoError(t, err, "page")
	_, rest, _ := strings.Cut(string(text), "| field | meaning |\n|---|---|\n")
	table, _, _ := strings.Cut(rest, "\n\n")
	listed := map[string]bool{}
	for row := range strings.Lines(table) {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			listed[m[1]] = true
			assert.True(t, got[m[1]] != nil, "the line has %s", m[1])
		}
	}
	assert.Equal(t, len(listed), len(got), "fields of the page, of the line: %v, %s", listed, line)
}

// TestExampleConfiguration tests that the example works as it is, with and without the options that
// are off, and that its unit leaves enough time to drain.
func TestExampleConfiguration(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/gateway.yaml")
	assert.NoError(t, err, "file")
	c, err := config.Parse(text, nil)
	assert.NoError(t, err, "as it stands")
	o, policy, err := c.Options()
	assert.NoError(t, err, "as it stands")
	assert.NoError(t, o.Validate(policy), "as it stands")
	off := regexp.MustCompile(`(?m)^( *)#(\S)`)
	lines := off.FindAllIndex(text, -1)
	assert.True(t, len(lines) > 5, "options that are off: %d", len(lines))
	// the file has another upstream that is off
	alone := regexp.MustCompile(`(?m)^upstream: http.*\n`).ReplaceAll(text, nil)
	_, err = config.Parse(off.ReplaceAll(alone, []byte("$1$2")), nil)
	assert.NoError(t, err, "with all that is off")

	unit, err := os.ReadFile("../deploy/retrysafe.service")
	assert.NoError(t, err, "unit")
	m := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindSubmatch(unit)
	assert.True(t, m != nil, "the unit has TimeoutStopSec")
	stop, err := time.ParseDuration(string(m[1]) + "s")
	assert.NoError(t, err, "TimeoutStopSec")
	assert.True(t, stop > c.DrainTime() && c.DrainTime() > o.TimeoutAnswer, "stop %v > drain %v > timeout_answer %v", stop, c.DrainTime(), o.TimeoutAnswer)
	docker, err := os.ReadFile("../deploy/Dockerfile")
	assert.NoError(t, err, "Dockerfile")
	assert.Contains(t, string(docker), "--stop-timeout "+string(m[1]), "Dockerfile")
	var vars []string
	for _, v := range regexp.MustCompile(`RETRYSAFE_[A-Z]+=`).FindAllString(string(docker), -1) {
		vars = append(vars, strings.TrimSuffix(v, "="))
	}
	assert.True(t, len(vars) >= 4, "variables of the Dockerfile: %v", vars)
	for _, v := range vars {
		assert.Contains(t, config.Reference(), "`"+v+"`", "the reference")
	}
}
