package advise

import (
	"slices"
)

// computation is how a value that is set is computed.
type computation uint8

const (
	// fixedValue: the same value again, also after it was set.
	fixedValue computation = iota
	// derivedValue: from columns of the row that the statement does not set.
	derivedValue
	// relativeValue: from a column that the statement sets.
	relativeValue
	// varyingValue: another value each time.
	varyingValue
	// lookedUpValue: from other rows.
	lookedUpValue
	// obscureValue: from an unknown function, a default, or a variable.
	obscureValue
)

// update is an UPDATE, or the part of an insert for a row that is there.
type update struct {
	st            *statement
	schema        *schema
	byComputation map[computation][]string
	compares      []comparison
}

func newUpdate(st *statement, s *schema) *update {
	u := &update{st: st, schema: s, byComputation: map[computation][]string{}, compares: st.where.comparisons()}
	for _, a := range st.sets {
		w := u.computationOf(a)
		u.byComputation[w] = append(u.byComputation[w], a.column)
	}
	return u
}

// sourceOf returns which source a column is of.
func (u *update) sourceOf(table, name string) string { return u.schema.sourceOf(u.st, table, name) }

// changesColumn reports whether the statement changes a column of the row of a.
func (u *update) changesColumn(e *expr, row string) bool {
	if u.schema.dialect == PostgreSQL && e.table == "" && e.name == row && !slices.Contains(u.schema.definitionOf(u.st.tableOf(row)).columns, e.name) {
		return true // the row as a whole: accounts::text
	}
	return u.sourceOf(e.table, e.name) == row && (slices.Contains(u.schema.definitionOf(u.st.tableOf(row)).computed, e.name) ||
		slices.ContainsFunc(u.st.sets, func(s assignment) bool { return s.column == e.name && u.sourceOf(s.table, s.column) == row }))
}

// computationOf returns how a is computed.
func (u *update) computationOf(a assignment) computation {
	v, row := a.value, u.sourceOf(a.table, a.column)
	isOwn := func(e *expr) bool {
		return e.kind == columnExpr && e.name == a.column && u.sourceOf(e.table, e.name) == row
	}
	switch {
	case v == nil || v.isConstant() || isOwn(v):
		return fixedValue
	case isIdempotent(v, isOwn, (*expr).isConstant):
		return fixedValue
	case v.hasPart(func(e *expr) bool { return e.kind == columnExpr && u.changesColumn(e, row) }):
		return relativeValue
	case len(varyingCalls(v)) > 0:
		return varyingValue
	case len(unknownCalls(v)) > 0, len(maybeNowCalls(v)) > 0, v.hasPart(func(e *expr) bool { return e.kind == variableExpr || e.kind == defaultExpr }):
		return obscureValue
	case v.hasPart(func(e *expr) bool {
		return e.kind == queryExpr || e.kind == columnExpr && u.sourceOf(e.table, e.name) != row
	}):
		return lookedUpValue
	}
	return derivedValue
}

// isIdempotent reports whether v has a form such as greatest(x, ?) or coalesce(x, ?), which changes
// nothing when it is applied again. isFixed is true for the other arguments.
func isIdempotent(v *expr, isOwn, isFixed func(*expr) bool) bool {
	if v.kind != callExpr && v.kind != opExpr || !idempotentFunctions[v.name] {
		return false
	}
	mine := 0
	for _, arg := range v.args {
		switch {
		case isOwn(arg):
			mine++
		case !isFixed(arg):
			return false
		}
	}
	return mine == 1 && (v.name != "coalesce" && v.name != "ifnull" || isOwn(v.args[0]))
}

// adviseUpdate first looks for a guard that the statement carries, and then for values that differ
// when it runs again.
func adviseUpdate(st *statement, s *schema) Advice {
	if st.limited {
		return newAdvice(NeedsGuard, "Its LIMIT changes other rows each time.", guardDoTx).withReason("Name the rows by their key.")
	}
	u := newUpdate(st, s)
	found, is := u.findCarriedGuard()
	if is == yes {
		return found
	}
	a := u.adviseComputed()
	if is == maybe && a.Verdict == NeedsGuard {
		return found
	}
	return a
}

// adviseComputed advises on the values that are set.
func (u *update) adviseComputed() Advice {
	ways := u.byComputation
	switch {
	case len(ways[relativeValue]) > 0:
		return u.adviseRelative()
	case len(ways[varyingValue]) > 0:
		return newAdvice(NeedsGuard, "It stores another value in "+joinNames(ways[varyingValue])+" each time, as the clock, chance or a counter has it.", guardDoTx).
			withReason("Or send the value with the request, so that a retry sends the same.")
	case len(ways[lookedUpValue]) > 0:
		return newAdvice(NeedsGuard, "It stores in "+joinNames(ways[lookedUpValue])+" what other rows say when it runs: a second run may find something else.", guardDoTx)
	case len(ways[obscureValue]) > 0:
		return newAdvice(Unknown, "The text does not show whether a second run sets "+joinNames(ways[obscureValue])+" to the same value: it comes from a default, a time that may be 'now', a function or a variable of your own.", guardDoTx)
	}
	return adviseFixed(u.st, ways[derivedValue])
}

// adviseRelative advises on x = x + 1.
func (u *update) adviseRelative() Advice {
	columns := u.byComputation[relativeValue]
	what := "A second run changes " + joinNames(columns) + " again: the new value is computed from the stored one."
	for _, c := range u.compares {
		if slices.Contains(columns, c.column) && (c.sign == ">" || c.sign == ">=" || c.sign == "<" || c.sign == "<=") {
			found := newAdvice(NeedsGuard, what, guardCondition, guardDoTx).
				withReason("The condition on " + c.column + " guards the balance and not against duplicates: it holds as long as there is enough. Keep a key in the same transaction.")
			if !u.namesRow(u.st.changedName(), c.column) {
				found = found.withReason("It names no row: every row that has enough is changed.")
			}
			return found
		}
	}
	return newAdvice(NeedsGuard, what, guardDoTx, guardVersion).withReason("Keep a key in the same transaction, or let the request bring the version of the row that it saw.")
}

// adviseFixed advises on fixed values.
func adviseFixed(st *statement, fromOthers []string) Advice {
	if names := slices.Concat(varyingCalls(st.where), maybeNowCalls(st.where), unknownCalls(st.where)); len(names) > 0 {
		return newAdvice(Unknown, "Which rows it changes depends on when it runs ("+joinNames(names)+").", guardDoTx)
	}
	if st.otherTables || readsOthers(st.where) {
		return newAdvice(Unknown, "Which rows it changes depends on what other rows there are when it runs.", guardDoTx).withReason("Name the rows by their key.")
	}
	a := newAdvice(Harmless, "It sets plain values: a second run sets them again.")
	if len(fromOthers) > 0 {
		a = newAdvice(Harmless, "It computes "+joinNames(fromOthers)+" from columns that it leaves alone: a second run computes the same, or what follows from them by then.")
	}
	if st.where == nil {
		a = a.withReason("It has no WHERE: all rows are changed.")
	}
	a = a.withReason("A retry that comes late undoes what others have set since (ABA): where others write these columns, take guard.Version or guard.Fence.")
	if st.returning {
		a = a.withReason("What it returns is what the row has by then.")
	}
	return a
}

// readsOthers reports whether a condition depends on other rows, or on a variable of the session.
func readsOthers(where *expr) bool {
	return where.hasPart(func(e *expr) bool { return e.kind == queryExpr || e.kind == variableExpr })
}
