//go:build !race

package statespace_test

import (
	"fmt"
	"hash/maphash"
)

// search visits all states of a configuration, in the order of their distance in steps.
type search struct {
	config *config
	seed   maphash.Seed
	seen   map[uint64]struct{}
	paths  []path
	coder  coder
	// most limits the number of states.
	most int
	// met, if not nil, is called with every visited state, each time, and its code.
	met             func(*world, []byte)
	depth, attempts int
}

// path is how a state was first reached.
type path struct {
	from int32
	last action
}

// beginning is the clock at the start of all searches; it is above zero.
const beginning = 100

func (s *search) first() *world {
	return newWorld(s.config, &rows{time: beginning, rules: s.config.rules})
}

// run returns the steps to the first violation of a property; empty: there is none.
func (s *search) run() string {
	s.seed, s.seen = maphash.MakeSeed(), map[uint64]struct{}{}
	first := s.first()
	s.add(first, path{from: -1})
	level, base := []*world{first}, 0
	var todo []action
	n := first.fork()
	for ; len(level) > 0; s.depth++ {
		var next []*world
		start := len(s.paths)
		for i, w := range level {
			todo = w.actions(todo[:0])
			for _, a := range todo {
				n.become(w)
				n.step(a)
				n.prune()
				how := path{int32(base + i), a}
				if n.seen.broken != 0 {
					return s.explain(how)
				}
				if !s.add(n, how) {
					continue
				}
				if n.probe(); n.seen.broken != 0 {
					return s.explain(how)
				}
				if len(s.paths) >= s.most {
					return ""
				}
				next = append(next, n.fork())
			}
			level[i] = nil // for the garbage collector
		}
		level, base = next, start
	}
	return ""
}

// add returns false if the state is known.
func (s *search) add(w *world, how path) bool {
	code := s.coder.code(w)
	if s.met != nil {
		s.met(w, code)
	}
	hash := maphash.Bytes(s.seed, code)
	if _, known := s.seen[hash]; known {
		return false
	}
	s.seen[hash] = struct{}{}
	s.attempts = max(s.attempts, w.rows().row.Attempt)
	s.paths = append(s.paths, how)
	return true
}

// prune drops what can have no effect any more, so that states that differ only in that count once.
func (w *world) prune() {
	if w.backsLeft > 0 || w.rules.late {
		return
	}
	s := w.rows()
	for i := range w.calls {
		c := &w.calls[i]
		for t := range maxTries {
			if f := try1 << t; c.flight&f != 0 && c.notAfter[t] < s.time && !w.listens(c, f) {
				c.flight &^= f
			}
		}
		if c.phase != acquiring && c.flight&acquires == 0 && (s.row.Absent(s.time) || s.row.Owner != c.owner()) {
			c.unanswered = 0 // nothing was claimed, and nothing can be
		}
		if w.rules.won != nil {
			continue
		}
		// Requests of a former holder are refused for ever, since no fence occurs twice.
		if c.flight&(extend|end|stray) != 0 && c.fence < max(s.row.Fence, s.floor) && !w.listens(c, end) {
			w.drop(i, c.flight&(extend|end|stray))
		}
		if c.flight&giveBack != 0 && c.giving < max(s.row.Fence, s.floor) && w.drop(i, giveBack) {
			c.giving = 0
		}
	}
}

// drop drops the requests after checking that they have no effect.
func (w *world) drop(i int, requests flight) bool {
	n := w.fork()
	before := n.rows().row
	for f := extend; f <= stray; f <<= 1 {
		if requests&f != 0 {
			n.deliver(&n.calls[i], f, 0)
		}
	}
	after := &n.rows().row
	if before.State != after.State || before.Fence != after.Fence || before.LeaseEnd != after.LeaseEnd || before.Expires != after.Expires {
		return false // the step that delivers it finds out
	}
	w.calls[i].flight &^= requests
	return true
}

// explain performs the steps again and writes them down.
func (s *search) explain(how path) string {
	steps := []action{how.last}
	for how.from > 0 {
		how = s.paths[how.from]
		steps = append(steps, how.last)
	}
	w, t := s.first(), trace{}
	for i := len(steps) - 1; i >= 0; i-- {
		w.step(steps[i])
		t.step(w, steps[i])
		w.prune()
	}
	if w.seen.broken == 0 {
		w.probe()
	}
	return fmt.Sprintf("%s: %s%s", propertyText[w.seen.broken], w.seen.why, t.text.String())
}
