package advise

import "slices"

// adviseInsert decides whether a unique index refuses the second insert, and what the statement
// does then.
func adviseInsert(st *statement, s *schema) Advice {
	judge := s.findDecidingIndex(st)
	if judge == nil && st.conflictTarget != nil && (s.fillsColumns(st, st.conflictTarget) || st.fromQuery) {
		// Such an index exists, or the database refuses the statement.
		judge = &uniqueIndex{table: st.table, columns: st.conflictTarget}
	}
	switch {
	case st.fromQuery && (judge == nil || st.onConflict == conflictFail):
		return newAdvice(NeedsGuard, "It inserts what a query finds when it runs: a second run inserts that again, or more.", guardUnique, guardDoTx).
			withReason("A unique index on what each row comes from, and ON CONFLICT DO NOTHING, make it safe to repeat.")
	case judge == nil:
		return adviseUnindexed(st, s)
	case st.fromQuery:
		return newAdvice(Unknown, "It stores what a query finds when it runs, under the unique index on ("+judge.String()+"): a second run adds what the query finds by then.", guardUpsert, guardDoTx).
			withReason("That is harmless where the query names the columns of that index by what does not change.")
	}
	a := adviseIndexed(st, judge, s)
	if st.onConflict == conflictUpdate || st.onConflict == conflictReplace {
		n := 0
		for _, u := range s.uniqueIndexes[st.table] {
			if !slices.Equal(u.columns, judge.columns) {
				n++
			}
		}
		if n > 0 && st.conflictTarget == nil {
			a = a.withReason("The table has another unique index: a row that meets that one is changed as well, although it is another's.")
		}
	}
	return a
}

// adviseUnindexed advises on an insert for which no unique index is known.
func adviseUnindexed(st *statement, s *schema) Advice {
	why := "A second run inserts another row: the text shows no unique index on " + st.table + " whose columns all come with the request."
	if s.knowsTable(st.table) {
		why = "A second run inserts another row: no unique index on " + st.table + " has only columns that come with the request."
		if len(s.definitionOf(st.table).autoColumns) > 0 {
			why += " A number that the database draws does not identify a duplicate."
		}
	}
	a := newAdvice(NeedsGuard, why, guardUnique, guardPrimaryKey, guardDoTx).
		withReason("Add a unique index on what names the request, or let the request bring the primary key.")
	switch {
	case st.onConflict == conflictUpdate && newUpdate(st, s).changesOnRepeat():
		a = newAdvice(NeedsGuard, "A second run changes the existing row again: the new value is computed from the stored one.", guardDoTx)
	case st.onConflict != conflictFail:
		a = a.withReason("Without one a second run meets no conflict, and what the statement says about conflicts has no effect.")
	}
	if !s.knowsTable(st.table) {
		a = a.withReason("With CREATE TABLE in the same text more can be said.")
	}
	return a
}

// adviseIndexed advises on an insert that a unique index refuses the second time.
func adviseIndexed(st *statement, by *uniqueIndex, s *schema) Advice {
	index, with := "the unique index on ("+by.String()+")", guardUnique
	if by.primary {
		index, with = "the primary key ("+by.String()+")", guardPrimaryKey
	}
	refused := func(a Advice) Advice {
		if by.primary {
			return a
		}
		return a.withReason("The index accepts the same row again if one of its columns is NULL.")
	}
	switch st.onConflict {
	case conflictFail:
		return refused(newAdvice(Guarded, "A second run is refused by "+index+".", with).
			withReason("Answer it as a success only if the existing row is this request's, and otherwise as a conflict; guard does that."))
	case conflictIgnore:
		return refused(newAdvice(Guarded, "A second run inserts nothing: "+index+" has the row.", with).
			withReason("0 rows means that the row exists, and not that it is this request's."))
	case conflictReplace:
		return adviseReplace(st, s, index)
	}
	return adviseUpsert(st, by, s, index)
}

