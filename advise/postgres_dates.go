package advise

import (
	"slices"
	"strings"
)

// dateWords are words that PostgreSQL reads as a time of the clock, in a column of a date type.
var dateWords = words(`now today tomorrow yesterday`)

// besideDates are words that a date may have as well.
var besideDates = words(`now today tomorrow yesterday allballs infinity epoch am pm t z utc gmt at on ad bc est edt cst cdt mst mdt pst pdt cet cest bst`)

// isDateWord reports whether a literal is a date by the clock if it is read as a date: 'now',
// 'today 10:00'.
func isDateWord(e *expr) bool {
	if e.kind != plain || e.lit != ofText {
		return false
	}
	all := strings.FieldsFunc(strings.ToLower(e.text), func(r rune) bool { return r < 'a' || r > 'z' })
	has := slices.ContainsFunc(all, func(w string) bool { return dateWords[w] })
	return has && (strings.Contains(e.text, "/") || !slices.ContainsFunc(all, func(w string) bool { return !besideDates[w] }))
}

// date replaces the date words that the statement sets, inserts and compares by calls of the clock,
// where their column is of a date type. Where the text does not show the type, it replaces them by
// a time that may be 'now'.
func (s *schema) date(st *statement) {
	for _, a := range st.sets {
		s.dateIn(st, a.value, s.of(st.table).types[a.column])
	}
	named := s.named(st)
	for _, row := range st.rows {
		for i, v := range row {
			t := columnType{}
			if i < len(named) {
				t = s.of(st.table).types[named[i]]
			}
			s.dateIn(st, v, t)
		}
	}
	s.dateIn(st, st.where, columnType{})
}

// dateIn replaces the date words in e, which is used as a value of type t.
func (s *schema) dateIn(st *statement, e *expr, t columnType) {
	if e == nil {
		return
	}
	if isDateWord(e) {
		switch t.class {
		case timeClass:
			*e = expr{kind: call, name: "current_time"}
		case textClass, numberClass, truthClass: // it is a word there
		default:
			*e = expr{kind: call, name: timed}
		}
		return
	}
	if e.kind == query { // its columns may be of other tables
		e.walk(func(e *expr) {
			if isDateWord(e) {
				*e = expr{kind: call, name: timed}
			}
		})
		return
	}
	switch {
	case e.kind == call && !settling[e.name]:
		t = columnType{}
	case e.kind == op && e.name == cast:
		if v, _ := uncast(e); v.kind == plain {
			t = typeNamed(e.text, "")
		} else {
			t = columnType{}
		}
	case e.kind == list: // as its neighbour
	case len(e.args) > 1 || t.class != timeClass:
		t = s.compares(st, e)
	}
	for _, in := range e.args {
		s.dateIn(st, in, t)
	}
}

// compares returns the type of a column that is a part of e, which the other parts have as well.
func (s *schema) compares(st *statement, e *expr) columnType {
	for _, in := range e.args {
		if in.kind == column && s.owner(st, in.table, in.name) == st.changed() {
			return s.of(st.table).types[in.name]
		}
	}
	return columnType{}
}
