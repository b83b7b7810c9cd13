package demo

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
)

// examiner examines an unprotected shop and one after a gateway for the page, one examination at a
// time. Each has its own shop and gateway: it does not change what the page counts, and goes on if
// the page's gateway is killed.
type examiner struct {
	open func(ctx context.Context, name string) (s *stage, end func(), err error)

	mu      sync.Mutex
	state   examineState
	reports map[string]*check.Report // by side
}

// examineState is what the page shows of the last examination.
type examineState struct {
	Number  int    `json:"number"` // of the examination, from 1
	Running bool   `json:"running"`
	Error   string `json:"error,omitempty"` // why it stopped
	// without and with, once they have begun
	Sides map[string]examinedSide `json:"sides"`
}

// examinedSide is how far the examination of one side is.
type examinedSide struct {
	Total    int             `json:"total"`         // checks
	Now      string          `json:"now,omitempty"` // the check that runs
	Checks   []examinedCheck `json:"checks"`        // those that have ended
	Requests int             `json:"requests"`      // sent in all, once the side has ended
}

type examinedCheck struct {
	ID       string `json:"id"`
	Page     string `json:"page"`
	Verdict  string `json:"verdict"`
	Severity string `json:"severity,omitempty"` // of a broken one
}

func newExaminer(open func(context.Context, string) (*stage, func(), error)) *examiner {
	return &examiner{open: open, reports: map[string]*check.Report{}}
}

// tryBegin forgets the last examination and begins another. It returns false if one runs.
func (x *examiner) tryBegin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state.Running {
		return false
	}
	x.state = examineState{Number: x.state.Number + 1, Running: true, Sides: map[string]examinedSide{}}
	clear(x.reports)
	return true
}

// runBegun does what tryBegin has begun.
func (x *examiner) runBegun(ctx context.Context) {
	err := x.examineSides(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state.Running = false; err != nil {
		x.state.Error = err.Error()
	}
}

func (x *examiner) examineSides(ctx context.Context) error {
	s, end, err := x.open(ctx, fmt.Sprint("examined-", x.snapshot().Number))
	if err != nil {
		return err
	}
	defer end()
	for _, protected := range []bool{false, true} {
		way := sideName(protected)
		x.changeSide(way, func(side *examinedSide) { side.Total = len(sceneChecks) })
		r, err := examineSide(ctx, s, protected, func(e check.Event) {
			x.changeSide(way, func(side *examinedSide) { side.noteEvent(e) })
		})
		if err != nil {
			return err
		}
		x.changeSide(way, func(side *examinedSide) { side.Now, side.Requests = "", r.Requests })
		x.mu.Lock()
		x.reports[way] = r
		x.mu.Unlock()
	}
	return nil
}

func sideName(protected bool) string {
	if protected {
		return "with"
	}
	return "without"
}

func (x *examiner) changeSide(way string, how func(*examinedSide)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	side := x.state.Sides[way]
	how(&side)
	x.state.Sides[way] = side
}

// noteEvent notes the begin or the end of a check. Checks that the scene leaves out are not shown.
func (s *examinedSide) noteEvent(e check.Event) {
	switch {
	case !slices.Contains(sceneChecks, e.Check.ID):
	case e.Result == nil:
		s.Now = e.Check.ID
	default:
		done := examinedCheck{ID: e.Check.ID, Page: e.Check.Page(), Verdict: e.Result.Verdict.String()}
		if e.Result.Verdict == check.Broken {
			done.Severity = e.Result.Severity.String()
		}
		s.Checks = append(s.Checks, done)
	}
}

// snapshot returns a copy of the state.
func (x *examiner) snapshot() examineState {
	x.mu.Lock()
	defer x.mu.Unlock()
	st := x.state
	st.Sides = maps.Clone(st.Sides)
	return st
}

// serveReport shows the report of a side, as retrysafe check --html writes it.
func (x *examiner) serveReport(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	found := x.reports[r.PathValue("side")]
	x.mu.Unlock()
	if found == nil {
		refuseRequest(w, r, http.StatusNotFound, "examine.no-report")
		return
	}
	// The report itself says which style and which script it has, in its head.
	w.Header().Set("Content-Security-Policy", "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = report.HTML(w, found) // the browser has gone
}
