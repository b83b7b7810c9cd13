//go:build !race

package statespace_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// property is something that must always hold.
type property uint8

const (
	oneStart property = iota + 1
	oneAnswer
	answerKept
	doubtKept
	fencesGrow
	fenced
	noGhost
	notStuck
	staleRefused
	named
	answers
	propertyCount
)

var propertyText = [...]string{
	oneStart:     "under Refuse, work that may have acted is not started again in the record's life, unless an operator allowed it",
	oneAnswer:    "nobody is told a final answer that differs from what another was told, as long as that is kept",
	answerKept:   "an answer that somebody was told stays the record's until its retention has passed",
	doubtKept:    "under Refuse, what may have happened stays in the record until it is known or an operator allows a run",
	fencesGrow:   "each win has a larger fence than all before it",
	fenced:       "a resource that checks fences takes no write of an earlier win after that of a later one, and refuses no other",
	noGhost:      "what an unanswered Acquire has claimed is given back, unless its caller crashed",
	notStuck:     "once the lease has passed a fresh caller wins or is given the answer, or is told of a doubt that the record's policy keeps",
	staleRefused: "a request of a holder that is not the record's changes nothing",
	named:        "what may have acted is named by the record until that is finished, and who only asked is not",
	answers:      "the store answers every call",
}

// properties is a set of properties.
type properties uint16

const everything = properties(1<<propertyCount - 1)

func only(p property) properties { return 1 << p }

// fail records the first violated property.
func (w *world) fail(p property, format string, args ...any) {
	if w.check&only(p) != 0 && w.seen.broken == 0 {
		w.seen.broken, w.seen.why = p, fmt.Sprintf(format, args...)
	}
}

// binds reports whether a call's attempt counts as the one start of a record's life.
func (c *call) binds() bool { return c.record == storeapi.Refuse && !c.inert && !c.excused }

// won records a successful claim.
func (w *world) won(c *call, before, rec *storeapi.Record) {
	m := &w.seen
	if rec.Fence <= m.highest {
		w.fail(fencesGrow, "%s wins fence %d after %d", c, rec.Fence, m.highest)
	}
	m.highest = max(m.highest, rec.Fence)
	m.wins++
	if m.over {
		m.life, m.over, m.allowed = m.life+1, false, false
	}
	if before.State == storeapi.StateFailed && c.operator {
		m.told = [3]byte{} // a person reopens a refusal
		for i := range w.calls {
			if o := &w.calls[i]; o.life == m.life {
				o.settled = true
			}
		}
	}
}

// applied records what a holder's request has changed in the record.
func (w *world) applied(h *holder, before *storeapi.Record) {
	after := w.store.lookup()
	if !before.State.Finished() && after.State.Finished() {
		w.seen.keep = w.store.now() + w.retention
	}
	theirs := before.Owner != h.owner || before.Fence != h.fence
	if theirs && (before.State != after.State || before.LeaseLeft != after.LeaseLeft || !before.Expires.Equal(after.Expires)) {
		w.fail(staleRefused, "a request of call %d with fence %d changes a record with fence %d", h.owner[1], h.fence, before.Fence)
	}
}

// tell records a final answer.
func (w *world) tell(c *call, body []byte) {
	if len(body) != len(w.seen.told) {
		w.fail(oneAnswer, "%s is told that it is finished, without an answer", c)
		return
	}
	told := [3]byte(body)
	if w.seen.told != [3]byte{} && w.seen.told != told {
		w.fail(oneAnswer, "%s is told the answer of call %d, after another was told that of call %d", c, told[2], w.seen.told[2])
	}
	w.seen.told = told
}

// observe checks the record after each step.
func (w *world) observe() {
	m, rec := &w.seen, w.store.lookup()
	switch {
	case rec.State != 0:
		m.state, m.policy, m.over = rec.State, rec.OnDoubt, false
	case m.state != storeapi.StateInProgress || m.policy == storeapi.Reexecute:
		m.over = true
	}
	if m.told != [3]byte{} {
		switch {
		case w.store.now() >= m.keep:
			m.told = [3]byte{}
		case !rec.State.Finished() || string(rec.Answer.Body) != string(m.told[:]):
			w.fail(answerKept, "the answer of call %d was told, and the record is %v with %x", m.told[2], rec.State, rec.Answer.Body)
		}
	}
	kept := rec.State == storeapi.StateInProgress || rec.State.Finished()
	for i := range w.calls {
		c := &w.calls[i]
		if c.started && c.binds() && c.life == m.life && !m.over && !kept {
			w.fail(doubtKept, "%s may have acted, and the record is %v", c, rec.State)
		}
		if !m.over && !rec.State.Finished() {
			w.names(c, &rec)
		}
		if rec.State == storeapi.StateInProgress && rec.Owner == c.owner() && w.ghost(c, rec.Fence) {
			w.fail(noGhost, "fence %d of %s is in progress and nobody waits for it", rec.Fence, c)
		}
	}
}

// names checks whether the record names c where it should. A caller that never learned that it had
// acquired the key may be named too.
func (w *world) names(c *call, rec *storeapi.Record) {
	has := func(f storeapi.Fence) bool {
		return slices.ContainsFunc(rec.MayHaveWorked(), func(o storeapi.Worked) bool { return o.Fence == f })
	}
	is := has(c.fence)
	switch {
	case c.operator && !c.begins && c.returned != 0 && has(c.returned):
		w.fail(named, "%s only asks, and the record names %v", c, rec.MayHaveWorked())
	case c.fence == 0 || c.life != w.seen.life:
	case c.started && !c.inert && !c.settled && !is && !rec.EarlierCut:
		w.fail(named, "%s may have acted, and the record names %v", c, rec.MayHaveWorked())
	case c.operator && !c.begins && is:
		w.fail(named, "%s only asks, and the record names %v", c, rec.MayHaveWorked())
	}
}

// ghost reports whether a claim of c with this fence will stay although no caller was ever given
// it.
func (w *world) ghost(c *call, fence storeapi.Fence) bool {
	waits := c.phase == acquiring || c.unanswered != 0 || c.giving != 0
	return !waits && fence != c.fence && fence != c.returned && !c.crashed && !w.seen.ghosts
}

// probe asks a copy of the store what a new caller would be answered once the lease has passed, and
// long after.
func (w *world) probe() {
	for _, wait := range [...]time.Duration{w.store.lookup().LeaseLeft, time.Hour} {
		s := *w.rows()
		rec := s.lookup()
		s.move(wait.Microseconds())
		w.freshCaller(&s, &rec)
	}
}

// freshCaller is a call under Reexecute on a record that was rec before its lease passed.
func (w *world) freshCaller(s store, rec *storeapi.Record) {
	got, err := s.acquire(storeapi.AcquireRequest{
		Owner: storeapi.Owner{0xff}, OnDoubt: storeapi.Reexecute, Lease: micros(w.lease), Retention: micros(w.retention),
	})
	switch {
	case err != nil:
		w.fail(answers, "a fresh caller: %v", err)
	case got.Status == storeapi.StatusAcquired, got.Status == storeapi.StatusFinished:
	case got.Status == storeapi.StatusInDoubt && rec.OnDoubt == storeapi.Refuse && rec.State == storeapi.StateInProgress:
	default:
		w.fail(notStuck, "a fresh caller is told %q of a record that is %v", statusNames[got.Status], rec.State)
	}
}
