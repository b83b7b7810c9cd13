package guard

import (
	"reflect"
	"strings"

	"github.com/retrysafe/retrysafe/internal/dberr"
)

// Duplicate is what a duplicate-key error says of the unique index that was hit.
type Duplicate struct {
	// Table is the table, where the database names it: PostgreSQL, SQLite, and MySQL 8 but not
	// MariaDB.
	Table string
	// Index is the name of the index, PRIMARY for the primary key on MySQL. SQLite names the
	// columns instead, unless the index has expressions.
	Index string
	// Columns are those of the index, where the database names them: SQLite.
	Columns []string
}

// Numbers and codes of duplicate keys.
const (
	mysqlDuplicate       = 1062
	mysqlDuplicateNamed  = 1586
	stateDuplicate       = "23505"
	sqliteDuplicate      = 2067
	sqliteDuplicateKey   = 1555
	sqliteDuplicateRow   = 2579 // a rowid that was given
	sqliteConstraint     = 19
	sqliteDuplicateWords = "UNIQUE constraint failed: "
)

// DuplicateKey tells whether err, of any driver, says that a row with the same values in a unique
// index is there: MySQL 1062, PostgreSQL 23505, SQLite 2067 and 1555. What cannot be read of the
// index is empty.
//
// GORM with TranslateError puts an error of its own in place of the driver's, which does not say
// which index it was: it is not known here.
func DuplicateKey(err error) (Duplicate, bool) {
	if err == nil {
		return Duplicate{}, false
	}
	if dberr.SQLState(err) == stateDuplicate {
		return Duplicate{Table: text(err, "TableName", "Table"), Index: text(err, "ConstraintName", "Constraint")}, true
	}
	if n := dberr.MySQLNumber(err); n == mysqlDuplicate || n == mysqlDuplicateNamed {
		return mysqlIndex(text(err, "Message"), err.Error()), true
	}
	switch code := sqliteCode(err); code {
	case sqliteDuplicate, sqliteDuplicateKey, sqliteDuplicateRow:
		d, _ := sqliteIndex(err.Error())
		return d, true
	case 0, sqliteConstraint:
		if dberr.SQLState(err) == "" && dberr.MySQLNumber(err) == 0 {
			return sqliteIndex(err.Error())
		}
	}
	return Duplicate{}, false
}

// mysqlIndex reads "Duplicate entry 'values' for key 'index'", in any of the server's languages:
// the index stands in the last pair of quotes, the values, which are anybody's, before it. MySQL 8
// writes 'table.index'.
func mysqlIndex(texts ...string) (d Duplicate) {
	for _, text := range texts {
		text, closed := strings.CutSuffix(strings.TrimRight(text, " ."), "'")
		at := strings.LastIndexByte(text, '\'')
		if !closed || at < 0 {
			continue
		}
		d.Index = text[at+1:]
		if table, index, ok := strings.Cut(d.Index, "."); ok {
			d.Table, d.Index = table, index
		}
		return d
	}
	return d
}

// sqliteIndex reads "UNIQUE constraint failed: table.column, table.column", or "…: index 'name'".
// Drivers put words before it, and a code in brackets behind it.
func sqliteIndex(text string) (d Duplicate, ok bool) {
	_, text, ok = strings.Cut(text, sqliteDuplicateWords)
	if !ok {
		return d, false
	}
	if at := strings.LastIndex(text, " ("); at >= 0 && strings.HasSuffix(text, ")") {
		text = text[:at]
	}
	if name, isIndex := strings.CutPrefix(text, "index '"); isIndex {
		d.Index = strings.TrimSuffix(name, "'")
		return d, true
	}
	for _, c := range strings.Split(text, ", ") {
		table, column, dotted := strings.Cut(c, ".")
		if !dotted {
			continue
		}
		d.Table, d.Columns = table, append(d.Columns, column)
	}
	return d, true
}

// named is what an error says of the index.
func (d Duplicate) named() string {
	switch {
	case d.Index != "":
		return "the index " + d.Index
	case len(d.Columns) > 0:
		return "the index on (" + strings.Join(d.Columns, ", ") + ")"
	}
	return "another unique index"
}

// text is a field of the driver's error, or empty.
func text(err error, names ...string) string {
	if f, ok := dberr.Field(err, reflect.String, names...); ok {
		return f.String()
	}
	return ""
}
