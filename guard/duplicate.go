package guard

import (
	"reflect"
	"strings"

	"github.com/retrysafe/retrysafe/internal/dberr"
)

// Duplicate describes the unique index that a duplicate-key error is about.
type Duplicate struct {
	// Table is the table, if the database names it: PostgreSQL, SQLite and MySQL 8 do, MariaDB does
	// not.
	Table string
	// Index is the name of the index; on MySQL it is PRIMARY for the primary key. SQLite names the
	// columns instead, unless the index has expressions.
	Index string
	// Columns are the columns of the index, if the database names them. Only SQLite does.
	Columns []string
}

// Error numbers and codes of duplicate keys.
const (
	mysqlDuplicate       = 1062
	mysqlDuplicateNamed  = 1586
	stateDuplicate       = "23505"
	sqliteDuplicate      = 2067
	sqliteDuplicateKey   = 1555
	sqliteDuplicateRow   = 2579 // an explicit rowid
	sqliteConstraint     = 19
	sqliteDuplicateWords = "UNIQUE constraint failed: "
)

// DuplicateKey reports whether err, from any driver, says that a row with the same values in a
// unique index exists: MySQL 1062, PostgreSQL 23505, SQLite 2067 and 1555. Fields that err does not
// give are empty.
//
// GORM with TranslateError replaces the driver's error with its own, which does not name the index.
// DuplicateKey does not recognize that error.
func DuplicateKey(err error) (Duplicate, bool) {
	if err == nil {
		return Duplicate{}, false
	}
	if dberr.SQLState(err) == stateDuplicate {
		return Duplicate{Table: errorField(err, "TableName", "Table"), Index: errorField(err, "ConstraintName", "Constraint")}, true
	}
	if n := dberr.MySQLNumber(err); n == mysqlDuplicate || n == mysqlDuplicateNamed {
		return mysqlIndex(errorField(err, "Message"), err.Error()), true
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

// mysqlIndex parses "Duplicate entry 'values' for key 'index'", in any of the server's languages.
// The index is in the last pair of quotes; the values before it can be anything. MySQL 8 writes
// 'table.index'.
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

// sqliteIndex parses "UNIQUE constraint failed: table.column, table.column", or "…: index 'name'".
// Drivers put text before it and a code in brackets after it.
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

// describe describes the index in an error.
func (d Duplicate) describe() string {
	switch {
	case d.Index != "":
		return "the index " + d.Index
	case len(d.Columns) > 0:
		return "the index on (" + strings.Join(d.Columns, ", ") + ")"
	}
	return "another unique index"
}

// errorField returns a field of the driver's error, or "".
func errorField(err error, names ...string) string {
	if f, ok := dberr.Field(err, reflect.String, names...); ok {
		return f.String()
	}
	return ""
}
