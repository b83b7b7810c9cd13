package advise

import (
	"slices"
	"strings"
)

// Names of guards.
const (
	guardDoTx       = "retrysafe.DoTx"
	guardUnique     = "guard.Unique"
	guardPrimaryKey = "guard.PrimaryKey"
	guardVersion    = "guard.Version"
	guardCondition  = "guard.Condition"
	guardRowLock    = "guard.RowLock"
	guardMachine    = "guard.Machine"
	guardFence      = "guard.Fence"
	guardUpsert     = "guard.Upsert"
)

// newAdvice returns an advice.
func newAdvice(v Verdict, why string, guards ...string) Advice {
	return Advice{Verdict: v, Why: []string{why}, Guards: guards}
}

func (a Advice) withReason(why string) Advice {
	a.Why = append(a.Why, why)
	return a
}

// adviseOn returns the advice on a statement and the statements inside it. The worst verdict
// decides.
func adviseOn(st *statement, s *schema) Advice {
	if s.dialect == PostgreSQL {
		s.replaceDateWords(st)
	}
	a := adviseAlone(st, s).withCalls(st)
	for i := range st.inner {
		in := adviseOn(&st.inner[i], s)
		if verdictRank[in.Verdict] > verdictRank[a.Verdict] {
			a = in
		}
	}
	return a
}

func adviseAlone(st *statement, s *schema) Advice {
	switch st.kind {
	case kindRead:
		return adviseRead(st)
	case kindInsert:
		return adviseInsert(st, s)
	case kindUpdate:
		return adviseUpdate(st, s)
	case kindDelete:
		return adviseDelete(st)
	case kindIdempotent:
		return newAdvice(Harmless, st.name+" finds what it asks for the second time.")
	case kindCommit:
		return newAdvice(Harmless, "A COMMIT alone changes nothing twice.").
			withReason("One whose answer is lost may have been done or not: only a record in the same transaction tells, as retrysafe.DoTx keeps it.")
	case kindDefine:
		return newAdvice(NeedsGuard, "A second "+st.name+" fails, or changes the table again.").
			withReason("Let a tool for migrations run it, which keeps a version in the database; or write IF EXISTS or IF NOT EXISTS where there is such a form.")
	case kindTruncate:
		return newAdvice(NeedsGuard, "A second TRUNCATE also removes what was inserted since the first.", guardDoTx)
	case kindCall:
		return newAdvice(Unknown, "The text does not show what "+st.name+" runs: look at its statements.", guardDoTx)
	case kindLoad:
		return newAdvice(NeedsGuard, "A second "+st.name+" loads the rows again.", guardUnique, guardDoTx).
			withReason("Load into an empty table of its own, and insert from there under a unique index.")
	case kindNotify:
		return newAdvice(NeedsGuard, "A second NOTIFY sends the message again.", guardDoTx).withReason("Put an id in the message, by which listeners drop duplicates, or use the outbox.")
	case kindMerge:
		return newAdvice(NeedsGuard, "A second MERGE does what its branches say for the rows as they are then.", guardUpsert, guardDoTx).
			withReason("It repeats harmlessly only if each branch sets plain values under a unique index.")
	}
	return newAdvice(Unknown, "It is unknown what a second "+st.name+" does.", guardDoTx)
}

// withCalls adds what the functions mean that a statement calls: a second run calls them again.
func (a Advice) withCalls(st *statement) Advice {
	if st.kind != kindInsert && st.kind != kindUpdate && st.kind != kindDelete && st.kind != kindIdempotent {
		return a
	}
	drawing, unknown := st.returningExprs, []string(nil)
	if st.kind == kindIdempotent {
		drawing = st.allExprs
	}
	for _, e := range drawing {
		for _, name := range e.callNames() {
			if counterFunctions[name] && verdictRank[a.Verdict] < verdictRank[NeedsGuard] {
				return newAdvice(NeedsGuard, name+"() draws another number each time.", guardDoTx)
			}
		}
	}
	for _, e := range st.allExprs {
		unknown = append(unknown, unknownCalls(e)...)
	}
	if len(unknown) == 0 || verdictRank[a.Verdict] >= verdictRank[Unknown] {
		return a
	}
	slices.Sort(unknown)
	return newAdvice(Unknown, "A second run calls "+joinNames(slices.Compact(unknown))+" again, and the text does not show whether that writes.", guardDoTx)
}

func adviseRead(st *statement) Advice {
	var unknown []string
	for _, e := range st.allExprs {
		for _, name := range e.callNames() {
			if counterFunctions[name] {
				return newAdvice(NeedsGuard, name+"() draws another number each time: a second run gets another id.", guardDoTx).
					withReason("Draw it once, before the request is sent, and send it along (guard.PrimaryKey).")
			}
		}
		unknown = append(unknown, unknownCalls(e)...)
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return newAdvice(Unknown, "It reads, and calls "+joinNames(slices.Compact(unknown))+": the text does not show whether that writes.")
	}
	if st.locks {
		return newAdvice(Harmless, "It reads, and locks what it reads until the transaction ends.").
			withReason("Look, lock, and look again in the transaction that changes the rows (guard.RowLock); the lock itself does not detect a duplicate.")
	}
	return newAdvice(Harmless, "It reads.")
}

func adviseDelete(st *statement) Advice {
	switch {
	case st.limited:
		return newAdvice(NeedsGuard, "Its LIMIT removes other rows each time.", guardDoTx).withReason("Name the rows by their key.")
	case st.where == nil && !st.otherTables:
		return newAdvice(Harmless, "It removes all rows.").withReason("A retry that comes late also removes rows that were inserted since.")
	}
	if names := slices.Concat(varyingCalls(st.where), maybeNowCalls(st.where)); len(names) > 0 {
		return newAdvice(Unknown, "Which rows it removes depends on when it runs ("+joinNames(names)+").", guardDoTx).
			withReason("That is harmless where the rows of a later run may go as well, as with what has expired.")
	}
	if names := unknownCalls(st.where); len(names) > 0 {
		return newAdvice(Unknown, "Which rows it removes depends on "+joinNames(names)+", and the text does not show what that returns.", guardDoTx)
	}
	if st.otherTables || readsOthers(st.where) {
		return newAdvice(Unknown, "Which rows it removes depends on what other rows there are when it runs.", guardDoTx).
			withReason("Name the rows by their key: a queue that is emptied in this way loses a message when the answer is lost.")
	}
	a := newAdvice(Harmless, "What is removed stays removed: a second run finds nothing.").
		withReason("A retry that comes late also removes a matching row that was inserted since.")
	if st.returning {
		a = a.withReason("A second run returns no rows, so a caller that has lost the answer cannot learn what was removed; retrysafe.DoTx keeps the answer.")
	}
	return a
}

// joinNames joins names.
func joinNames(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
