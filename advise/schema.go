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
	columns map[string][]string // by table, in their order
	auto    map[string][]string
	unique  map[string][]unique
}

func schemaOf(all []statement) *schema {
	s := &schema{columns: map[string][]string{}, auto: map[string][]string{}, unique: map[string][]unique{}}
	for i := range all {
		if all[i].definedTable {
			s.columns[all[i].table] = all[i].columns
			s.auto[all[i].table] = all[i].autoColumns
		}
		for _, u := range all[i].defined {
			s.unique[u.table] = append(s.unique[u.table], u)
		}
	}
	return s
}

// knows reports whether the text has the table's CREATE TABLE.
func (s *schema) knows(table string) bool { return s.columns[table] != nil }

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
// same when it runs again.
func (s *schema) covers(st *statement, columns []string) bool {
	named := st.columns
	if len(named) == 0 {
		named = s.columns[st.table]
	}
	if len(columns) == 0 || len(st.rows) == 0 {
		return false
	}
	for _, name := range columns {
		i := slices.Index(named, name)
		for _, row := range st.rows {
			if i < 0 || i >= len(row) || !row[i].constant() || row[i].text == "NULL" {
				return false
			}
			// In MySQL, 0 in an auto-increment column asks for the next number.
			if row[i].text == "0" && slices.Contains(s.auto[st.table], name) {
				return false
			}
		}
	}
	return true
}
