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

func (t *table) print(format string, args ...any) {
	if t.show {
		fmt.Fprintf(t.out, format, args...)
	}
}

func (t *table) head() {
	t.print("\n%-*s %8s  %-*s %-*s %s\n", sceneWidth, "scene", "requests", countWidth, "effects without", countWidth, "effects with", "answers equal")
}

func (t *table) begin(r row) { t.print("%-*s %8d  ", sceneWidth, r.Scene, r.Requests) }

func (t *table) without(happened string) { t.print("%-*s ", countWidth, happened) }

func (t *table) end(r row) {
	switch {
	case r.Error != "":
		t.print("FAILED: %s\n", r.Error)
	case !r.OK:
		t.print("%-*s %s   <- FAILED\n", countWidth, r.With, r.Answers)
	default:
		t.print("%-*s %s\n", countWidth, r.With, r.Answers)
	}
}
