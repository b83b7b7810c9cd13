package advise

import (
	"slices"
	"strings"
)

// dateWords are words that PostgreSQL reads as a time of the clock, in a column of a date type.
var dateWords = wordSet(`now today tomorrow yesterday`)

// besideDates are words that a date may have as well.
var besideDates = wordSet(`now today tomorrow yesterday allballs infinity epoch am pm t z utc gmt at on ad bc est edt cst cdt mst mdt pst pdt cet cest bst`)

// isDateWord reports whether a literal is a date by the clock if it is read as a date: 'now',
// 'today 10:00'.
func isDateWord(e *expr) bool {
	if e.kind != valueExpr || e.lit != literalText {
		return false
	}
	all := strings.FieldsFunc(strings.ToLower(e.text), func(r rune) bool { return r < 'a' || r > 'z' })
	has := slices.ContainsFunc(all, func(w string) bool { return dateWords[w] })
	return has && (strings.Contains(e.text, "/") || !slices.ContainsFunc(all, func(w string) bool { return !besideDates[w] }))
}

// replaceDateWords replaces the date words that the statement sets, inserts and compares by calls
// of the clock, where their column is of a date type. Where the text does not show the type, it
// replaces them by a time that may be 'now'.
func (s *schema) replaceDateWords(st *statement) {
	for _, a := range st.sets {
		s.replaceDateWordsIn(st, a.value, s.definitionOf(st.table).types[a.column])
	}
	named := s.insertColumns(st)
	for _, row := range st.rows {
		for i, v := range row {
			t := columnType{}
			if i < len(named) {
				t = s.definitionOf(st.table).types[named[i]]
			}
			s.replaceDateWordsIn(st, v, t)
		}
	}
	s.replaceDateWordsIn(st, st.where, columnType{})
}

// replaceDateWordsIn replaces the date words in e, which is used as a value of type t.
func (s *schema) replaceDateWordsIn(st *statement, e *expr, t columnType) {
	if e == nil {
		return
	}
	if isDateWord(e) {
		switch t.class {
		case timeClass:
			*e = expr{kind: callExpr, name: "current_time"}
		case textClass, numberClass, truthClass: // it is a word there
		default:
			*e = expr{kind: callExpr, name: maybeNow}
		}
		return
	}
	if e.kind == queryExpr { // its columns may be of other tables
		e.walk(func(e *expr) {
			if isDateWord(e) {
				*e = expr{kind: callExpr, name: maybeNow}
			}
		})
		return
	}
	switch {
	case e.kind == callExpr && !idempotentFunctions[e.name]:
		t = columnType{}
	case e.kind == opExpr && e.name == castOp:
		if v, _ := stripCasts(e); v.kind == valueExpr {
			t = typeByName(e.text, "")
		} else {
			t = columnType{}
		}
	case e.kind == listExpr: // as its neighbour
	case len(e.args) > 1 || t.class != timeClass:
		t = s.comparedType(st, e)
	}
	for _, in := range e.args {
		s.replaceDateWordsIn(st, in, t)
	}
}

// comparedType returns the type of a column that is a part of e, which the other parts have as
// well.
func (s *schema) comparedType(st *statement, e *expr) columnType {
	for _, in := range e.args {
		if in.kind == columnExpr && s.sourceOf(st, in.table, in.name) == st.changedName() {
			return s.definitionOf(st.table).types[in.name]
		}
	}
	return columnType{}
}
