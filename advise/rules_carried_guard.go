package advise

import (
	"slices"
	"strconv"
)

// findCarriedGuard looks for a column that is both set and compared, so that it acts as a guard.
// The column has to be of a row that is set: another row stays as it is, and matches again.
func (u *update) findCarriedGuard() (found Advice, is certainty) {
	is = no
	for _, a := range u.st.sets {
		row := u.sourceOf(a.table, a.column)
		if row == "?" {
			continue
		}
		for _, c := range u.compares {
			if c.column != a.column || !c.bare || a.value == nil || u.sourceOf(c.table, c.column) != row {
				continue
			}
			g := carriedGuard{u, a, c, row, u.schema.definitionOf(u.st.tableOf(row)).types[a.column], c.other != nil && c.other.isConstant()}
			got, how := g.advise()
			if how == yes {
				return got, yes
			}
			if how == maybe {
				found, is = got, maybe
			}
		}
	}
	return found, is
}

// carriedGuard is a column that is set and compared.
type carriedGuard struct {
	u     *update
	a     assignment
	c     comparison
	row   string
	t     columnType
	given bool // it is compared with what the request says
}

func (g *carriedGuard) advise() (Advice, certainty) {
	w := g.u.computationOf(g.a)
	named := g.u.namesRow(g.row, g.a.column)
	if is := g.isVersion(w); is != no {
		return g.adviseVersion(named, w, is), is
	}
	if g.isFence(w) {
		found := newAdvice(Guarded, "It is a fence by "+g.a.column+": what comes with a lower value than the stored one is refused, so that a late retry undoes nothing.", guardFence).
			withReason("The value has to come with the request and to grow: a fencing token, or the time of the request. The column has to keep all of its digits.")
		return found.requireRow(named, "It names no row beside the fence: every row with a lower value is changed."), yes
	}
	switch is := g.stopsMatching(w); is {
	case yes:
		found := newAdvice(Guarded, "It is a transition: it sets "+g.a.column+" and asks for another value of it, so that a second run changes 0 rows.", guardMachine).
			withReason("That holds where " + g.a.column + " moves forward only. 0 rows means a duplicate or another caller's move: guard.Machine tells them apart.")
		if hasParameter(g.a.value) || hasParameter(g.c.other) {
			found = found.withReason("It is one only where the two values differ, which parameters do not show.")
		}
		return found.requireRow(named, "It names no row beside the state: a second run changes rows that have come into it since."), yes
	case maybe:
		return newAdvice(Unknown, "It is a transition of "+g.a.column+" only if the two values differ in that column, which their texts do not show.", guardMachine, guardDoTx).
			withReason("Write both as the column has them: databases compare 2 with '2', 2.0 and TRUE, and 'x' with 'X '."), maybe
	}
	return Advice{}, no
}

// isVersion reports whether the column is a version that the statement asks for and changes.
func (g *carriedGuard) isVersion(w computation) certainty {
	switch {
	case g.c.sign != "=" || !g.given:
		return no
	case w == relativeValue && g.isIncrement():
		return yes
	case w == varyingValue:
		return g.isNewEachTime()
	}
	return no
}

func (g *carriedGuard) adviseVersion(named bool, w computation, is certainty) Advice {
	name := g.a.column
	if is == maybe {
		return newAdvice(Unknown, "It is an optimistic lock by "+name+" only if that column, and the clock, are finer than a second, which the text does not show.", guardVersion, guardDoTx).
			withReason("With CREATE TABLE in the same text more can be said. A number that grows is a version on every database.")
	}
	found := newAdvice(Guarded, "It is an optimistic lock by "+name+": a second run changes 0 rows, if the value that is compared came with the request.", guardVersion).
		withReason("A version that the server reads inside the request guards against other callers and not against duplicates. 0 rows means a duplicate or a lost race: guard.Version tells them apart by a key beside the version.")
	if w == varyingValue {
		found = found.withReason("Two runs in one transaction may see the same time.")
	}
	with, _ := stripCasts(g.c.other)
	found = found.requireRow(with.kind != valueExpr || !isLiteral(with),
		"Here "+name+" is compared with a constant: it has to be the version that the request saw, as a parameter.")
	return found.requireRow(named, "It names no row beside the version: every row of that version is changed, and a second run changes those that have come to it since.")
}

