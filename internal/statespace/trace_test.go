//go:build !race

package statespace_test

import (
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var flightNames = map[flight]string{
	try1: "Acquire 1", try2: "Acquire 2", try3: "Acquire 3", extend: "Extend", end: "ending", giveBack: "give-back", stray: "stray Release", works: "beginning of work",
}

var statusNames = [...]string{"", "won", "in progress", "finished", "in doubt", "mismatch", "principal changed", "fence changed", "not issued", "already issued", "owner spent"}

var decisionNames = [...]string{"", "Complete", "Fail", "Release", "Doubt"}

func (c *call) String() string {
	if c.operator {
		return fmt.Sprintf("operator %d", c.id)
	}
	return fmt.Sprintf("caller %d", c.id)
}

// trace is a readable sequence of steps.
type trace struct {
	text strings.Builder
	n    int
}

func (t *trace) add(format string, args ...any) {
	t.n++
	fmt.Fprintf(&t.text, "\n%4d. ", t.n)
	fmt.Fprintf(&t.text, format, args...)
}

// step describes what a has done; w is the world after it.
func (t *trace) step(w *world, a action) {
	c := &w.calls[a.call]
	switch a.kind {
	case tick:
		t.add("%d µs pass", w.ticks[a.arg])
	case setBack:
		t.add("the store's clock is set back by %d µs", w.back)
	case sweep:
		t.add("a sweep removes the record")
	case begin, retry:
		how := "under Refuse"
		switch {
		case c.operator:
			how = fmt.Sprintf("if the fence is %d, force %v", c.ifFence, c.force)
		case c.policy == storeapi.Reexecute:
			how = "under Reexecute"
		}
		t.add("%v sends Acquire %d, not after %d, %s", c, c.tries, c.notAfter[c.tries-1], how)
	case giveUp:
		t.add("%v gives up", c)
	case crash:
		t.add("%v crashes", c)
	case deliver:
		t.delivery(w, c, a)
	case write:
		t.add("%v writes with fence %d; the resource has seen %d", c, c.fence, w.resource.fence)
	case decide:
		t.add("%v sends %s with fence %d", c, decisionNames[c.ending], c.fence)
	case resend:
		t.add("%v repeats its %s", c, decisionNames[c.ending])
	case leave:
		t.add("%v dies, or lets its lease lapse", c)
	case reclaim:
		if c.giving == 0 {
			t.add("%v looks, and has nothing to give back", c)
		} else {
			t.add("%v gives back fence %d", c, c.giving)
		}
	case sendExtend:
		t.add("%v sends Extend", c)
	case sendStray:
		t.add("%v sends Release behind its Complete", c)
	case sendWorks:
		t.add("%v was told that nothing was done, and says that its work begins", c)
	}
}

func (t *trace) delivery(w *world, c *call, a action) {
	r, f := &w.result, flight(a.arg)
	said := "accepted"
	switch {
	case r.err != nil:
		said = r.err.Error()
	case f&acquires != 0:
		said = statusNames[r.status]
	}
	what := flightNames[f]
	if f == end {
		what = decisionNames[c.ending]
	}
	hears := "nobody hears it"
	if a.how&heard != 0 {
		hears = c.String() + " hears it"
	}
	if c.phase == running && f&acquires != 0 && !c.operator && a.how&heard != 0 {
		hears += " and starts"
	}
	if a.how&copied != 0 {
		hears += ", and the network keeps a copy"
	}
	t.add("at %d the %s of %v arrives, fence %d: %s; %s", w.store.now(), what, c, r.fence, said, hears)
}
