package advise

import (
	"slices"
	"strconv"
)

// carried looks for a column that is both set and compared, so that it acts as a guard. The column
// has to be of a row that is set: another row stays as it is, and matches again.
func (u *update) carried() (found Advice, is answer) {
	is = no
	for _, a := range u.st.sets {
		row := u.of(a.table, a.column)
		if row == "?" {
			continue
		}
		for _, c := range u.compares {
			if c.column != a.column || !c.bare || a.value == nil || u.of(c.table, c.column) != row {
				continue
			}
			g := guardOf{u, a, c, row, u.schema.of(u.st.tableOf(row)).types[a.column], c.with != nil && c.with.constant()}
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

// guardOf is a column that is set and compared.
type guardOf struct {
	u     *update
	a     assignment
	c     compared
	row   string
	t     columnType
	given bool // it is compared with what the request says
}

func (g *guardOf) advise() (Advice, answer) {
	w := g.u.wayOf(g.a)
	named := g.u.namesRow(g.row, g.a.column)
	if is := g.version(w); is != no {
		return g.adviseVersion(named, w, is), is
	}
	if g.fence(w) {
		found := say(Guarded, "It is a fence by "+g.a.column+": what comes with a lower value than the stored one is refused, so that a late retry undoes nothing.", withFence).
			and("The value has to come with the request and to grow: a fencing token, or the time of the request. The column has to keep all of its digits.")
		return found.unless(named, "It names no row beside the fence: every row with a lower value is changed."), yes
	}
	switch is := g.leaves(w); is {
	case yes:
		found := say(Guarded, "It is a transition: it sets "+g.a.column+" and asks for another value of it, so that a repeat changes 0 rows.", withMachine).
			and("That holds where " + g.a.column + " moves forward only. 0 rows is a repeat or another's move: guard.Machine tells them apart.")
		if hasParameter(g.a.value) || hasParameter(g.c.with) {
			found = found.and("It is one only where the two values differ, which parameters do not show.")
		}
		return found.unless(named, "It names no row beside the state: rows that come into it later are changed by a repeat."), yes
	case maybe:
		return say(Unknown, "It is a transition of "+g.a.column+" only if the two values differ in that column, which their texts do not show.", withMachine, doTx).
			and("Write both as the column has them: databases compare 2 with '2', 2.0 and TRUE, and 'x' with 'X '."), maybe
	}
	return Advice{}, no
}

// version reports whether the column is a version that the statement asks for and changes.
func (g *guardOf) version(w way) answer {
	switch {
	case g.c.sign != "=" || !g.given:
		return no
	case w == relative && g.advances():
		return yes
	case w == shifts:
		return g.ticks()
	}
	return no
}

func (g *guardOf) adviseVersion(named bool, w way, is answer) Advice {
	name := g.a.column
	if is == maybe {
		return say(Unknown, "It is an optimistic lock by "+name+" only if that column, and the clock, are finer than a second, which the text does not show.", withVersion, doTx).
			and("With CREATE TABLE in the same text more can be said. A number that grows is a version on every database.")
	}
	found := say(Guarded, "It is an optimistic lock by "+name+": a repeat changes 0 rows, if the value that is compared came with the request.", withVersion).
		and("One that the server reads inside the request guards against others and not against repeats. 0 rows is a repeat or a lost race: guard.Version tells them apart by a key beside the version.")
	if w == shifts {
		found = found.and("Two runs in one transaction may see the same time.")
	}
	with, _ := uncast(g.c.with)
	found = found.unless(with.kind != plain || !isLiteral(with),
		"Here "+name+" is compared with a constant: it has to be the version that the request saw, as a parameter.")
	return found.unless(named, "It names no row beside the version: every row of that version is changed, and a repeat changes those that have come to it since.")
}

// advances reports whether the value is version + 1 or similar.
func (g *guardOf) advances() bool {
	v, _ := uncast(g.a.value)
	for v.kind == list && len(v.args) == 1 {
		v = v.args[0]
	}
	return v.kind == op && v.name == "+" && len(v.args) == 2 && v.has(func(e *expr) bool { return e.kind == column && e.name == g.a.column }) &&
		slices.ContainsFunc(v.args, func(e *expr) bool { return e.kind == plain && e.lit == ofInteger && e.text != "0" }) &&
		slices.ContainsFunc(v.args, func(e *expr) bool { return e.kind == column }) && (g.t.class == anyClass || g.t.class == numberClass && !g.t.inexact)
}

// ticks reports whether a clock, or chance, gives another value each time, and the column keeps it.
func (g *guardOf) ticks() answer {
	v, _ := uncast(g.a.value)
	if v.kind != call {
		return no
	}
	names, digits := clocks(g.u.schema.dialect)
	switch {
	case unrepeated[v.name]:
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
	if err != nil || e.lit != ofInteger {
		return 0
	}
	return n
}

// fence reports whether the column is a fence: what it is set to has to be larger than what it has.
func (g *guardOf) fence(w way) bool {
	if g.c.sign != "<" && g.c.sign != "<=" || !g.given || w != settled || !isPlain(g.a.value) || !equal(g.a.value, g.c.with) || !g.keeps(g.a.value) {
		return false
	}
	if v, _ := uncast(g.a.value); v.lit == ofText && g.t.class != textClass && !isNumber(v.text) {
		return false
	}
	return g.c.sign == "<" || !g.u.computes()
}

// leaves reports whether a row that matches the comparison stops matching it once the column is
// set.
func (g *guardOf) leaves(w way) answer {
	v := g.a.value
	switch g.c.sign {
	case "is null":
		if !isNull(v) && (w == shifts || w == settled && isPlain(v)) {
			return yes
		}
		return no
	case "is not null":
		if isNull(v) {
			return yes
		}
		return no
	}
	if w != settled || !isPlain(v) || !g.given {
		return no
	}
	switch g.c.sign {
	case "=":
		return unlike(v, g.c.with, g.t)
	case "<>":
		if isPlain(g.c.with) && equal(v, g.c.with) && g.keeps(v) {
			return yes
		}
		return no
	case "in":
		return g.leavesAll()
	}
	return no
}

// keeps reports whether the column has the value v again after it was stored. REAL rounds what a
// parameter brings.
func (g *guardOf) keeps(v *expr) bool { return kept(v) && !(g.t.inexact && hasParameter(v)) }

// leavesAll is leaves for IN (1, 2). A parameter may be among the others what is set.
func (g *guardOf) leavesAll() answer {
	all := yes
	for _, e := range g.c.with.args {
		is := no
		if isPlain(e) {
			is = unlike(g.a.value, e, g.t)
		}
		if hasParameter(g.a.value) || hasParameter(e) {
			is = min(is, maybe)
		}
		all = min(all, is)
	}
	if len(g.c.with.args) == 0 {
		return no
	}
	return all
}

// computes reports whether any column gets a value that another run would change.
func (u *update) computes() bool {
	return len(u.ways[relative])+len(u.ways[shifts])+len(u.ways[lookedUp])+len(u.ways[obscure]) > 0
}

// namesRow reports whether the condition selects rows of a source by a column other than but.
func (u *update) namesRow(row, but string) bool {
	return slices.ContainsFunc(u.compares, func(c compared) bool {
		return c.bare && c.column != but && u.of(c.table, c.column) == row && (c.sign == "=" || c.sign == "in") && c.with != nil && c.with.constant()
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

// isLiteral reports whether e is a literal and not a parameter.
func isLiteral(e *expr) bool { return e.name != "param" }