// adviseReplace advises on REPLACE, which deletes the row and inserts a new one.
func adviseReplace(st *statement, s *schema, index string) Advice {
	t := s.definitionOf(st.table)
	named := s.insertColumns(st)
	var other []string
	for _, row := range st.rows {
		for i, v := range row {
			if i < len(named) && (!v.isConstant() || s.databaseAssigns(st, named[i], v)) && !slices.Contains(other, named[i]) {
				other = append(other, named[i])
			}
		}
	}
	for _, name := range t.columns {
		if !slices.Contains(named, name) && (slices.Contains(t.autoColumns, name) || slices.Contains(t.varyingDefaults, name)) {
			other = append(other, name)
		}
	}
	switch {
	case len(other) > 0:
		return newAdvice(NeedsGuard, "A second run stores another value in "+joinNames(other)+".", guardDoTx, guardUpsert).withReason("Or send the value with the request.")
	case !s.knowsTable(st.table):
		return newAdvice(Unknown, "A second run replaces the row, and the database fills the columns that it leaves out again.", guardUpsert, guardDoTx).
			withReason("With CREATE TABLE in the same text more can be said.")
	}
	return newAdvice(Harmless, "A second run replaces the row that "+index+" finds with an equal one.", guardUpsert).
		withReason("A retry that comes late undoes what others have set since (ABA); columns that it leaves out, rows that refer to it and triggers see a new row each time.")
}

// adviseUpsert advises on an insert that changes the row that is there. It is harmless if it sets
// what the first run has inserted.
func adviseUpsert(st *statement, by *uniqueIndex, s *schema, index string) Advice {
	u := newUpdate(st, s)
	var again, other, fixed, keys []string
	for _, a := range st.sets {
		w := u.computationOf(a)
		switch {
		case u.repeatsInsert(a):
		case slices.Contains(by.columns, a.column):
			keys = append(keys, a.column)
		case w == relativeValue:
			again = append(again, a.column)
		case w == fixedValue && !u.offersVarying(a.value), w == derivedValue:
			fixed = append(fixed, a.column)
		default:
			other = append(other, a.column)
		}
	}
	switch {
	case len(keys) > 0:
		return newAdvice(NeedsGuard, "A second run changes "+joinNames(keys)+", by which the next run finds the row.", guardDoTx).withReason("Leave the columns of " + index + " as they are.")
	case len(again) > 0:
		return newAdvice(NeedsGuard, "A second run changes "+joinNames(again)+" again: the new value is computed from the stored one.", guardDoTx).
			withReason("Keep a key in the same transaction. guard.Upsert takes plain values only.")
	case len(other) > 0:
		return newAdvice(NeedsGuard, "A second run stores another value in "+joinNames(other)+".", guardDoTx, guardUpsert).withReason("Or send the value with the request.")
	case len(fixed) > 0:
		return newAdvice(NeedsGuard, "A second run finds the row and stores another value in "+joinNames(fixed)+" than the first run inserts.", guardDoTx, guardUpsert).
			withReason("Set each column to the value that is inserted: excluded.x, or VALUES(x) on MySQL.")
	}
	return newAdvice(Harmless, "It stores plain values, under "+index+": a second run stores them again.", guardUpsert).
		withReason("A retry that comes late undoes what others have set since (ABA): where others write these columns, take guard.Version or guard.Fence.")
}

// repeatsInsert reports whether a sets its column to what the insert has stored in it, or leaves
// it.
func (u *update) repeatsInsert(a assignment) bool {
	isOwn := func(e *expr) bool {
		return e.kind == columnExpr && e.name == a.column && u.sourceOf(e.table, e.name) == u.st.changedName()
	}
	isStored := func(e *expr) bool {
		if e.kind == offeredExpr && e.name != a.column {
			return false
		}
		return u.insertsAll(a.column, func(v *expr) bool { return e.kind == offeredExpr || equalExprs(v, e) })
	}
	return a.value != nil && (isOwn(a.value) || isStored(a.value) || isIdempotent(a.value, isOwn, isStored))
}

// insertsAll reports whether f is true for the value that each row brings for a column, and it is
// the same each time.
func (u *update) insertsAll(name string, f func(*expr) bool) bool {
	named := u.schema.insertColumns(u.st)
	if len(named) == 0 { // it can be any of them
		return !slices.ContainsFunc(u.st.rows, func(row []*expr) bool {
			return slices.ContainsFunc(row, func(v *expr) bool { return !v.isConstant() || !f(v) })
		})
	}
	i := slices.Index(named, name)
	for _, row := range u.st.rows {
		if i < 0 || i >= len(row) || !row[i].isConstant() || u.schema.databaseAssigns(u.st, name, row[i]) || !f(row[i]) {
			return false
		}
	}
	return len(u.st.rows) > 0
}

// offersVarying reports whether a value takes from the insert one that differs each time.
func (u *update) offersVarying(v *expr) bool {
	return v.hasPart(func(e *expr) bool {
		return e.kind == offeredExpr && !u.insertsAll(e.name, func(*expr) bool { return true })
	})
}
