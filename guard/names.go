package guard

import (
	"slices"
	"strings"
	"unicode"

	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// maxName is the longest identifier that all three databases take whole, in bytes: PostgreSQL cuts
// longer ones, and would name another table.
const maxName = 63

// checkName tells whether s may stand for a column, or for a part of a table's name. Names come
// from the program and not from a request; the check is for the day when one does.
func checkName(what, s string) error {
	switch {
	case s == "":
		return misuse("the name of %s is empty; set it", what)
	case len(s) > maxName:
		return misuse("the name of %s has %d bytes, at most %d are taken by all databases; use a shorter one", what, len(s), maxName)
	}
	for i, c := range s {
		if c == '_' || unicode.IsLetter(c) || i > 0 && (c == '$' || unicode.IsDigit(c)) {
			continue
		}
		return misuse("%q is no name of %s: it is made of letters, digits, _ and $, and begins with a letter or _; write it without quotes", s, what)
	}
	return nil
}

// splitTable is the schema, if one is named, and the table.
func splitTable(s string) (schema, table string) {
	if schema, table, ok := strings.Cut(s, "."); ok {
		return schema, table
	}
	return "", s
}

func checkTable(s string) error {
	schema, table := splitTable(s)
	if strings.Contains(s, ".") {
		if err := checkName("a schema", schema); err != nil {
			return err
		}
	}
	return checkName("a table", table)
}

// quote writes a checked name. SQLite gets `…` and not "…", which it takes for a text where there
// is no such column.
func quote(d dbtx.Dialect, name string) string {
	if d == dbtx.PostgreSQL {
		return `"` + name + `"`
	}
	return "`" + name + "`"
}

func quoteTable(d dbtx.Dialect, s string) string {
	schema, table := splitTable(s)
	if schema == "" {
		return quote(d, table)
	}
	return quote(d, schema) + "." + quote(d, table)
}

// sameName tells whether two names may be one column: MySQL and SQLite do not tell case apart.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }

func hasName(all []string, name string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return sameName(s, name) })
}
