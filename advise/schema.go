package advise

import (
	"slices"
	"strings"
)

// uniqueIndex is a unique index.
type uniqueIndex struct {
	table   string
	columns []string
	primary bool
	partial bool // it covers only some rows, or has an expression
}

func (u *uniqueIndex) String() string { return strings.Join(u.columns, ", ") }

// schema is what a text says about its tables.
type schema struct {
	dialect       Dialect
	tables        map[string]*statement // CREATE TABLE, by table
	uniqueIndexes map[string][]uniqueIndex
}

func newSchema(all []statement, d Dialect) *schema {
	s := &schema{dialect: d, tables: map[string]*statement{}, uniqueIndexes: map[string][]uniqueIndex{}}
	for i := range all {
		if all[i].definedTable {
			s.tables[all[i].table] = &all[i]
		}
		for _, u := range all[i].uniqueIndexes {
			s.uniqueIndexes[u.table] = append(s.uniqueIndexes[u.table], u)
		}
	}
	return s
}

// knowsTable reports whether the text has the table's CREATE TABLE.
func (s *schema) knowsTable(table string) bool { return s.tables[table] != nil }

// definitionOf returns the CREATE TABLE of a table, or an empty statement.
func (s *schema) definitionOf(table string) *statement {
	if t := s.tables[table]; t != nil {
		return t
	}
	return new(statement)
}

// sourceOf returns which of its sources a column in a statement is of, or "?" if the text does not
// say.
func (s *schema) sourceOf(st *statement, table, name string) string {
	switch {
	case table != "":
		return table
	case !st.otherTables:
		return st.changedName()
	}
	found := "?"
	for _, from := range st.sources {
		if slices.Contains(s.definitionOf(from.table).columns, name) {
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
	if name == st.changedName() {
		return st.table
	}
	return ""
}

// findDecidingIndex returns a unique index whose columns the insert fills completely with values of
// the request, or nil if the text has none.
func (s *schema) findDecidingIndex(st *statement) *uniqueIndex {
	for _, u := range s.uniqueIndexes[st.table] {
		if !u.partial && s.fillsColumns(st, u.columns) {
			return &u
		}
	}
	return nil
}

// fillsColumns reports whether the insert fills all of these columns in each row with values that
// are the same when it runs again, and that are not NULL.
func (s *schema) fillsColumns(st *statement, columns []string) bool {
	named := s.insertColumns(st)
	if len(columns) == 0 || len(st.rows) == 0 {
		return false
	}
	for _, name := range columns {
		i := slices.Index(named, name)
		for _, row := range st.rows {
			if i < 0 || i >= len(row) || !row[i].isConstant() || !isNeverNull(row[i]) || s.databaseAssigns(st, name, row[i]) {
				return false
			}
		}
	}
	return true
}

// insertColumns returns the columns that an insert fills, if the text says so.
func (s *schema) insertColumns(st *statement) []string {
	if len(st.columns) > 0 {
		return st.columns
	}
	return s.definitionOf(st.table).columns
}

// databaseAssigns reports whether the database may put a number of its own in place of a value. In
// MySQL, 0 in an auto-increment column asks for the next one.
func (s *schema) databaseAssigns(st *statement, name string, v *expr) bool {
	t := s.definitionOf(st.table)
	if st.ownNumbers && (!s.knowsTable(st.table) || slices.Contains(t.identity, name)) {
		return true
	}
	if !slices.Contains(t.autoColumns, name) || hasParameter(v) {
		return false
	}
	number, _ := stripCasts(v)
	return number != nil && number.kind == valueExpr && (number.lit != literalInteger || number.text == "0")
}
