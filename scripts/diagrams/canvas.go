package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

const (
	fontSize  = 13
	lineStep  = 17
	charWidth = 6.9 // a cautious mean of system fonts at fontSize
)

// style has one palette for light and one for dark. The ground is drawn, so that a page's own theme
// does not matter.
const style = `
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: var(--ink); }
  .strong { font-weight: 600; }
  .soft { fill: var(--soft); }
  .badText { fill: var(--bad); font-weight: 600; }
  .ground { fill: var(--ground); }
  .halo { fill: var(--ground); }
  .line { stroke: var(--ink); stroke-width: 1.4; fill: none; }
  .life { stroke: var(--soft); stroke-width: 1.2; }
  .answer { stroke-dasharray: 6 4; }
  .lost, .cross { stroke: var(--bad); }
  .cross { stroke-width: 2.6; stroke-linecap: round; }
  .head { fill: var(--ink); }
  .plain { fill: var(--box); stroke: var(--soft); stroke-width: 1.2; }
  .busy { fill: var(--busy-box); stroke: var(--busy); stroke-width: 1.4; }
  .good { fill: var(--good-box); stroke: var(--good); stroke-width: 1.4; }
  .bad { fill: var(--bad-box); stroke: var(--bad); stroke-width: 1.4; }
  svg {
    --ground: #ffffff; --ink: #1f2430; --soft: #667085; --box: #f4f5f8;
    --busy: #2f52cf; --busy-box: #e9eefc; --good: #18794e; --good-box: #e3f5ea; --bad: #c0263a; --bad-box: #fdeaec;
  }
  @media (prefers-color-scheme: dark) {
    svg {
      --ground: #14171f; --ink: #e6e9f0; --soft: #9aa3b5; --box: #222733;
      --busy: #8ba5ff; --busy-box: #1e2a4d; --good: #5ccb93; --good-box: #14352a; --bad: #ff8a94; --bad-box: #452027;
    }
  }
`

// canvas collects the elements of a picture.
type canvas struct{ b strings.Builder }

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.b, "  "+format+"\n", args...) }

func (c *canvas) text(x, y float64, class, s string) {
	c.add(`<text x="%.4g" y="%.4g" text-anchor="middle" class="%s">%s</text>`, x, y, class, escape(s))
}

// lines writes lines of text around the middle (x, y), and the ground below them if halo is set.
func (c *canvas) lines(x, y float64, halo bool, classes func(i int) string, all []string) {
	top := y - float64(len(all)*lineStep)/2
	if halo {
		w := textWidth(all) + 8
		c.add(`<rect x="%.4g" y="%.4g" width="%.4g" height="%d" class="halo"/>`, x-w/2, top-1, w, len(all)*lineStep+2)
	}
	for i, s := range all {
		c.text(x, top+float64(i*lineStep)+13, classes(i), s)
	}
}

// arrowHead draws the head of an arrow that ends at (x, y) and comes from the direction (dx, dy) of
// length one.
func (c *canvas) arrowHead(x, y, dx, dy float64) {
	c.add(`<path d="M%.4g %.4g L%.4g %.4g L%.4g %.4g Z" class="head"/>`,
		x, y, x-9*dx-4.5*dy, y-9*dy+4.5*dx, x-9*dx+4.5*dy, y-9*dy-4.5*dx)
}

func (c *canvas) cross(x, y, r float64) {
	c.add(`<path d="M%.4g %.4g L%.4g %.4g M%.4g %.4g L%.4g %.4g" class="cross"/>`, x-r, y-r, x+r, y+r, x-r, y+r, x+r, y-r)
}

// svg returns the whole picture.
func (c *canvas) svg(h head, width, height int) []byte {
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc" width="%d" height="%d" viewBox="0 0 %d %d">
  <title id="title">%s</title>
  <desc id="desc">%s</desc>
  <style>%s  </style>
  <rect width="%d" height="%d" rx="10" class="ground"/>
%s</svg>
`, width, height, width, height, escape(h.title), escape(h.desc), style, width, height, c.b.String())
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder does not fail
	return b.String()
}

func textWidth(all []string) (w float64) {
	for _, s := range all {
		w = max(w, float64(len([]rune(s)))*charWidth)
	}
	return w
}

// wrapped breaks s at bars, and at spaces where it is wider than width.
func wrapped(s string, width float64) (all []string) {
	for part := range strings.SplitSeq(s, "|") {
		now := ""
		for _, word := range strings.Fields(part) {
			if now != "" && textWidth([]string{now + " " + word}) > width {
				all = append(all, now)
				now = ""
			}
			now = strings.TrimSpace(now + " " + word)
		}
		all = append(all, now)
	}
	return all
}
