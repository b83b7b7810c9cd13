package advise

import "slices"

// exprKind says what an expression is.
type exprKind uint8

const (
	// plain: a literal or a parameter; text tells two apart.
	plain exprKind = iota + 1
	// column: of the row, or of another table.
	column
	// offered: the value that an insert has offered for a column: excluded.x, VALUES(x).
	offered
	// call: a function, by its lower-case name.
	call
	// op: an operator, by its sign or lower-case name; others that have parts and no name are ops
	// too.
	op
	// query: a subquery. Its parts are those of the expressions in it.
	query
	// standard: DEFAULT.
	standard
	// list: values in brackets.
	list
	// variable: of the session.
	variable
)

// expr is an expression, as far as it matters here.
type expr struct {
	kind  exprKind
	name  string // of a column, a call, an op
	table string // of a column, where it is named
	text  string // of a plain value
	args  []*expr
}

// walk calls f for e and all that is in it, subqueries too.
func (e *expr) walk(f func(*expr)) {
	if e == nil {
		return
	}
	f(e)
	for _, a := range e.args {
		a.walk(f)
	}
}

// has tells whether any part is as f says.
func (e *expr) has(f func(*expr) bool) (found bool) {
	e.walk(func(e *expr) { found = found || f(e) })
	return found
}

// columns are the names of those that are read, each once.
func (e *expr) columns() (names []string) {
	e.walk(func(e *expr) {
		if e.kind == column && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	})
	return names
}

// calls are the names of the functions, each once.
func (e *expr) calls() (names []string) {
	e.walk(func(e *expr) {
		if e.kind == call && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	})
	return names
}

// constant tells whether e comes out the same each time it is computed, whatever is stored.
func (e *expr) constant() bool {
	return !e.has(func(e *expr) bool {
		switch e.kind {
		case column, query, variable, standard: // a default may be a function
			return true
		case call:
			return !pure[e.name]
		}
		return false
	})
}

// conjuncts are the parts of a condition that all have to hold.
func (e *expr) conjuncts() []*expr {
	if e == nil {
		return nil
	}
	if e.kind == op && e.name == "and" {
		var all []*expr
		for _, a := range e.args {
			all = append(all, a.conjuncts()...)
		}
		return all
	}
	if e.kind == list && len(e.args) == 1 {
		return e.args[0].conjuncts()
	}
	return []*expr{e}
}

// compared is a part of a condition that compares a column with something; sign is = < <= > >= in
// or another, as if the column stood on the left.
type compared struct {
	column, sign string
	with         *expr
}

var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// comparisons are those among the conjuncts of e. with is nil where there are none, as in IS NULL.
func (e *expr) comparisons() (all []compared) {
	for _, c := range e.conjuncts() {
		if c.kind != op || len(c.args) == 0 {
			continue
		}
		left := c.args[0]
		switch {
		case len(c.args) == 1 && left.kind == column:
			all = append(all, compared{left.name, c.name, nil})
		case len(c.args) == 2 && left.kind == column:
			all = append(all, compared{left.name, c.name, c.args[1]})
		case len(c.args) == 2 && c.args[1].kind == column && mirrored[c.name] != "":
			all = append(all, compared{c.args[1].name, mirrored[c.name], left})
		case len(c.args) == 2 && mirrored[c.name] != "": // amount - 5 >= 0
			for _, name := range left.columns() {
				all = append(all, compared{name, c.name, c.args[1]})
			}
			for _, name := range c.args[1].columns() {
				all = append(all, compared{name, mirrored[c.name], left})
			}
		}
	}
	return all
}
