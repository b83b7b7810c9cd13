package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

var (
	boxLine  = regexp.MustCompile(`^box (\w+) (\d+),(\d+) (\d+)x(\d+) (plain|good|bad|busy): (.+)$`)
	edgeLine = regexp.MustCompile(`^(\w+)\.(left|right|top|bottom)(?::(\d+))? -> (\w+)\.(left|right|top|bottom)(?::(\d+))?((?: via(?: \d+,\d+)+)?): (.+)$`)
)

type point struct{ x, y float64 }

type box struct{ x, y, w, h float64 }

// at returns the point of a side of the box, at a place in percent.
func (b box) at(side string, percent float64) point {
	f := percent / 100
	switch side {
	case "left":
		return point{b.x, b.y + b.h*f}
	case "right":
		return point{b.x + b.w, b.y + b.h*f}
	case "top":
		return point{b.x + b.w*f, b.y}
	}
	return point{b.x + b.w*f, b.y + b.h}
}

// graph is a picture of boxes and the arrows between them.
type graph struct {
	canvas
	boxes map[string]box
}

func drawGraph(h head, rest []line) ([]byte, error) {
	g := &graph{boxes: map[string]box{}}
	for _, l := range rest {
		var err error
		if m := boxLine.FindStringSubmatch(l.text); m != nil {
			err = g.box(h, m)
		} else if m := edgeLine.FindStringSubmatch(l.text); m != nil {
			err = g.edge(m)
		} else {
			err = fmt.Errorf("%q is no box and no arrow", l.text)
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", l.n, err)
		}
	}
	return g.svg(h, h.width, h.height), nil
}

func (g *graph) box(h head, m []string) error {
	b := box{number(m[2]), number(m[3]), number(m[4]), number(m[5])}
	label := wrapped(m[7], b.w-8)
	switch {
	case b.x+b.w > float64(h.width) || b.y+b.h > float64(h.height):
		return fmt.Errorf("box %s is outside of the picture", m[1])
	case float64(len(label)*lineStep) > b.h:
		return fmt.Errorf("box %s is too small for its text", m[1])
	}
	g.boxes[m[1]] = b
	g.add(`<rect x="%g" y="%g" width="%g" height="%g" rx="8" class="%s"/>`, b.x, b.y, b.w, b.h, m[6])
	g.lines(b.x+b.w/2, b.y+b.h/2, false, func(i int) string {
		if i == 0 {
			return "strong"
		}
		return "soft"
	}, label)
	return nil
}

func (g *graph) edge(m []string) error {
	from, ok := g.boxes[m[1]]
	to, ok2 := g.boxes[m[4]]
	if !ok || !ok2 {
		return fmt.Errorf("an arrow needs two boxes that stand above it")
	}
	path := []point{from.at(m[2], percent(m[3]))}
	for _, p := range strings.Fields(strings.TrimPrefix(m[7], " via")) {
		x, y, _ := strings.Cut(p, ",")
		path = append(path, point{number(x), number(y)})
	}
	path = append(path, to.at(m[5], percent(m[6])))
	var d strings.Builder
	long := 1
	for i, p := range path {
		fmt.Fprintf(&d, "%s%.4g %.4g ", map[bool]string{true: "M", false: "L"}[i == 0], p.x, p.y)
		if i > 0 && length(path, i) > length(path, long) {
			long = i
		}
	}
	g.add(`<path d="%s" class="line"/>`, strings.TrimSpace(d.String()))
	last := len(path) - 1
	n := length(path, last)
	g.arrowHead(path[last].x, path[last].y, (path[last].x-path[last-1].x)/n, (path[last].y-path[last-1].y)/n)
	a, b := path[long-1], path[long]
	g.lines((a.x+b.x)/2, (a.y+b.y)/2, true, func(int) string { return "" }, wrapped(m[8], widest))
	return nil
}

// length returns the length of the part of path that ends at i.
func length(path []point, i int) float64 {
	return math.Hypot(path[i].x-path[i-1].x, path[i].y-path[i-1].y)
}

func percent(s string) float64 {
	if s == "" {
		return 50
	}
	return number(s)
}

// number returns the number of digits that a pattern has matched.
func number(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64) // only digits are passed
	return f
}
