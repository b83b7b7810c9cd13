package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
)

// Dialect is the kind of database.
type Dialect = dbtx.Dialect

// DefaultTable is the default name of the table of records. The names of the store's other tables
// begin with the name of this table.
const DefaultTable = table.DefaultTable

// Options configure a store. Nil and the zero value of each field are valid.
type Options struct {
	// Table is the name of the table of records; default [DefaultTable]. It consists of letters,
	// digits and underscores, at most 40, and does not begin with a digit. On PostgreSQL it may
	// begin with a schema: "billing.retrysafe_records". The schema has to exist.
	//
	// Without one, the store's first call looks for the tables in the search_path of its session,
	// on MySQL in its database, and all later calls use these tables, whatever a session says by
	// then. A program that changes the search_path of pooled sessions should name the schema.
	Table string
	// Now is the store's clock on SQLite, for tests; default time.Now. Servers have their own
	// clock, and New refuses Now for them.
	Now func() time.Time
	// LockWait limits how long a call waits for its turn to write, for a table that is locked as a
	// whole, and for a connection, unless its context ends earlier; default 5 s. Transactions of
	// the work (RunTx) wait for a connection as long as their context lasts. If a server hangs in
	// the middle of a call whose context does not end, the call takes up to three times as long.
	LockWait time.Duration
	// StoreDB is the pool for the store's own calls: claims, heartbeats, finishing calls and
	// lookups. Transactions of the work, and the claims in them, use New's db. If slow transactions
	// use up that pool, heartbeats wait for a connection and leases can be lost. A second pool of a
	// few connections prevents this. It must reach the same tables. Default: New's db. StoreDB must
	// be nil on SQLite, which has one writer whatever the connections.
	StoreDB *sql.DB
	// NoGroupCommit commits each call separately. By default, the calls that arrive during a commit
	// form the next transaction together, so many callers wait for one sync of the disk. Lookups
	// are grouped in the same way.
	NoGroupCommit bool
	// Listen subscribes to a channel of the database, so that waiters for an attempt of another
	// process need not poll as often. It calls on with an empty message once it listens, and then
	// with each message. It returns when ctx ends, or when it cannot listen any more. For
	// PostgreSQL use adapters/pgxidem.Listen. If Listen is nil, waiters poll. All processes that
	// use the table need it, since a store with Listen also publishes: one statement after each
	// finished attempt that a caller may wait for.
	Listen func(ctx context.Context, channel string, on func(message string)) error
	// Listing lets Migrate create an index on the parts of keys. With it, the records of a tenant,
	// or of one of its operations, are listed without reading all records. It takes the space of
	// the keys once more, and some time of each new key (a sixth on SQLite). Lookups of a key do
	// not need it, nor do listings of unfinished records and those in doubt.
	//
	// On a large PostgreSQL table create the index before, as Migrate's would lock the table:
	// CREATE INDEX CONCURRENTLY retrysafe_records_listing ON retrysafe_records (parts).
	Listing bool
	// Logger gets the store's rare warnings; default slog.Default().
	Logger *slog.Logger
}

// checkOptions refuses options that a kind of database does not have.
func (o *Options) checkOptions(db *sql.DB, d Dialect) error {
	switch {
	case db == nil:
		return errors.New("sqlstore: New needs a database; open one with sql.Open")
	case d < SQLite || d > MySQL:
		return fmt.Errorf("sqlstore: dialect %d is unknown; use sqlstore.SQLite, sqlstore.PostgreSQL or sqlstore.MySQL", d)
	case d != SQLite && o.Now != nil:
		return errors.New("sqlstore: a server has a clock of its own; leave Options.Now empty")
	case d == SQLite && o.StoreDB != nil:
		return errors.New("sqlstore: SQLite has one writer, and a second pool would wait for it as well; leave Options.StoreDB nil")
	case d != PostgreSQL && o.Listen != nil:
		return fmt.Errorf("sqlstore: %s cannot publish changes; leave Options.Listen empty", d)
	case o.LockWait < 0:
		return fmt.Errorf("sqlstore: LockWait is %v; leave it zero for 5s, or set a limit of your own", o.LockWait)
	}
	schema, table := table.SplitTable(cmp.Or(o.Table, DefaultTable))
	if schema != "" || strings.HasPrefix(o.Table, ".") {
		if d != PostgreSQL {
			return fmt.Errorf("sqlstore: table name %q: %s has no schemas; leave out what is before the dot", o.Table, d)
		}
		if err := sqlkit.CheckTable(schema, maxSchemaName); err != nil {
			return fmt.Errorf("sqlstore: the schema of Table: %w", err)
		}
	}
	if err := sqlkit.CheckTable(table, maxTableName); err != nil {
		return fmt.Errorf("sqlstore: %w", err)
	}
	return nil
}

// maxTableName is the most bytes of a table's name. It leaves room for suffixes.
const maxTableName = 40

// maxSchemaName is the most bytes of a name in PostgreSQL.
const maxSchemaName = 63

// The dialects.
const (
	SQLite     = dbtx.SQLite
	PostgreSQL = dbtx.PostgreSQL
	MySQL      = dbtx.MySQL // also for MariaDB
)
