package main

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// comparison is one table of the page.
type comparison struct {
	name     string // of the table in the page, and of -only
	programs []program
	// ours and rival are the heads of their columns; without a rival the table has no ratios.
	ours, rival string
	rows        []row
	rounds      int    // at most; zero: no limit
	inner       int    // rounds that the programs make themselves, in which case they run once
	picture     *chart // nil: none
}

// row is one line of a table.
type row struct {
	text  string
	ours  string  // the name of a figure, see samples
	rival string  // of the rival in the same run; empty: none
	unit  string  // as it is shown; "-": none
	scale float64 // factor for both figures; zero: 1
	// inverse: the figures are times, and the ratio is that of the rates.
	inverse bool
	goal    goal // zero: none
}

// goal is a limit of the ratio, or of our own figure if there is no rival.
type goal struct {
	most, least float64 // zero: no limit
}

func (g goal) String() string {
	switch {
	case g.most > 0:
		return "≤ " + formatNumber(g.most)
	case g.least > 0:
		return "≥ " + formatNumber(g.least)
	}
	return ""
}

// isMet reports whether a value keeps to the goal, as it is shown: with three digits.
func (g goal) isMet(v float64) bool {
	v = roundDigits(v)
	return (g.most == 0 || v <= g.most) && (g.least == 0 || v >= g.least)
}

// renderTable returns the comparison in Markdown.
func (c *comparison) renderTable(got samples) (string, error) {
	var b strings.Builder
	heads := []string{"", c.ours}
	if c.rival != "" {
		heads = append(heads, c.rival, "ratio")
	}
	if c.hasGoals() {
		heads = append(heads, "goal")
	}
	b.WriteString("| " + strings.Join(heads, " | ") + " |\n|" + strings.Repeat("---|", len(heads)) + "\n")
	for _, r := range c.rows {
		cells, err := c.renderRow(&r, got)
		if err != nil {
			return "", fmt.Errorf("%s: %w", r.text, err)
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String(), nil
}

func (c *comparison) hasGoals() bool {
	for _, r := range c.rows {
		if r.goal != (goal{}) {
			return true
		}
	}
	return false
}

func (c *comparison) renderRow(r *row, got samples) ([]string, error) {
	ours := got[r.ours]
	if len(ours) == 0 {
		return nil, fmt.Errorf("there is no figure %q", r.ours)
	}
	value := spreadOf(ours).median * r.factor()
	cells := []string{r.text, r.formatSpread(ours)}
	if c.rival != "" {
		rival, times := "", ""
		if r.rival != "" {
			if len(got[r.rival]) == 0 {
				return nil, fmt.Errorf("there is no figure %q", r.rival)
			}
			q, err := r.ratio(ours, got[r.rival])
			if err != nil {
				return nil, err
			}
			rival, times, value = r.formatSpread(got[r.rival]), formatNumber(q), q
		}
		cells = append(cells, rival, times)
	}
	if c.hasGoals() {
		text := r.goal.String()
		if text != "" && !r.goal.isMet(value) {
			text += ", **missed**"
		}
		cells = append(cells, text)
	}
	return cells, nil
}

func (r *row) ratio(ours, rival []float64) (float64, error) {
	if r.inverse {
		ours, rival = rival, ours
	}
	return medianRatio(ours, rival)
}

func (r *row) factor() float64 {
	if r.scale == 0 {
		return 1
	}
	return r.scale
}

// formatSpread returns the median of values with its unit, and the spread if there is one.
func (r *row) formatSpread(values []float64) string {
	unit := r.unit
	if unit == "-" {
		unit = ""
	}
	s, f := spreadOf(values), r.factor()
	text := strings.TrimSpace(formatNumber(s.median*f) + " " + unit)
	if least, most := formatNumber(s.least*f), formatNumber(s.most*f); least != most {
		text += " (" + least + "–" + most + ")"
	}
	return text
}

// roundDigits returns v with three digits.
func roundDigits(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// formatNumber returns v with three digits, and thousands apart.
func formatNumber(v float64) string {
	v = roundDigits(v)
	text := strconv.FormatFloat(v, 'f', -1, 64)
	whole, _, broken := strings.Cut(text, ".")
	if broken || len(whole) < 5 {
		return text
	}
	var parts []string
	for ; len(whole) > 3; whole = whole[:len(whole)-3] {
		parts = append([]string{whole[len(whole)-3:]}, parts...)
	}
	return strings.Join(append([]string{whole}, parts...), " ")
}

// replaceTable puts a table between its marks in the page.
func replaceTable(page []byte, name, table string) ([]byte, error) {
	begin, end := []byte("<!-- bench:"+name+" -->\n"), []byte("<!-- /bench -->")
	before, rest, ok := bytes.Cut(page, begin)
	_, after, closed := bytes.Cut(rest, end)
	if !ok || !closed {
		return nil, fmt.Errorf("there is no place for the table %s; put %q and %q where it belongs", name, strings.TrimSpace(string(begin)), end)
	}
	var b bytes.Buffer
	for _, part := range [][]byte{before, begin, []byte("\n" + strings.TrimSpace(table) + "\n\n"), end, after} {
		b.Write(part)
	}
	return b.Bytes(), nil
}
