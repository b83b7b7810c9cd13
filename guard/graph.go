package guard

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// moveGraph maps each state to the states that it leads to.
type moveGraph[S comparable] map[S][]S

// newGraph checks moves and returns a copy of them.
func newGraph[S comparable](moves map[S][]S) (moveGraph[S], error) {
	if len(moves) == 0 {
		return nil, misuseError("the machine has no moves; declare which state leads to which")
	}
	g := moveGraph[S]{}
	states := []S{}
	for from, all := range moves {
		g[from] = slices.Clone(all)
		states = append(states, from)
		states = append(states, all...)
		for i, to := range all {
			if slices.Contains(all[:i], to) {
				return nil, misuseError("the machine declares the move %v to %v twice; leave one out", from, to)
			}
		}
	}
	var zero S
	kind := reflect.TypeFor[S]().Kind()
	_, valuer := any(zero).(driver.Valuer)
	switch {
	case valuer, kind >= reflect.Int && kind <= reflect.Uint64:
	case kind == reflect.String:
		// To MySQL, texts that differ only in case or in trailing spaces are equal.
		for i, a := range states {
			for _, b := range states[:i] {
				if a != b && strings.EqualFold(trimmedText(a), trimmedText(b)) {
					return nil, misuseError("the states %q and %q are one text to a database that does not tell case or spaces at the end apart; rename one", fmt.Sprint(a), fmt.Sprint(b))
				}
			}
		}
	default:
		return nil, misuseError("states are of type %T; use a type of integers or of texts, or one that is a driver.Valuer and whose pointer is an sql.Scanner", zero)
	}
	return g, nil
}

func trimmedText[S comparable](s S) string { return strings.TrimRight(fmt.Sprint(s), " ") }

// reaches reports whether a path of at least one move leads from one state to another, without the
// moves that without excludes.
func (g moveGraph[S]) reaches(from, to S, without func(a, b S) bool) bool {
	seen := map[S]bool{}
	todo := []S{from}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for _, next := range g[at] {
			if without != nil && without(at, next) {
				continue
			}
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	return false
}

// findCycle returns a state that leads back to itself, if there is one.
func (g moveGraph[S]) findCycle() (at S, found bool) {
	for s := range g {
		if g.reaches(s, s, nil) {
			return s, true
		}
	}
	return at, false
}

// certainlyMoved reports whether a row that is in state now has certainly made the move. It has if
// no path from an initial state, which is one that no state leads to, reaches now without this
// move.
func (g moveGraph[S]) certainlyMoved(from, to, now S) bool {
	if now != to && !g.reaches(to, now, nil) {
		return false
	}
	for first := range g {
		entered := false
		for s := range g {
			entered = entered || slices.Contains(g[s], first)
		}
		if !entered && g.reaches(first, now, func(a, b S) bool { return a == from && b == to }) {
			return false
		}
	}
	return true
}

// declaredState returns the state as the machine declares it. A database may return a text with
// trailing spaces, or in another case.
func (g moveGraph[S]) declaredState(s S) S {
	if reflect.TypeFor[S]().Kind() != reflect.String {
		return s
	}
	same := func(a S) bool { return strings.EqualFold(trimmedText(a), trimmedText(s)) }
	for from, all := range g {
		if same(from) {
			return from
		}
		if i := slices.IndexFunc(all, same); i >= 0 {
			return all[i]
		}
	}
	return s
}
