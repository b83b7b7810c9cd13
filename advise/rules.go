package advise

import (
	"slices"
	"strings"
)

// Names of guards.
const (
	doTx          = "retrysafe.DoTx"
	withUnique    = "guard.Unique"
	withKey       = "guard.PrimaryKey"
	withVersion   = "guard.Version"
	withCondition = "guard.Condition"
	withRowLock   = "guard.RowLock"
	withMachine   = "guard.Machine"
	withFence     = "guard.Fence"
	withUpsert    = "guard.Upsert"
)

// say returns an advice.
func say(v Verdict, why string, guards ...string) Advice {
	return Advice{Verdict: v, Why: []string{why}, Guards: guards}
}

func (a Advice) and(why string) Advice {
	a.Why = append(a.Why, why)
	return a
}

// adviseOn returns the advice on a statement and the statements inside it. The worst verdict
// decides.
func adviseOn(st *statement, s *schema) Advice {
	if s.dialect == PostgreSQL {
		s.date(st)
	}
	a := adviseAlone(st, s).calling(st)
	for i := range st.inner {
		in := adviseOn(&st.inner[i], s)
		if rank[in.Verdict] > rank[a.Verdict] {
			a = in
		}
	}
	return a
}

func adviseAlone(st *statement, s *schema) Advice {
	switch st.kind {
	case reads:
		return adviseRead(st)
	case inserts:
		return adviseInsert(st, s)
	case updates:
		return adviseUpdate(st, s)
	case deletes:
		return adviseDelete(st)
	case settles:
		return say(Harmless, st.name+" finds what it asks for the second time.")
	case ends:
		return say(Harmless, "A COMMIT alone changes nothing twice.").
			and("One whose answer is lost may have been done or not: only a record in the same transaction tells, as retrysafe.DoTx keeps it.")
	case defines:
		return say(NeedsGuard, "A second "+st.name+" fails, or changes the table again.").
			and("Let a tool for migrations run it, which keeps a version in the database; or write IF EXISTS or IF NOT EXISTS where there is such a form.")
	case empties:
		return say(NeedsGuard, "A second TRUNCATE also removes what was inserted since the first.", doTx)
	case runs:
		return say(Unknown, "Nobody here knows what "+st.name+" runs: look at its statements.", doTx)
	case loads:
		return say(NeedsGuard, "A second "+st.name+" loads the rows again.", withUnique, doTx).
			and("Load into a table of its own that is made anew, and insert from there under a unique index.")
	case tells:
		return say(NeedsGuard, "Listeners are told again.", doTx).and("Let them drop what they have seen by an id in the message, or use the outbox.")
	case merges:
		return say(NeedsGuard, "A second MERGE does what its branches say for the rows as they are then.", withUpsert, doTx).
			and("It repeats harmlessly only if each branch sets plain values under a unique index.")
	}
	return say(Unknown, "Nobody here knows what a second "+st.name+" does.", doTx)
}

// calling adds what the functions mean that a statement calls: a second run calls them again.
func (a Advice) calling(st *statement) Advice {
	if st.kind != inserts && st.kind != updates && st.kind != deletes && st.kind != settles {
		return a
	}
	drawing, unknown := st.returned, []string(nil)
	if st.kind == settles {
		drawing = st.reading
	}
	for _, e := range drawing {
		for _, name := range e.calls() {
			if numbering[name] && rank[a.Verdict] < rank[NeedsGuard] {
				return say(NeedsGuard, name+"() draws another number each time.", doTx)
			}
		}
	}
	for _, e := range st.reading {
		unknown = append(unknown, unknownCalls(e)...)
	}
	if len(unknown) == 0 || rank[a.Verdict] >= rank[Unknown] {
		return a
	}
	slices.Sort(unknown)
	return say(Unknown, "It calls "+listed(slices.Compact(unknown))+", and so does a repeat: nobody here knows whether that writes.", doTx)
}

func adviseRead(st *statement) Advice {
	var unknown []string
	for _, e := range st.reading {
		for _, name := range e.calls() {
			if numbering[name] {
				return say(NeedsGuard, name+"() draws another number each time: a repeat has another id.", doTx).
					and("Draw it once, before the request is sent, and send it along (guard.PrimaryKey).")
			}
		}
		unknown = append(unknown, unknownCalls(e)...)
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return say(Unknown, "It reads, and calls "+listed(slices.Compact(unknown))+": nobody here knows whether that writes.")
	}
	if st.locks {
		return say(Harmless, "It reads, and locks what it reads until the transaction ends.").
			and("Look, lock, and look again in the transaction that changes the rows (guard.RowLock); the lock itself tells no repeat.")
	}
	return say(Harmless, "It reads.")
}

func adviseDelete(st *statement) Advice {
	switch {
	case st.limited:
		return say(NeedsGuard, "Its LIMIT removes other rows each time.", doTx).and("Name the rows by their key.")
	case st.where == nil && !st.others:
		return say(Harmless, "It removes all rows.").and("A repeat that comes late removes those, too, that were inserted since.")
	}
	if names := slices.Concat(shiftingCalls(st.where), timedCalls(st.where)); len(names) > 0 {
		return say(Unknown, "Which rows it removes depends on when it runs ("+listed(names)+").", doTx).
			and("That is harmless where the rows of a later run may go as well, as with what has expired.")
	}
	if names := unknownCalls(st.where); len(names) > 0 {
		return say(Unknown, "Which rows it removes depends on "+listed(names)+", which nobody here knows.", doTx)
	}
	if st.others || readsOthers(st.where) {
		return say(Unknown, "Which rows it removes depends on what other rows there are when it runs.", doTx).
			and("Name the rows by their key: a queue that is emptied in this way loses a message when the answer is lost.")
	}
	a := say(Harmless, "What is removed stays removed: a repeat finds nothing.").
		and("A repeat that comes late removes a row, too, that was inserted since and matches.")
	if st.returning {
		a = a.and("A repeat returns no rows: a caller whose answer was lost is not told what was removed; retrysafe.DoTx keeps the answer.")
	}
	return a
}

// listed joins names.
func listed(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
