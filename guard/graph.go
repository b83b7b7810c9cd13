package guard

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// graph is what leads to what.
type graph[S comparable] map[S][]S

// declared is a copy of moves, checked.
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
		// MySQL takes texts for equal that differ in case, or in spaces at the end.
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

// reaches tells whether a way leads from one state to another, of one move at least, without the
// move that is left out.
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

// cycle is a state that leads back to itself, if there is one.
func (g graph[S]) cycle() (at S, found bool) {
	for s := range g {
		if g.reaches(s, s, nil) {
			return s, true
		}
	}
	return at, false
}

// passed tells, of a row that is in now, whether it has certainly made the move: from no first
// state, to which nothing leads, there is another way.
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

// known finds a state as the machine declares it: a database may give back a text with spaces at
// its end, or in another case.
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
