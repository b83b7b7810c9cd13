package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// chart is a picture of ratios, one panel beside the other.
type chart struct {
	file   string // in docs
	ticks  []string
	least  float64 // the goal, as a line
	panels []panel
}

// panel has a curve for each series.
type panel struct {
	title  string
	series []series
}

// series is a curve: our figures and the rival's at each tick.
type series struct {
	name   string
	points []row
}

// Sizes of the picture in pixels.
const (
	panelWidth, panelHeight = 300, 220
	marginLeft, marginTop   = 40, 30
	legendWidth             = 110
	topRatio                = 1.4
)

// curveColors are told apart without red and green.
var curveColors = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7"}

// drawChart returns the picture as SVG. It has its own background, for pages that are dark.
func (c *chart) drawChart(got samples) (string, error) {
	var b strings.Builder
	step := panelWidth + marginLeft + 20
	width, height := len(c.panels)*step+legendWidth, panelHeight+marginTop+40
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	for i, p := range c.panels {
		if err := c.drawPanel(&b, &p, i*step+marginLeft, got); err != nil {
			return "", err
		}
	}
	for i, s := range c.panels[0].series {
		y := marginTop + 20 + 20*i
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="14" height="4" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", width-legendWidth, y-5, curveColors[i], width-legendWidth+20, y, s.name)
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

func (c *chart) drawPanel(b *strings.Builder, p *panel, left int, got samples) error {
	at := func(tick int, ratio float64) (x, y float64) {
		return float64(left) + float64(panelWidth)*float64(tick)/float64(max(1, len(c.ticks)-1)), marginTop + panelHeight*(1-min(ratio, topRatio)/topRatio)
	}
	fmt.Fprintf(b, `<text x="%d" y="18" font-weight="bold">%s</text>`+"\n", left, p.title)
	for ratio := 0.0; ratio <= topRatio; ratio += 0.2 {
		_, y := at(0, ratio)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/><text x="%d" y="%.1f" text-anchor="end">%.1f</text>`+"\n", left, y, left+panelWidth, y, left-6, y+4, ratio)
	}
	_, goal := at(0, c.least)
	fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#555555" stroke-dasharray="5 4"/>`+"\n", left, goal, left+panelWidth, goal)
	for i, tick := range c.ticks {
		x, _ := at(i, 0)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, marginTop+panelHeight+18, tick)
	}
	for i, s := range p.series {
		var points []string
		for tick, r := range s.points {
			ratio, err := medianRatio(got[r.ours], got[r.rival])
			if err != nil || len(got[r.ours]) == 0 {
				return fmt.Errorf("the picture %s: %s, %s: no figures %q and %q", c.file, p.title, s.name, r.ours, r.rival)
			}
			x, y := at(tick, ratio)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x, y, curveColors[i])
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), curveColors[i])
	}
	return nil
}

// writeChart writes the picture into docs.
func (j *job) writeChart(c *chart, got samples) error {
	text, err := c.drawChart(got)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(j.root, "docs", c.file), []byte(text), 0o644)
}
