package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

const twoRounds = `goos: linux
BenchmarkTx/SQLite-2   	 1000	 5.0 ns/op	 200.0 bare-µs	 300 DoTx-µs	 16 B/op
BenchmarkTx/SQLite-2   	 1000	 5.0 ns/op	 100.0 bare-µs	 200 DoTx-µs	 16 B/op
BenchmarkTx/SQLite-2   	 1000	 5.0 ns/op	 12345.6 bare-µs	 12346 DoTx-µs	 16 B/op
PASS
`

// TestTable: medians, spreads and ratios come from the output, and goals are marked by the program.
func TestTable(t *testing.T) {
	t.Parallel()
	got := samples{}
	assert.NoError(t, got.addBenchmarks("", []byte(twoRounds)), "parse")
	assert.Equal(t, got["Tx/SQLite DoTx-µs"], []float64{300, 200, 12346}, "values")
	c := comparison{ours: "DoTx", rival: "bare", rows: []row{
		{text: "met", ours: "Tx/SQLite DoTx-µs", rival: "Tx/SQLite bare-µs", unit: "µs", goal: goal{most: 1.5}},
		{text: "missed", ours: "Tx/SQLite DoTx-µs", rival: "Tx/SQLite bare-µs", unit: "µs", goal: goal{most: 1.49}},
		{text: "rates", ours: "Tx/SQLite DoTx-µs", rival: "Tx/SQLite bare-µs", unit: "ms", scale: 0.001, inverse: true, goal: goal{least: 0.667}},
		{text: "alone", ours: "Tx/SQLite B/op", unit: "-", goal: goal{least: 17}},
	}}
	table, err := c.renderTable(got)
	assert.NoError(t, err, "a table")
	assert.Equal(t, table, `|  | DoTx | bare | ratio | goal |
|---|---|---|---|---|
| met | 300 µs (200–12 300) | 200 µs (100–12 300) | 1.5 | ≤ 1.5 |
| missed | 300 µs (200–12 300) | 200 µs (100–12 300) | 1.5 | ≤ 1.49, **missed** |
| rates | 0.3 ms (0.2–12.3) | 0.2 ms (0.1–12.3) | 0.667 | ≥ 0.667 |
| alone | 16 |  |  | ≥ 17, **missed** |
`, "the table")
	_, err = (&comparison{rows: []row{{text: "gone", ours: "Tx/gone ns/op"}}}).renderTable(got)
	assert.Contains(t, err.Error(), `there is no figure "Tx/gone ns/op"`, "a benchmark that has another name")
	assert.True(t, samples{}.addBenchmarks("", []byte("PASS\n")) != nil, "a run without figures is an error")
}

// TestGateway reads the output of gatewaybench.
func TestGateway(t *testing.T) {
	t.Parallel()
	got := samples{}
	err := got.addGatewayRounds("two/", []byte("new keys               nginx      round 1:    25800 requests/s, gateway   41.7 us, Redis  14.6 us a request\n"+
		"repeats, 100 hot keys  retrysafe  round 1:    91600 requests/s, gateway   11.7 us, Redis   0.0 us a request\n\nnew keys  1.2x 3x 4x\n"))
	assert.NoError(t, err, "parse")
	assert.Equal(t, got["two/new keys/nginx gateway-µs"], []float64{41.7}, "nginx")
	assert.Equal(t, got["two/repeats, 100 hot keys/retrysafe requests/s"], []float64{91600}, "retrysafe")
	assert.Equal(t, len(got), 6, "figures")
}

// TestReplace writes between the marks, and nothing else.
func TestReplace(t *testing.T) {
	t.Parallel()
	page := "a\n<!-- bench:x -->\nold\n<!-- /bench -->\nb\n<!-- bench:y -->\nkept\n<!-- /bench -->\n"
	got, err := replaceTable([]byte(page), "x", "new\n")
	assert.NoError(t, err, "replace")
	assert.Equal(t, string(got), "a\n<!-- bench:x -->\n\nnew\n\n<!-- /bench -->\nb\n<!-- bench:y -->\nkept\n<!-- /bench -->\n", "the page")
	_, err = replaceTable([]byte(page), "z", "")
	assert.Contains(t, err.Error(), "no place for the table z", "a mark that is missing")
}

// TestPage: each comparison has its place in the page, and each place its comparison.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "benchmarks.md"))
	assert.NoError(t, err, "the page")
	assert.Equal(t, strings.Count(string(page), "<!-- bench:"), len(comparisons), "places in the page")
	for _, c := range comparisons {
		_, err := replaceTable(page, c.name, "")
		assert.NoError(t, err, "the place of %s", c.name)
	}
	_, err = selectComparisons(comparisons, "dotx,nothing")
	assert.Contains(t, err.Error(), `there is no comparison "nothing"; -only takes engine, `, "a name that is wrong")
}

// TestChart: the picture has a curve for each series, with a point at each tick, and a figure that
// is missing is an error.
func TestChart(t *testing.T) {
	t.Parallel()
	got := samples{}
	for _, size := range []string{"1e3/", "1e6/"} {
		assert.NoError(t, got.addBenchmarks(size, []byte("BenchmarkGrowth/SQLite-2 1000 80 full-keys/s 100 empty-keys/s\n")), "parse")
	}
	curve := series{name: "SQLite", points: []row{growthRow("SQLite", "1e3/", "keys"), growthRow("SQLite", "1e6/", "keys")}}
	c := chart{file: "x.svg", ticks: []string{"10³", "10⁶"}, least: 0.8, panels: []panel{{title: "new keys", series: []series{curve}}}}
	text, err := c.drawChart(got)
	assert.NoError(t, err, "draw")
	assert.Contains(t, text, `<polyline points="40.0,124.3 340.0,124.3"`, "the curve: at 0.8 of 1.4")
	assert.NoError(t, xml.Unmarshal([]byte(text), new(struct{})), "XML")
	c.panels[0].series[0].points[1].ours = "gone"
	_, err = c.drawChart(got)
	assert.Contains(t, err.Error(), `new keys, SQLite: no figures "gone"`, "a figure that is missing")
}
