package advise

import "slices"

// adviseInsert decides whether a unique index refuses the second insert, and what the statement
// does then.
func adviseInsert(st *statement, s *schema) Advice {
	judge := s.judge(st)
	if judge == nil && st.target != nil && (s.covers(st, st.target) || st.fromQuery) {
		// Such an index exists, or the database refuses the statement.
		judge = &unique{table: st.table, columns: st.target}
	}
	switch {
	case st.fromQuery && (judge == nil || st.onConflict == fails):
		return say(NeedsGuard, "It inserts what a query finds when it runs: a repeat inserts that again, or more.", withUnique, doTx).
			and("A unique index on what each row comes from, and ON CONFLICT DO NOTHING, make it one that repeats harmlessly.")
	case judge == nil:
		return adviseUnjudged(st, s)
	case st.fromQuery:
		return say(Unknown, "It stores what a query finds when it runs, under the unique index on ("+judge.String()+"): a repeat adds what is found by then.", withUpsert, doTx).
			and("That is harmless where the query names the columns of that index by what does not change.")
	}
	a := judged(st, judge, s)
	if st.onConflict == changes || st.onConflict == overwrites {
		n := 0
		for _, u := range s.unique[st.table] {
			if !slices.Equal(u.columns, judge.columns) {
				n++
			}
		}
		if n > 0 && st.target == nil {
			a = a.and("The table has another unique index: a row that meets that one is changed as well, although it is another's.")
		}
	}
	return a
}

// adviseUnjudged advises on an insert for which no unique index is known.
func adviseUnjudged(st *statement, s *schema) Advice {
	why := "A repeat inserts another row: the text shows no unique index on " + st.table + " whose columns all come with the request."
	if s.knows(st.table) {
		why = "A repeat inserts another row: no unique index on " + st.table + " has only columns that come with the request."
		if len(s.of(st.table).autoColumns) > 0 {
			why += " A number that the database draws tells no repeat."
		}
	}
	a := say(NeedsGuard, why, withUnique, withKey, doTx).
		and("Add a unique index on what names the request, or let the request bring the primary key.")
	switch {
	case st.onConflict == changes && newUpdate(st, s).computes():
		a = say(NeedsGuard, "A repeat changes the row that is there again: it is computed from what is stored.", doTx)
	case st.onConflict != fails:
		a = a.and("Without one, what it says about conflicts never comes to pass on a repeat.")
	}
	if !s.knows(st.table) {
		a = a.and("With CREATE TABLE in the same text more can be said.")
	}
	return a
}

// judged advises on an insert that a unique index refuses the second time.
func judged(st *statement, by *unique, s *schema) Advice {
	index, with := "the unique index on ("+by.String()+")", withUnique
	if by.primary {
		index, with = "the primary key ("+by.String()+")", withKey
	}
	refused := func(a Advice) Advice {
		if by.primary {
			return a
		}
		return a.and("A NULL in one of its columns is no repeat to it.")
	}
	switch st.onConflict {
	case fails:
		return refused(say(Guarded, "A repeat is refused by "+index+".", with).
			and("Answer it as a success only if the row that is there is this request's, else as a conflict; guard does that."))
	case ignores:
		return refused(say(Guarded, "A repeat inserts nothing: "+index+" has the row.", with).
			and("0 rows says that a row is there, and not that it is this request's."))
	case overwrites:
		return adviseReplace(st, s, index)
	}
	return adviseUpsert(st, by, s, index)
}

