package advise

import (
	"slices"
)

// way is how a value that is set is computed.
type way uint8

const (
	// settled: the same value again, also after it was set.
	settled way = iota
	// derived: from columns of the row that the statement does not set.
	derived
	// relative: from a column that the statement sets.
	relative
	// shifts: another value each time.
	shifts
	// lookedUp: from other rows.
	lookedUp
	// obscure: from an unknown function, a default, or a variable.
	obscure
)

// update is an UPDATE, or the part of an insert for a row that is there.
type update struct {
	st       *statement
	schema   *schema
	ways     map[way][]string
	compares []compared
}

func newUpdate(st *statement, s *schema) *update {
	u := &update{st: st, schema: s, ways: map[way][]string{}, compares: st.where.comparisons()}
	for _, a := range st.sets {
		w := u.wayOf(a)
		u.ways[w] = append(u.ways[w], a.column)
	}
	return u
}

// of returns which source a column is of.
func (u *update) of(table, name string) string { return u.schema.owner(u.st, table, name) }

// changing reports whether the statement changes a column of the row of a.
func (u *update) changing(e *expr, row string) bool {
	if u.schema.dialect == PostgreSQL && e.table == "" && e.name == row && !slices.Contains(u.schema.of(u.st.tableOf(row)).columns, e.name) {
		return true // the row as a whole: accounts::text
	}
	return u.of(e.table, e.name) == row && (slices.Contains(u.schema.of(u.st.tableOf(row)).computed, e.name) ||
		slices.ContainsFunc(u.st.sets, func(s assignment) bool { return s.column == e.name && u.of(s.table, s.column) == row }))
}

// wayOf returns how a is computed.
func (u *update) wayOf(a assignment) way {
	v, row := a.value, u.of(a.table, a.column)
	isOwn := func(e *expr) bool { return e.kind == column && e.name == a.column && u.of(e.table, e.name) == row }
	switch {
	case v == nil || v.constant() || isOwn(v):
		return settled
	case settles1(v, isOwn, (*expr).constant):
		return settled
	case v.has(func(e *expr) bool { return e.kind == column && u.changing(e, row) }):
		return relative
	case len(shiftingCalls(v)) > 0:
		return shifts
	case len(unknownCalls(v)) > 0, len(timedCalls(v)) > 0, v.has(func(e *expr) bool { return e.kind == variable || e.kind == standard }):
		return obscure
	case v.has(func(e *expr) bool { return e.kind == query || e.kind == column && u.of(e.table, e.name) != row }):
		return lookedUp
	}
	return derived
}

// settles1 reports whether v has a form such as greatest(x, ?) or coalesce(x, ?), which changes
// nothing when it is applied again. isFixed is true for the other arguments.
func settles1(v *expr, isOwn, isFixed func(*expr) bool) bool {
	if v.kind != call && v.kind != op || !settling[v.name] {
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
		return say(NeedsGuard, "Its LIMIT changes other rows each time.", doTx).and("Name the rows by their key.")
	}
	u := newUpdate(st, s)
	found, is := u.carried()
	if is == yes {
		return found
	}
	a := u.computed()
	if is == maybe && a.Verdict == NeedsGuard {
		return found
	}
	return a
}

// computed advises on the values that are set.
func (u *update) computed() Advice {
	ways := u.ways
	switch {
	case len(ways[relative]) > 0:
		return u.adviseRelative()
	case len(ways[shifts]) > 0:
		return say(NeedsGuard, "It stores another value in "+listed(ways[shifts])+" each time, as the clock, chance or a counter has it.", doTx).
			and("Or send the value with the request, so that a repeat sends the same.")
	case len(ways[lookedUp]) > 0:
		return say(NeedsGuard, "It stores in "+listed(ways[lookedUp])+" what other rows say when it runs: a repeat may find something else.", doTx)
	case len(ways[obscure]) > 0:
		return say(Unknown, "Nobody here knows whether "+listed(ways[obscure])+" is set to the same the second time: it comes from a default, a time that may be 'now', a function or a variable of yours.", doTx)
	}
	return adviseSettled(u.st, ways[derived])
}

// adviseRelative advises on x = x + 1.
func (u *update) adviseRelative() Advice {
	columns := u.ways[relative]
	what := "A repeat changes " + listed(columns) + " again: it is computed from what is stored."
	for _, c := range u.compares {
		if slices.Contains(columns, c.column) && (c.sign == ">" || c.sign == ">=" || c.sign == "<" || c.sign == "<=") {
			found := say(NeedsGuard, what, withCondition, doTx).
				and("The condition on " + c.column + " guards the balance and not against repeats: it holds as long as there is enough. Keep a key in the same transaction.")
			if !u.namesRow(u.st.changed(), c.column) {
				found = found.and("It names no row: every row that has enough is changed.")
			}
			return found
		}
	}
	return say(NeedsGuard, what, doTx, withVersion).and("Keep a key in the same transaction, or let the request bring the version of the row that it saw.")
}

// adviseSettled advises on fixed values.
func adviseSettled(st *statement, fromOthers []string) Advice {
	if names := slices.Concat(shiftingCalls(st.where), timedCalls(st.where), unknownCalls(st.where)); len(names) > 0 {
		return say(Unknown, "Which rows it changes depends on when it runs ("+listed(names)+").", doTx)
	}
	if st.others || readsOthers(st.where) {
		return say(Unknown, "Which rows it changes depends on what other rows there are when it runs.", doTx).and("Name the rows by their key.")
	}
	a := say(Harmless, "It sets plain values: a repeat sets them again.")
	if len(fromOthers) > 0 {
		a = say(Harmless, "It computes "+listed(fromOthers)+" from columns that it leaves alone: a repeat computes the same, or what follows from them by then.")
	}
	if st.where == nil {
		a = a.and("It has no WHERE: all rows are changed.")
	}
	a = a.and("A retry that comes late undoes what others have set since (ABA): where others write these columns, take guard.Version or guard.Fence.")
	if st.returning {
		a = a.and("What it returns is what the row has by then.")
	}
	return a
}

// readsOthers reports whether a condition depends on other rows, or on a variable of the session.
func readsOthers(where *expr) bool {
	return where.has(func(e *expr) bool { return e.kind == query || e.kind == variable })
}
