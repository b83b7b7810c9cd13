//go:build !race

package statespace_test

import (
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// action is one step of a world.
type action struct {
	kind kind
	call uint8
	// arg is an index of a tick or a policy, a flight, a decision, or a yes.
	arg uint8
	// how is what happens to a delivery.
	how uint8
}

type kind uint8

const (
	tick kind = iota
	setBack
	sweep
	begin
	retry
	giveUp
	crash
	deliver
	write
	decide
	resend
	leave
	reclaim
	sendExtend
	sendStray
	sendWorks
	kinds
)

// The outcomes of a delivery: the answer arrives or is lost; the network keeps a copy.
const (
	heard uint8 = 1 << iota
	copied
)

// actions appends all possible next steps.
func (w *world) actions(all []action) []action {
	if w.rand != nil || w.timeMatters() {
		for i := range w.ticks {
			all = append(all, action{kind: tick, arg: uint8(i)})
		}
	}
	if w.backsLeft > 0 {
		all = append(all, action{kind: setBack})
	}
	rec := w.store.lookup()
	if rec.State == 0 && w.seen.state != 0 {
		all = append(all, action{kind: sweep})
	}
	busy, fresh, freshOp := 0, true, true
	for i := range w.calls {
		if p := w.calls[i].phase; p != idle && p != gone {
			busy++
		}
	}
	for i := range w.calls {
		c := &w.calls[i]
		switch {
		case c.phase != idle:
			all = w.callActions(all, uint8(i))
		case c.operator && freshOp:
			freshOp = false
			if rec.InDoubt() || rec.State == storeapi.StateFailed {
				all = append(all, action{kind: begin, call: uint8(i)})
			} else if w.force && rec.State == storeapi.StateInProgress {
				all = append(all, action{kind: begin, call: uint8(i), arg: 1})
			}
		case !c.operator && fresh && (w.together == 0 || busy < w.together):
			fresh = false
			for p := range w.policies {
				all = append(all, action{kind: begin, call: uint8(i), arg: uint8(p)})
			}
		}
	}
	return all
}

func (w *world) callActions(all []action, i uint8) []action {
	c := &w.calls[i]
	add := func(k kind, arg uint8) { all = append(all, action{kind: k, call: i, arg: arg}) }
	for f := try1; f != 0; f <<= 1 {
		if c.flight&f == 0 {
			continue
		}
		all = append(all, action{deliver, i, uint8(f), 0})
		if w.listens(c, f) {
			all = append(all, action{deliver, i, uint8(f), heard})
			if w.dupsLeft > 0 {
				all = append(all, action{deliver, i, uint8(f), heard | copied})
			}
		}
	}
	switch c.phase {
	case acquiring:
		most := w.tries
		if c.operator && w.operatorTries != 0 {
			most = w.operatorTries
		}
		if int(c.tries) < most {
			add(retry, 0)
		}
		add(giveUp, 0)
		if c.open || c.unanswered != 0 {
			add(crash, 0)
		}
	case running:
		add(decide, uint8(done))
		add(decide, uint8(doubt))
		if !c.wrote || c.policy == storeapi.Reexecute {
			add(decide, uint8(nothing))
		}
		if w.fails && !c.operator && !c.wrote {
			add(decide, uint8(failed))
		}
		if w.extends && !c.operator && c.flight&extend == 0 {
			add(sendExtend, 0)
		}
		if c.operator && !c.started && c.flight&works == 0 {
			add(sendWorks, 0)
		}
		add(leave, 0)
	case ending:
		if c.flight&end == 0 {
			add(resend, 0)
		}
		add(leave, 0)
		if w.rules.strays && c.ending == done && c.flight&stray == 0 {
			add(sendStray, 0)
		}
	}
	if w.mayWrite(c) {
		add(write, 0)
	}
	switch {
	case c.giving != 0 && c.flight&giveBack == 0:
		add(reclaim, 0)
	case c.giving == 0 && c.unanswered != 0 && c.phase != acquiring && w.store.now() > c.unanswered:
		add(reclaim, 0)
		if c.policy == storeapi.Reexecute {
			add(reclaim, 1) // the engine does so if it may have taken over from another attempt
		}
	}
	if c.phase == gone && (c.giving != 0 || c.unanswered != 0) {
		add(crash, 0)
	}
	return all
}

// listens reports whether an answer to f would still arrive.
func (w *world) listens(c *call, f flight) bool {
	switch f {
	case try1, try2, try3:
		return c.phase == acquiring && c.open && f == try1<<(c.tries-1)
	case end:
		return c.phase == ending
	case works:
		return c.phase == running
	case giveBack:
		return c.giving != 0
	}
	return false
}

// timeMatters reports whether any possible step depends on the clock.
func (w *world) timeMatters() bool {
	s := w.rows()
	if s.row.LeaseEnd > s.time || s.row.Expires > s.time {
		return true
	}
	for i := range w.calls {
		c := &w.calls[i]
		if c.unanswered >= s.time {
			return true
		}
		for t := range maxTries {
			if c.flight&(try1<<t) != 0 && c.notAfter[t] >= s.time {
				return true
			}
		}
	}
	return false
}

// step performs the action, and checks the properties afterwards.
func (w *world) step(a action) {
	c := &w.calls[a.call]
	switch a.kind {
	case tick:
		w.store.move(w.ticks[a.arg])
	case setBack:
		w.backsLeft--
		w.seen.ghosts = true // a time limit that had passed is in the future again
		w.store.move(-w.back)
	case sweep:
		w.store.sweep()
	case deliver:
		w.deliver(c, flight(a.arg), a.how)
	default:
		w.act(c, a)
	}
	w.observe()
}

// act performs a step of a caller.
func (w *world) act(c *call, a action) {
	switch a.kind {
	case begin:
		w.begin(c, a.arg)
	case retry:
		w.unanswered(c)
		w.ask(c)
	case giveUp:
		w.unanswered(c)
		c.phase = gone
	case crash:
		w.crash(c)
	case write:
		w.write(c)
	case decide:
		w.decide(c, decision(a.arg))
	case resend:
		c.flight |= end
	case leave:
		c.phase = gone
	case reclaim:
		w.reclaim(c, a.arg == 1)
	case sendExtend:
		c.flight |= extend
	case sendStray:
		c.flight |= stray
	case sendWorks:
		c.flight |= works
		c.begins = true
		if w.rules.unconfirmed {
			w.startAsAllowed(c)
		}
	}
}
