package demo

import (
	"fmt"
	"io"
)

// table prints a scene as it runs: its name, then what happened without protection, then with it.
type table struct {
	out  io.Writer
	show bool
}

func newTable(out io.Writer, show bool) *table { return &table{out, show} }

const (
	sceneWidth = 41
	countWidth = 22
)

func (t *table) printf(format string, args ...any) {
	if t.show {
		fmt.Fprintf(t.out, format, args...)
	}
}

func (t *table) printHead() {
	t.printf("\n%-*s %8s  %-*s %-*s %s\n", sceneWidth, "scene", "requests", countWidth, "effects without", countWidth, "effects with", "answers equal")
}

func (t *table) printScene(r sceneResult) { t.printf("%-*s %8d  ", sceneWidth, r.Scene, r.Requests) }

func (t *table) printWithout(happened string) { t.printf("%-*s ", countWidth, happened) }

func (t *table) printWith(r sceneResult) {
	switch {
	case r.Error != "":
		t.printf("FAILED: %s\n", r.Error)
	case !r.OK:
		t.printf("%-*s %s   <- FAILED\n", countWidth, r.With, r.Answers)
	default:
		t.printf("%-*s %s\n", countWidth, r.With, r.Answers)
	}
}
