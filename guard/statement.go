package guard

import (
	"bytes"
	"strconv"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// statement is SQL text with placeholders, and their values.
type statement struct {
	d    dbtx.Dialect
	text []byte
	args []any
	// compared are the columns that the statement compares with a value or sets to one, with the
	// value.
	compared []comparedValue
	lastName string
}

type comparedValue struct {
	column string
	value  any
}

func newStatement(d dbtx.Dialect) *statement {
	return &statement{d: d, text: make([]byte, 0, 256), args: make([]any, 0, 8)}
}

// add appends fixed SQL.
func (s *statement) add(parts ...string) *statement {
	for _, p := range parts {
		s.text = append(s.text, p...)
	}
	return s
}

// name appends a checked name.
func (s *statement) name(n string) *statement {
	q := byte('`')
	if s.d == dbtx.PostgreSQL {
		q = '"'
	}
	s.text = append(append(append(s.text, q), n...), q)
	s.lastName = n
	return s
}

var equals = []byte(" = ")

// value appends a placeholder for a value.
func (s *statement) value(v any) *statement {
	s.args = append(s.args, v)
	if bytes.HasSuffix(s.text, equals) {
		s.compared = append(s.compared, comparedValue{s.lastName, v})
	}
	if s.d == dbtx.PostgreSQL {
		s.text = strconv.AppendInt(append(s.text, '$'), int64(len(s.args)), 10)
		return s
	}
	s.text = append(s.text, '?')
	return s
}

// assign appends `column = value`. row is the qualifier with which an Add reads the column, with
// its dot, or empty.
func (s *statement) assign(column string, v any, row string) *statement {
	return s.name(column).add(" = ").expression(column, v, row)
}

// expression appends the value that assign gives the column.
func (s *statement) expression(column string, v any, row string) *statement {
	if a, ok := v.(addedAmount); ok {
		return s.add("COALESCE(", row).name(column).add(", 0) + ").value(a.n)
	}
	return s.value(v)
}

// insert appends `INSERT INTO table … (columns) VALUES (…)`.
func (s *statement) insert(table, as string, columns []string, values func(column string) any) *statement {
	s.add("INSERT INTO ", table, as, " (")
	for i, c := range columns {
		if i > 0 {
			s.add(", ")
		}
		s.name(c)
	}
	s.add(") VALUES (")
	for i, c := range columns {
		if i > 0 {
			s.add(", ")
		}
		s.value(values(c))
	}
	return s.add(")")
}

// readCurrent makes a SELECT read the row as it is now, and not as it was when the transaction
// began. On MySQL a plain SELECT reads an old snapshot, in which the row that an UPDATE of the same
// transaction has matched may look different. The lock is shared, because many duplicates may read
// at once.
func (s *statement) readCurrent() *statement {
	if s.d == dbtx.MySQL {
		s.add(" LOCK IN SHARE MODE")
	}
	return s
}
