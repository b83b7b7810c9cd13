//go:build !race

package statespace_test

import (
	"fmt"
	"slices"
	"testing"
)

// TestCodesAreFaithful: the search visits one state of all that have the same code, so these must
// have the same future. Whenever the test meets a state with a known code, it compares the codes of
// all its next states with those of the first.
func TestCodesAreFaithful(t *testing.T) {
	t.Parallel()
	all := small
	if !long() {
		all = []config{small[1], small[4]}
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, s := faithful{futures: map[string][]string{}}, newSearch(c)
			s.met = f.compare
			if found := s.run(); found != "" {
				t.Error(found)
			}
			if f.wrong != "" {
				t.Error(f.wrong)
			}
			t.Logf("%d states, met %d times", len(s.paths), f.met)
		})
	}
}

type faithful struct {
	futures map[string][]string
	coder   coder
	met     int
	wrong   string
}

func (f *faithful) compare(w *world, code []byte) {
	f.met++
	var future []string
	n := w.fork()
	for _, a := range w.actions(nil) {
		n.become(w)
		n.step(a)
		n.prune()
		future = append(future, string(append(f.coder.code(n), byte(n.seen.broken))))
	}
	slices.Sort(future)
	future = slices.Compact(future)
	switch before, known := f.futures[string(code)]; {
	case !known:
		f.futures[string(code)] = future
	case !slices.Equal(before, future) && f.wrong == "":
		f.wrong = fmt.Sprintf("code %x leads to\n%x\nand to\n%x\nfrom %+v\n%+v", code, before, future, w.rows(), w.calls)
	}
}