// adviseReplace advises on REPLACE, which deletes the row and inserts a new one.
func adviseReplace(st *statement, s *schema, index string) Advice {
	t := s.of(st.table)
	named := s.named(st)
	var other []string
	for _, row := range st.rows {
		for i, v := range row {
			if i < len(named) && (!v.constant() || s.draws(st, named[i], v)) && !slices.Contains(other, named[i]) {
				other = append(other, named[i])
			}
		}
	}
	for _, name := range t.columns {
		if !slices.Contains(named, name) && (slices.Contains(t.autoColumns, name) || slices.Contains(t.drawn, name)) {
			other = append(other, name)
		}
	}
	switch {
	case len(other) > 0:
		return say(NeedsGuard, "A repeat stores another value in "+listed(other)+".", doTx, withUpsert).and("Or send the value with the request.")
	case !s.knows(st.table):
		return say(Unknown, "A repeat replaces the row, and the database fills the columns that it leaves out anew.", withUpsert, doTx).
			and("With CREATE TABLE in the same text more can be said.")
	}
	return say(Harmless, "A repeat replaces the row that "+index+" finds by the same.", withUpsert).
		and("A retry that comes late undoes what others have set since (ABA); columns that it leaves out, rows that refer to it and triggers see a new row each time.")
}

// adviseUpsert advises on an insert that changes the row that is there. It is harmless if it sets
// what the first run has inserted.
func adviseUpsert(st *statement, by *unique, s *schema, index string) Advice {
	u := newUpdate(st, s)
	var again, other, fixed, keys []string
	for _, a := range st.sets {
		w := u.wayOf(a)
		switch {
		case u.repeats(a):
		case slices.Contains(by.columns, a.column):
			keys = append(keys, a.column)
		case w == relative:
			again = append(again, a.column)
		case w == settled && !u.offersMoving(a.value), w == derived:
			fixed = append(fixed, a.column)
		default:
			other = append(other, a.column)
		}
	}
	switch {
	case len(keys) > 0:
		return say(NeedsGuard, "A repeat changes "+listed(keys)+", by which the next one finds the row.", doTx).and("Leave the columns of " + index + " as they are.")
	case len(again) > 0:
		return say(NeedsGuard, "A repeat changes "+listed(again)+" again: it is computed from what is stored.", doTx).
			and("Keep a key in the same transaction. guard.Upsert takes plain values only.")
	case len(other) > 0:
		return say(NeedsGuard, "A repeat stores another value in "+listed(other)+".", doTx, withUpsert).and("Or send the value with the request.")
	case len(fixed) > 0:
		return say(NeedsGuard, "A repeat finds the row and stores another value in "+listed(fixed)+" than the first run inserts.", doTx, withUpsert).
			and("Set each column to the value that is inserted: excluded.x, or VALUES(x) on MySQL.")
	}
	return say(Harmless, "It stores plain values, under "+index+": a repeat stores them again.", withUpsert).
		and("A retry that comes late undoes what others have set since (ABA): where others write these columns, take guard.Version or guard.Fence.")
}

// repeats reports whether a sets its column to what the insert has stored in it, or leaves it.
func (u *update) repeats(a assignment) bool {
	isOwn := func(e *expr) bool {
		return e.kind == column && e.name == a.column && u.of(e.table, e.name) == u.st.changed()
	}
	isStored := func(e *expr) bool {
		if e.kind == offered && e.name != a.column {
			return false
		}
		return u.inserts(a.column, func(v *expr) bool { return e.kind == offered || equal(v, e) })
	}
	return a.value != nil && (isOwn(a.value) || isStored(a.value) || settles1(a.value, isOwn, isStored))
}

// inserts reports whether f is true for the value that each row brings for a column, and it is the
// same each time.
func (u *update) inserts(name string, f func(*expr) bool) bool {
	named := u.schema.named(u.st)
	if len(named) == 0 { // it can be any of them
		return !slices.ContainsFunc(u.st.rows, func(row []*expr) bool {
			return slices.ContainsFunc(row, func(v *expr) bool { return !v.constant() || !f(v) })
		})
	}
	i := slices.Index(named, name)
	for _, row := range u.st.rows {
		if i < 0 || i >= len(row) || !row[i].constant() || u.schema.draws(u.st, name, row[i]) || !f(row[i]) {
			return false
		}
	}
	return len(u.st.rows) > 0
}

// offersMoving reports whether a value takes from the insert one that differs each time.
func (u *update) offersMoving(v *expr) bool {
	return v.has(func(e *expr) bool {
		return e.kind == offered && !u.inserts(e.name, func(*expr) bool { return true })
	})
}
