package advise

import (
	"slices"
)

// way is how a value that is set is computed.
type way uint8

const (
	// settled: the same value again, also after it was set.
	settled way = iota
	// derived: from columns that the statement does not set.
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

// wayOf returns how a is computed, in a statement that sets the columns of sets. own reports
// whether a column in an expression is of the same row.
func wayOf(a assignment, sets []assignment, own func(*expr) bool) way {
	v := a.value
	isOwn := func(e *expr) bool { return e.kind == column && e.name == a.column && own(e) }
	switch {
	case v == nil || v.constant() || isOwn(v):
		return settled
	case settles1(v, isOwn):
		return settled
	case v.has(func(e *expr) bool {
		return e.kind == column && own(e) && slices.ContainsFunc(sets, func(s assignment) bool { return s.column == e.name })
	}):
		return relative
	case len(shiftingCalls(v)) > 0:
		return shifts
	case len(unknownCalls(v)) > 0, v.has(func(e *expr) bool { return e.kind == variable || e.kind == standard }):
		return obscure
	case v.has(func(e *expr) bool { return e.kind == query }):
		return lookedUp
	}
	return derived
}

// settles1 reports whether v has a form such as greatest(x, ?) or coalesce(x, ?), which changes
// nothing when it is applied again.
func settles1(v *expr, isOwn func(*expr) bool) bool {
	if v.kind != call && v.kind != op || !settling[v.name] {
		return false
	}
	mine := 0
	for _, arg := range v.args {
		switch {
		case isOwn(arg):
			mine++
		case !arg.constant():
			return false
		}
	}
	return mine == 1 && (v.name != "coalesce" && v.name != "ifnull" || isOwn(v.args[0]))
}

// adviseUpdate first looks for a guard that the statement carries, and then for values that differ
// when it runs again.
func adviseUpdate(st *statement) Advice {
	if st.limited {
		return say(NeedsGuard, "Its LIMIT changes other rows each time.", doTx).and("Name the rows by their key.")
	}
	own := func(e *expr) bool { return e.table == "" || e.table == st.table || e.table == st.alias }
	ways := map[way][]string{}
	for _, a := range st.sets {
		w := wayOf(a, st.sets, own)
		ways[w] = append(ways[w], a.column)
	}
	compares := st.where.comparisons()
	for _, a := range st.sets {
		for _, c := range compares {
			if c.column == a.column {
				if found, ok := carried(a, c, wayOf(a, st.sets, own), ways, namesRow(compares, c.column)); ok {
					return found
				}
			}
		}
	}
	switch {
	case len(ways[relative]) > 0:
		return adviseRelative(ways[relative], compares)
	case len(ways[shifts]) > 0:
		return say(NeedsGuard, "It stores another value in "+listed(ways[shifts])+" each time, as the clock, chance or a counter has it.", doTx).
			and("Or send the value with the request, so that a repeat sends the same.")
	case len(ways[lookedUp]) > 0:
		return say(NeedsGuard, "It stores in "+listed(ways[lookedUp])+" what other rows say when it runs: a repeat may find something else.", doTx)
	case len(ways[obscure]) > 0:
		return say(Unknown, "Nobody here knows whether "+listed(ways[obscure])+" is set to the same the second time: it comes from a default, a function or a variable of yours.", doTx)
	}
	return adviseSettled(st, ways[derived])
}

// adviseRelative advises on x = x + 1.
func adviseRelative(columns []string, compares []compared) Advice {
	what := "A repeat changes " + listed(columns) + " again: it is computed from what is stored."
	for _, c := range compares {
		if slices.Contains(columns, c.column) && (c.sign == ">" || c.sign == ">=" || c.sign == "<" || c.sign == "<=") {
			found := say(NeedsGuard, what, withCondition, doTx).
				and("The condition on " + c.column + " guards the balance and not against repeats: it holds as long as there is enough. Keep a key in the same transaction.")
			if !namesRow(compares, c.column) {
				found = found.and("It names no row: every row that has enough is changed.")
			}
			return found
		}
	}
	return say(NeedsGuard, what, doTx, withVersion).and("Keep a key in the same transaction, or let the request bring the version of the row that it saw.")
}

// adviseSettled advises on fixed values.
func adviseSettled(st *statement, fromOthers []string) Advice {
	if names := slices.Concat(shiftingCalls(st.where), unknownCalls(st.where)); len(names) > 0 {
		return say(Unknown, "Which rows it changes depends on when it runs ("+listed(names)+").", doTx)
	}
	if st.where.has(func(e *expr) bool { return e.kind == query }) {
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

// namesRow reports whether a condition selects rows by a column other than but.
func namesRow(compares []compared, but string) bool {
	return slices.ContainsFunc(compares, func(c compared) bool {
		return c.column != but && (c.sign == "=" || c.sign == "in") && c.with != nil && c.with.constant()
	})
}

// unless returns a. If the statement selects no row, the verdict becomes NeedsGuard, with why as a
// reason.
func (a Advice) unless(named bool, why string) Advice {
	if !named {
		a.Verdict = NeedsGuard
		return a.and(why)
	}
	return a
}

// carried reports whether a column that is both set and compared acts as a guard.
func carried(a assignment, c compared, w way, ways map[way][]string, named bool) (Advice, bool) {
	v := a.value
	if v == nil {
		return Advice{}, false
	}
	given := c.with != nil && c.with.constant()
	switch {
	case c.sign == "=" && given && (w == relative && advances(a) || w == shifts):
		found := say(Guarded, "It is an optimistic lock by "+a.column+": a repeat changes 0 rows, if the value that is compared came with the request.", withVersion).
			and("One that the server reads inside the request guards against others and not against repeats. 0 rows is a repeat or a lost race: guard.Version tells them apart by a key beside the version.")
		found = found.unless(c.with.kind != plain || !isLiteral(c.with),
			"Here "+a.column+" is compared with a constant: it has to be the version that the request saw, as a parameter.")
		return found.unless(named, "It names no row beside the version: every row of that version is changed, and a repeat changes those that have come to it since."), true
	case (c.sign == "<" || c.sign == "<=") && given && w == settled && v.kind == plain && v.text == c.with.text:
		if c.sign == "<=" && computes(ways) {
			return Advice{}, false
		}
		found := say(Guarded, "It is a fence by "+a.column+": what comes with a lower value than the stored one is refused, so that a late retry undoes nothing.", withFence).
			and("The value has to come with the request and to grow: a fencing token, or the time of the request.")
		return found.unless(named, "It names no row beside the fence: every row with a lower value is changed."), true
	case leaves(v, c, given, w):
		found := say(Guarded, "It is a transition: it sets "+a.column+" and asks for another value of it, so that a repeat changes 0 rows.", withMachine).
			and("That holds where " + a.column + " moves forward only. 0 rows is a repeat or another's move: guard.Machine tells them apart.")
		if v.name == "param" || c.with != nil && c.with.name == "param" {
			found = found.and("It is one only where the two values differ, which parameters do not show.")
		}
		return found.unless(named, "It names no row beside the state: rows that come into it later are changed by a repeat."), true
	}
	return Advice{}, false
}

// advances reports whether a is version + 1 or similar.
func advances(a assignment) bool {
	v := a.value
	for v.kind == list && len(v.args) == 1 {
		v = v.args[0]
	}
	return v.kind == op && v.name == "+" && len(v.args) == 2 && v.has(func(e *expr) bool { return e.kind == column && e.name == a.column }) &&
		slices.ContainsFunc(v.args, func(e *expr) bool { return e.kind == plain && isLiteral(e) && e.text != "0" })
}

// computes reports whether any column gets a value that another run would change.
func computes(ways map[way][]string) bool {
	return len(ways[relative])+len(ways[shifts])+len(ways[lookedUp])+len(ways[obscure]) > 0
}

// leaves reports whether a row that matches c stops matching it once the column has v.
func leaves(v *expr, c compared, given bool, w way) bool {
	isNull := v.kind == plain && v.text == "NULL"
	switch c.sign {
	case "is null":
		return !isNull && (w == shifts || w == settled && v.kind == plain)
	case "is not null":
		return isNull
	}
	if w != settled || v.kind != plain || !given {
		return false
	}
	switch c.sign {
	case "=":
		return c.with.kind == plain && c.with.text != v.text
	case "<>":
		return c.with.kind == plain && c.with.text == v.text
	case "in":
		return len(c.with.args) > 0 && !slices.ContainsFunc(c.with.args, func(e *expr) bool { return e.kind != plain || e.text == v.text })
	}
	return false
}

// isLiteral reports whether e is a literal and not a parameter.
func isLiteral(e *expr) bool { return e.name != "param" }
