package advise

import (
	"slices"
	"strings"
)

// unique is a unique index.
type unique struct {
	table   string
	columns []string
	primary bool
	partial bool // it covers only some rows, or has an expression
}

func (u *unique) String() string { return strings.Join(u.columns, ", ") }

// schema is what a text says about its tables.
type schema struct {
	dialect Dialect
	tables  map[string]*statement // CREATE TABLE, by table
	unique  map[string][]unique
}

func schemaOf(all []statement, d Dialect) *schema {
	s := &schema{dialect: d, tables: map[string]*statement{}, unique: map[string][]unique{}}
	for i := range all {
		if all[i].definedTable {
			s.tables[all[i].table] = &all[i]
		}
		for _, u := range all[i].defined {
			s.unique[u.table] = append(s.unique[u.table], u)
		}
	}
	return s
}

// knows reports whether the text has the table's CREATE TABLE.
func (s *schema) knows(table string) bool { return s.tables[table] != nil }

// of returns the CREATE TABLE of a table, or an empty statement.
func (s *schema) of(table string) *statement {
	if t := s.tables[table]; t != nil {
		return t
	}
	return new(statement)
}

// owner returns which of its sources a column in a statement is of, or "?" if the text does not
// say.
func (s *schema) owner(st *statement, table, name string) string {
	switch {
	case table != "":
		return table
	case !st.others:
		return st.changed()
	}
	found := "?"
	for _, from := range st.sources {
		if slices.Contains(s.of(from.table).columns, name) {
			if found != "?" {
				return "?"
			}
			found = from.name
		}
	}
	return found
}

// tableOf returns the table that a name in a statement stands for.
func (st *statement) tableOf(name string) string {
	for _, from := range st.sources {
		if from.name == name {
			return from.table
		}
	}
	if name == st.changed() {
		return st.table
	}
	return ""
}

// judge returns a unique index whose columns the insert fills completely with values of the
// request, or nil if the text has none.
func (s *schema) judge(st *statement) *unique {
	for _, u := range s.unique[st.table] {
		if !u.partial && s.covers(st, u.columns) {
			return &u
		}
	}
	return nil
}

// covers reports whether the insert fills all of these columns in each row with values that are the
// same when it runs again, and that are not NULL.
func (s *schema) covers(st *statement, columns []string) bool {
	named := s.named(st)
	if len(columns) == 0 || len(st.rows) == 0 {
		return false
	}
	for _, name := range columns {
		i := slices.Index(named, name)
		for _, row := range st.rows {
			if i < 0 || i >= len(row) || !row[i].constant() || !neverNull(row[i]) || s.draws(st, name, row[i]) {
				return false
			}
		}
	}
	return true
}

// named returns the columns that an insert fills, if the text says so.
func (s *schema) named(st *statement) []string {
	if len(st.columns) > 0 {
		return st.columns
	}
	return s.of(st.table).columns
}

// draws reports whether the database may put a number of its own in place of a value. In MySQL, 0
// in an auto-increment column asks for the next one.
func (s *schema) draws(st *statement, name string, v *expr) bool {
	t := s.of(st.table)
	if st.ownNumbers && (!s.knows(st.table) || slices.Contains(t.identity, name)) {
		return true
	}
	if !slices.Contains(t.autoColumns, name) || hasParameter(v) {
		return false
	}
	number, _ := uncast(v)
	return number != nil && number.kind == plain && (number.lit != ofInteger || number.text == "0")
}
