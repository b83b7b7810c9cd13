package guard

import (
	"slices"
	"strings"
	"unicode"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// maxName is the length in bytes of the longest identifier that all three databases accept.
// PostgreSQL cuts longer ones, which could then name another table.
const maxName = 63

// checkName returns an error if s cannot be a column, or a part of a table's name. Names come from
// the program and not from a request; the check is a second line of defence.
func checkName(what, s string) error {
	switch {
	case s == "":
		return misuseError("the name of %s is empty; set it", what)
	case len(s) > maxName:
		return misuseError("the name of %s has %d bytes, at most %d are taken by all databases; use a shorter one", what, len(s), maxName)
	}
	for i, c := range s {
		if c == '_' || unicode.IsLetter(c) || i > 0 && (c == '$' || unicode.IsDigit(c)) {
			continue
		}
		return misuseError("%q is no name of %s: it is made of letters, digits, _ and $, and begins with a letter or _; write it without quotes", s, what)
	}
	return nil
}

// splitTable returns the schema, if there is one, and the table.
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

// quoteName quotes a checked name. On SQLite it uses `…` and not "…", because SQLite reads "…" as a
// text if there is no such column.
func quoteName(d dbtx.Dialect, name string) string {
	if d == dbtx.PostgreSQL {
		return `"` + name + `"`
	}
	return "`" + name + "`"
}

func quoteTable(d dbtx.Dialect, s string) string {
	schema, table := splitTable(s)
	if schema == "" {
		return quoteName(d, table)
	}
	return quoteName(d, schema) + "." + quoteName(d, table)
}

// sameName reports whether two names can be the same column: MySQL and SQLite ignore case.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }

func hasName(all []string, name string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return sameName(s, name) })
}
