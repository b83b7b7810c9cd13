package advise

import "slices"

// exprKind is the kind of an expression.
type exprKind uint8

const (
	// plain is a literal or a parameter; text distinguishes the two.
	plain exprKind = iota + 1
	// column is a column of the row or of another table.
	column
	// offered is the value that an insert offers for a column: excluded.x, VALUES(x).
	offered
	// call is a function call, with its lower-case name.
	call
	// op is an operator, with its sign or lower-case name. Other expressions with parts and no name
	// are ops too.
	op
	// query is a subquery. Its parts are the expressions in it.
	query
	// standard is DEFAULT.
	standard
	// list is a list of values in brackets.
	list
	// variable is a session variable.
	variable
)

// expr is an expression, as far as the rules need it.
type expr struct {
	kind  exprKind
	name  string // of a column, a call, an op
	table string // of a column, if it is given
	text  string // of a plain value; of a cast, its type
	lit   literal
	args  []*expr
}

// walk calls f for e and all expressions in it, also in subqueries.
func (e *expr) walk(f func(*expr)) {
	if e == nil {
		return
	}
	f(e)
	for _, a := range e.args {
		a.walk(f)
	}
}

// has reports whether f is true for any part.
func (e *expr) has(f func(*expr) bool) (found bool) {
	e.walk(func(e *expr) { found = found || f(e) })
	return found
}

// columns returns the names of the columns that e reads, each once.
func (e *expr) columns() (names []string) {
	e.walk(func(e *expr) {
		if e.kind == column && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	})
	return names
}

// calls returns the names of the functions, each once.
func (e *expr) calls() (names []string) {
	e.walk(func(e *expr) {
		if e.kind == call && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	})
	return names
}

// constant reports whether e has the same value each time, whatever is stored.
func (e *expr) constant() bool {
	return !e.has(func(e *expr) bool {
		switch e.kind {
		case column, query, variable, standard: // a default may be a function
			return true
		case call:
			return !pure[e.name] // timed is not
		}
		return false
	})
}

// conjuncts returns the parts of a condition that must all be true.
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
	if e.kind == op && e.name == "=" && len(e.args) == 2 { // (a, b) = (1, 2)
		left, right := e.args[0], e.args[1]
		if left.kind == list && right.kind == list && len(left.args) == len(right.args) {
			var all []*expr
			for i := range left.args {
				all = append(all, operation("=", left.args[i], right.args[i]))
			}
			return all
		}
	}
	return []*expr{e}
}

// compared is a part of a condition that compares a column with something. sign is = < <= > >= in
// or another one, as if the column were on the left.
type compared struct {
	column, sign string
	table        string // of the column, if it is given
	with         *expr
	bare         bool // the column itself is compared, and not an expression with it
}

var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// comparisons returns the comparisons among the conjuncts of e. with is nil for those without a
// second operand, as in IS NULL.
func (e *expr) comparisons() (all []compared) {
	for _, c := range e.conjuncts() {
		if c.kind != op || len(c.args) == 0 {
			continue
		}
		left := c.args[0]
		switch {
		case len(c.args) == 1 && left.kind == column:
			all = append(all, compared{left.name, c.name, left.table, nil, true})
		case len(c.args) == 2 && left.kind == column:
			all = append(all, compared{left.name, c.name, left.table, c.args[1], true})
		case len(c.args) == 2 && c.args[1].kind == column && mirrored[c.name] != "":
			all = append(all, compared{c.args[1].name, mirrored[c.name], c.args[1].table, left, true})
		case len(c.args) == 2 && mirrored[c.name] != "": // amount - 5 >= 0
			for _, name := range left.columns() {
				all = append(all, compared{column: name, sign: c.name, with: c.args[1]})
			}
			for _, name := range c.args[1].columns() {
				all = append(all, compared{column: name, sign: mirrored[c.name], with: left})
			}
		}
	}
	return all
}
