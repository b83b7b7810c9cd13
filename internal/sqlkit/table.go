package sqlkit

import (
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// CheckTable returns an error unless name is a valid name of a table of at most this many bytes:
// one that [Quote] can quote, and that nothing has to escape.
func CheckTable(name string, most int) error {
	ok := name != "" && len(name) <= most
	for i, c := range []byte(name) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		ok = ok && (letter || i > 0 && c >= '0' && c <= '9')
	}
	if !ok || strings.HasPrefix(strings.ToLower(name), "sqlite_") {
		return fmt.Errorf("table name %q: use letters, digits and underscores, at most %d, no digit and no sqlite_ first", name, most)
	}
	return nil
}

// TableExists returns the query that counts the tables of this name, 0 or 1, in the schema or
// database of the session. The name was checked by [CheckTable].
func TableExists(d dbtx.Dialect, name string) string {
	return Choose(d,
		`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '`+name+`' COLLATE NOCASE`,
		// Not to_regclass: it may have cached, before a lock was taken, that there is no table.
		`SELECT count(*) FROM pg_catalog.pg_class WHERE relname = '`+name+`' AND pg_catalog.pg_table_is_visible(oid)`,
		`SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()
		AND IF(@@lower_case_table_names = 0, CAST(table_name AS BINARY) = '`+name+`', table_name = '`+name+`')`)
}