// isIncrement reports whether the value is version + 1 or similar.
func (g *carriedGuard) isIncrement() bool {
	v, _ := stripCasts(g.a.value)
	for v.kind == listExpr && len(v.args) == 1 {
		v = v.args[0]
	}
	return v.kind == opExpr && v.name == "+" && len(v.args) == 2 && v.hasPart(func(e *expr) bool { return e.kind == columnExpr && e.name == g.a.column }) &&
		slices.ContainsFunc(v.args, func(e *expr) bool { return e.kind == valueExpr && e.lit == literalInteger && e.text != "0" }) &&
		slices.ContainsFunc(v.args, func(e *expr) bool { return e.kind == columnExpr }) && (g.t.class == anyClass || g.t.class == numberClass && !g.t.inexact)
}

// isNewEachTime reports whether a clock, or chance, gives another value each time, and the column
// keeps it.
func (g *carriedGuard) isNewEachTime() certainty {
	v, _ := stripCasts(g.a.value)
	if v.kind != callExpr {
		return no
	}
	names, digits := clockFunctions(g.u.schema.dialect)
	switch {
	case unrepeatedFunctions[v.name]:
		return yes
	case !names[v.name]:
		return no
	}
	if len(v.args) > 0 { // now(6)
		digits = digitsOf(v.args[0])
	}
	if digits < clockDigits {
		return no
	}
	switch g.t.class {
	case anyClass:
		return maybe
	case timeClass:
		if g.t.precision >= clockDigits {
			return yes
		}
	}
	return no
}

func digitsOf(e *expr) int {
	n, err := strconv.Atoi(e.text)
	if err != nil || e.lit != literalInteger {
		return 0
	}
	return n
}

// isFence reports whether the column is a fence: what it is set to has to be larger than what it
// has.
func (g *carriedGuard) isFence(w computation) bool {
	if g.c.sign != "<" && g.c.sign != "<=" || !g.given || w != fixedValue || !isPlain(g.a.value) || !equalExprs(g.a.value, g.c.other) || !g.columnKeeps(g.a.value) {
		return false
	}
	if v, _ := stripCasts(g.a.value); v.lit == literalText && g.t.class != textClass && !isNumber(v.text) {
		return false
	}
	return g.c.sign == "<" || !g.u.changesOnRepeat()
}

// stopsMatching reports whether a row that matches the comparison stops matching it once the column
// is set.
func (g *carriedGuard) stopsMatching(w computation) certainty {
	v := g.a.value
	switch g.c.sign {
	case "is null":
		if !isNull(v) && (w == varyingValue || w == fixedValue && isPlain(v)) {
			return yes
		}
		return no
	case "is not null":
		if isNull(v) {
			return yes
		}
		return no
	}
	if w != fixedValue || !isPlain(v) || !g.given {
		return no
	}
	switch g.c.sign {
	case "=":
		return comparesUnlike(v, g.c.other, g.t)
	case "<>":
		if isPlain(g.c.other) && equalExprs(v, g.c.other) && g.columnKeeps(v) {
			return yes
		}
		return no
	case "in":
		return g.stopsMatchingList()
	}
	return no
}

// columnKeeps reports whether the column has the value v again after it was stored. REAL rounds
// what a parameter brings.
func (g *carriedGuard) columnKeeps(v *expr) bool {
	return isStoredExactly(v) && !(g.t.inexact && hasParameter(v))
}

// stopsMatchingList is stopsMatching for IN (1, 2). A parameter may be among the others what is
// set.
func (g *carriedGuard) stopsMatchingList() certainty {
	all := yes
	for _, e := range g.c.other.args {
		is := no
		if isPlain(e) {
			is = comparesUnlike(g.a.value, e, g.t)
		}
		if hasParameter(g.a.value) || hasParameter(e) {
			is = min(is, maybe)
		}
		all = min(all, is)
	}
	if len(g.c.other.args) == 0 {
		return no
	}
	return all
}

// changesOnRepeat reports whether any column gets a value that another run would change.
func (u *update) changesOnRepeat() bool {
	return len(u.byComputation[relativeValue])+len(u.byComputation[varyingValue])+len(u.byComputation[lookedUpValue])+len(u.byComputation[obscureValue]) > 0
}

// namesRow reports whether the condition selects rows of a source by a column other than but.
func (u *update) namesRow(row, but string) bool {
	return slices.ContainsFunc(u.compares, func(c comparison) bool {
		return c.bare && c.column != but && u.sourceOf(c.table, c.column) == row && (c.sign == "=" || c.sign == "in") && c.other != nil && c.other.isConstant()
	})
}

// requireRow returns a. If the statement selects no row, the verdict becomes NeedsGuard, with why
// as a reason.
func (a Advice) requireRow(named bool, why string) Advice {
	if !named {
		a.Verdict = NeedsGuard
		return a.withReason(why)
	}
	return a
}

// isLiteral reports whether e is a literal and not a parameter.
func isLiteral(e *expr) bool { return e.name != "param" }
