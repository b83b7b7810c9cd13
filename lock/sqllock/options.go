package sqllock

import (
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Dialect is the kind of database.
type Dialect = dbtx.Dialect

// The dialects.
const (
	SQLite     = dbtx.SQLite
	PostgreSQL = dbtx.PostgreSQL
	// MySQL also stands for MariaDB.
	MySQL = dbtx.MySQL
)

// DefaultTable is the name of the table if Options.Table is empty.
const DefaultTable = "retrysafe_locks"

// Options configures [NewTable] and [NewSession]. A nil *Options means the defaults.
type Options struct {
	// Table is the table for leases and fences; default [DefaultTable]. Lower-case letters, digits
	// and "_", up to 48.
	Table string
	// Remember is how long the fence of a name is kept after its last lease; default 24 h, at least
	// a minute.
	Remember time.Duration
}

// longestTable leaves room for the suffixes of indexes.
const longestTable = 48

func checkedOptions(o *Options, d Dialect) (Options, error) {
	var own Options
	if o != nil {
		own = *o
	}
	if own.Table == "" {
		own.Table = DefaultTable
	}
	if own.Remember == 0 {
		own.Remember = 24 * time.Hour
	}
	switch {
	case SchemaSQL(d) == "":
		return own, fmt.Errorf("sqllock: %v is not known; use dbtx.PostgreSQL, dbtx.MySQL or dbtx.SQLite", d)
	case sqlkit.CheckTable(own.Table, longestTable) != nil || own.Table != strings.ToLower(own.Table):
		return own, fmt.Errorf("sqllock: Table is %q; it must be 1 to %d lower-case letters, digits and \"_\", and not begin with a digit or sqlite_", own.Table, longestTable)
	case own.Remember < time.Minute:
		return own, fmt.Errorf("sqllock: Remember is %v; it must be a minute at least, so that fences do not go back", own.Remember)
	}
	return own, nil
}
