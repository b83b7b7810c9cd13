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
	a := judged(st, judge)
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
		if len(s.auto[st.table]) > 0 {
			why += " A number that the database draws tells no repeat."
		}
	}
	a := say(NeedsGuard, why, withUnique, withKey, doTx).
		and("Add a unique index on what names the request, or let the request bring the primary key.")
	switch {
	case st.onConflict == changes && computesUpsert(st):
		a = say(NeedsGuard, "A repeat changes the row that is there again: it is computed from what is stored.", doTx)
	case st.onConflict != fails:
		a = a.and("Without one, what it says about conflicts never comes to pass on a repeat.")
	}
	if !s.knows(st.table) {
		a = a.and("With CREATE TABLE in the same text more can be said.")
	}
	return a
}

// computesUpsert reports whether the part for an existing row has another effect when it runs
// again.
func computesUpsert(st *statement) bool {
	own := func(e *expr) bool { return e.table == "" || e.table == st.table || e.table == st.alias }
	return slices.ContainsFunc(st.sets, func(a assignment) bool {
		w := wayOf(a, st.sets, own)
		return w != settled && w != derived
	})
}

// judged advises on an insert that a unique index refuses the second time.
func judged(st *statement, by *unique) Advice {
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
		if names := moving(st, func(string) bool { return true }); len(names) > 0 {
			return say(NeedsGuard, "A repeat stores another value in "+listed(names)+".", doTx, withUpsert).and("Or send the value with the request.")
		}
		return say(Harmless, "A repeat replaces the row that "+index+" finds by the same.", withUpsert).
			and("A retry that comes late undoes what others have set since (ABA); columns that it leaves out, rows that refer to it and triggers see a new row each time.")
	}
	own := func(e *expr) bool { return e.table == "" || e.table == st.table || e.table == st.alias }
	var again, other []string
	for _, a := range st.sets {
		switch wayOf(a, st.sets, own) {
		case settled, derived:
		case shifts, lookedUp, obscure:
			other = append(other, a.column)
		case relative:
			again = append(again, a.column)
		}
	}
	other = append(other, moving(st, func(name string) bool {
		return slices.ContainsFunc(st.sets, func(a assignment) bool {
			return a.value.has(func(e *expr) bool { return e.kind == offered && (e.name == name || e.name == "") })
		})
	})...)
	switch {
	case len(again) > 0:
		return say(NeedsGuard, "A repeat changes "+listed(again)+" again: it is computed from what is stored.", doTx).
			and("Keep a key in the same transaction. guard.Upsert takes plain values only.")
	case len(other) > 0:
		return say(NeedsGuard, "A repeat stores another value in "+listed(other)+".", doTx, withUpsert).and("Or send the value with the request.")
	}
	return say(Harmless, "It stores plain values, under "+index+": a repeat stores them again.", withUpsert).
		and("A retry that comes late undoes what others have set since (ABA): where others write these columns, take guard.Version or guard.Fence.")
}

// moving returns the columns, of those for which counts is true, whose inserted values differ each
// time.
func moving(st *statement, counts func(string) bool) (names []string) {
	for _, row := range st.rows {
		for i, v := range row {
			name := "the row"
			if i < len(st.columns) {
				name = st.columns[i]
			}
			if !v.constant() && (name == "the row" || counts(name)) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
