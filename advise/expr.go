package advise

import "slices"

// exprKind is the kind of an expression.
type exprKind uint8

const (
	// valueExpr is a literal or a parameter; text distinguishes the two.
	valueExpr exprKind = iota + 1
	// columnExpr is a column of the row or of another table.
	columnExpr
	// offeredExpr is the value that an insert offers for a column: excluded.x, VALUES(x).
	offeredExpr
	// callExpr is a function call, with its lower-case name.
	callExpr
	// opExpr is an operator, with its sign or lower-case name. Other expressions with parts and no
	// name are ops too.
	opExpr
	// queryExpr is a subquery. Its parts are the expressions in it.
	queryExpr
	// defaultExpr is DEFAULT.
	defaultExpr
	// listExpr is a list of values in brackets.
	listExpr
	// variableExpr is a session variable.
	variableExpr
)

// expr is an expression, as far as the rules need it.
type expr struct {
	kind  exprKind
	name  string // of a column, a call, an op
	table string // of a column, if it is given
	text  string // of a plain value; of a cast, its type
	lit   literalKind
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

// hasPart reports whether f is true for any part.
func (e *expr) hasPart(f func(*expr) bool) (found bool) {
	e.walk(func(e *expr) { found = found || f(e) })
	return found
}

// columnNames returns the names of the columns that e reads, each once.
func (e *expr) columnNames() (names []string) {
	e.walk(func(e *expr) {
		if e.kind == columnExpr && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	})
	return names
}

// callNames returns the names of the functions, each once.
func (e *expr) callNames() (names []string) {
	e.walk(func(e *expr) {
		if e.kind == callExpr && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	})
	return names
}

// isConstant reports whether e has the same value each time, whatever is stored.
func (e *expr) isConstant() bool {
	return !e.hasPart(func(e *expr) bool {
		switch e.kind {
		case columnExpr, queryExpr, variableExpr, defaultExpr: // a default may be a function
			return true
		case callExpr:
			return !pureFunctions[e.name] // maybeNow is not
		}
		return false
	})
}

// conjuncts returns the parts of a condition that must all be true.
func (e *expr) conjuncts() []*expr {
	if e == nil {
		return nil
	}
	if e.kind == opExpr && e.name == "and" {
		var all []*expr
		for _, a := range e.args {
			all = append(all, a.conjuncts()...)
		}
		return all
	}
	if e.kind == listExpr && len(e.args) == 1 {
		return e.args[0].conjuncts()
	}
	if e.kind == opExpr && e.name == "=" && len(e.args) == 2 { // (a, b) = (1, 2)
		left, right := e.args[0], e.args[1]
		if left.kind == listExpr && right.kind == listExpr && len(left.args) == len(right.args) {
			var all []*expr
			for i := range left.args {
				all = append(all, newOp("=", left.args[i], right.args[i]))
			}
			return all
		}
	}
	return []*expr{e}
}

// comparison is a part of a condition that compares a column with something. sign is = < <= > >= in
// or another one, as if the column were on the left.
type comparison struct {
	column, sign string
	table        string // of the column, if it is given
	other        *expr
	bare         bool // the column itself is compared, and not an expression with it
}

var mirroredSigns = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// comparisons returns the comparisons among the conjuncts of e. other is nil for those without a
// second operand, as in IS NULL.
func (e *expr) comparisons() (all []comparison) {
	for _, c := range e.conjuncts() {
		if c.kind != opExpr || len(c.args) == 0 {
			continue
		}
		left := c.args[0]
		switch {
		case len(c.args) == 1 && left.kind == columnExpr:
			all = append(all, comparison{left.name, c.name, left.table, nil, true})
		case len(c.args) == 2 && left.kind == columnExpr:
			all = append(all, comparison{left.name, c.name, left.table, c.args[1], true})
		case len(c.args) == 2 && c.args[1].kind == columnExpr && mirroredSigns[c.name] != "":
			all = append(all, comparison{c.args[1].name, mirroredSigns[c.name], c.args[1].table, left, true})
		case len(c.args) == 2 && mirroredSigns[c.name] != "": // amount - 5 >= 0
			for _, name := range left.columnNames() {
				all = append(all, comparison{column: name, sign: c.name, other: c.args[1]})
			}
			for _, name := range c.args[1].columnNames() {
				all = append(all, comparison{column: name, sign: mirroredSigns[c.name], other: left})
			}
		}
	}
	return all
}
