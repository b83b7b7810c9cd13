package guard

import (
	"bytes"
	"strconv"

	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// statement is a text of SQL with places, and the values of the places.
type statement struct {
	d    dbtx.Dialect
	text []byte
	args []any
	// beside are the columns that are compared with a value, or set to one, and the value.
	beside []beside
	named  string
}

type beside struct {
	column string
	value  any
}

func newStatement(d dbtx.Dialect) *statement {
	return &statement{d: d, text: make([]byte, 0, 256), args: make([]any, 0, 8)}
}

// add appends SQL that is the program's own.
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
	s.named = n
	return s
}

var equals = []byte(" = ")

// value appends the place of a value.
func (s *statement) value(v any) *statement {
	s.args = append(s.args, v)
	if bytes.HasSuffix(s.text, equals) {
		s.beside = append(s.beside, beside{s.named, v})
	}
	if s.d == dbtx.PostgreSQL {
		s.text = strconv.AppendInt(append(s.text, '$'), int64(len(s.args)), 10)
		return s
	}
	s.text = append(s.text, '?')
	return s
}

// assign appends `column = value`; row is the name by which an Add reads the column, with a dot, or empty.
func (s *statement) assign(column string, v any, row string) *statement {
	return s.name(column).add(" = ").expression(column, v, row)
}

// expression appends what assign puts into the column.
func (s *statement) expression(column string, v any, row string) *statement {
	if a, ok := v.(addition); ok {
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

// current makes a SELECT read what is there now, and not what was there when the transaction began: on MySQL a plain one reads an old snapshot, in which the row
// that an UPDATE of the same transaction has met may look otherwise. The lock is a shared one, since many repeats may read at once.
func (s *statement) current() *statement {
	if s.d == dbtx.MySQL {
		s.add(" LOCK IN SHARE MODE")
	}
	return s
}
