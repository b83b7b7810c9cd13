package guard

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// graph maps each state to the states that it leads to.
type graph[S comparable] map[S][]S

// declared checks moves and returns a copy of them.
func declared[S comparable](moves map[S][]S) (graph[S], error) {
	if len(moves) == 0 {
		return nil, misuse("the machine has no moves; declare which state leads to which")
	}
	g := graph[S]{}
	states := []S{}
	for from, all := range moves {
		g[from] = slices.Clone(all)
		states = append(states, from)
		states = append(states, all...)
		for i, to := range all {
			if slices.Contains(all[:i], to) {
				return nil, misuse("the machine declares the move %v to %v twice; leave one out", from, to)
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
				if a != b && strings.EqualFold(trimmed(a), trimmed(b)) {
					return nil, misuse("the states %q and %q are one text to a database that does not tell case or spaces at the end apart; rename one", fmt.Sprint(a), fmt.Sprint(b))
				}
			}
		}
	default:
		return nil, misuse("states are of type %T; use a type of integers or of texts, or one that is a driver.Valuer and whose pointer is an sql.Scanner", zero)
	}
	return g, nil
}

func trimmed[S comparable](s S) string { return strings.TrimRight(fmt.Sprint(s), " ") }

// reaches reports whether a path of at least one move leads from one state to another, without the
// moves that without excludes.
func (g graph[S]) reaches(from, to S, without func(a, b S) bool) bool {
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

// cycle returns a state that leads back to itself, if there is one.
func (g graph[S]) cycle() (at S, found bool) {
	for s := range g {
		if g.reaches(s, s, nil) {
			return s, true
		}
	}
	return at, false
}

// passed reports whether a row that is in state now has certainly made the move. It has if no path
// from an initial state, which is one that no state leads to, reaches now without this move.
func (g graph[S]) passed(from, to, now S) bool {
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

// known returns the state as the machine declares it. A database may return a text with trailing
// spaces, or in another case.
func (g graph[S]) known(s S) S {
	if reflect.TypeFor[S]().Kind() != reflect.String {
		return s
	}
	same := func(a S) bool { return strings.EqualFold(trimmed(a), trimmed(s)) }
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
