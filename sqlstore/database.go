package sqlstore

import (
	"cmp"
	"database/sql"
	"log/slog"
	"sync/atomic"
	"time"
)

// database is access to a store's tables: the pools, the statements and the clock. Everything else
// in this package is built on it.
type database struct {
	pool    *sql.DB
	calls   *sql.DB // for the store's own calls; often pool
	dialect Dialect
	table   string
	// schema has the tables, if Options.Table names it. PostgreSQL.
	schema string
	// statements of the store, which name the schema or the database once it is known
	current atomic.Pointer[queries]
	placed  atomic.Bool // current names it, or cannot
	// statements are prepared ones. SQLite.
	statements *statementCache
	clock      func() time.Time
	lockWait   time.Duration
	logger     *slog.Logger
	waits      string // the error text of a call that waited in vain
	// explain adds advice to a driver's error.
	explain func(step string, err error) error
	// writer is held by the one call of this store that writes to a SQLite file; the others queue
	// in order of arrival.
	writer  chan struct{}
	journal atomic.Pointer[string] // the journal mode of a SQLite file; nil: unknown
	words   mysqlWords             // MySQL
	// ahead is by how many microseconds the server's clock was last seen ahead of this machine's
	ahead atomic.Int64
}

func newDatabase(pool *sql.DB, d Dialect, o *Options) *database {
	schema, table := splitTable(cmp.Or(o.Table, DefaultTable))
	db := &database{
		pool: pool, calls: cmp.Or(o.StoreDB, pool), dialect: d, table: table, schema: schema, clock: o.Now,
		lockWait: cmp.Or(o.LockWait, 5*time.Second), logger: cmp.Or(o.Logger, slog.Default()), waits: serverWaits, writer: make(chan struct{}, 1),
		statements: newStatementCache(),
	}
	db.place(schema)
	if d == SQLite {
		db.waits = sqliteWaits
		if db.clock == nil {
			db.clock = time.Now
		}
		return db
	}
	db.clock = func() time.Time { return time.Now().Add(time.Duration(db.ahead.Load()) * time.Microsecond) }
	return db
}

// queries returns the statements.
func (d *database) queries() *queries { return d.current.Load() }

// place writes a schema (PostgreSQL) or a database (MySQL) into all statements. Empty: the session
// decides. SQLite looks for tables in its own file.
func (d *database) place(schema string) {
	var q queries
	switch d.dialect {
	case SQLite:
		q = sqliteQueries(d.table)
	case PostgreSQL:
		q = postgresQueries(schema, d.table)
	case MySQL:
		q = mysqlQueries(schema, d.table)
	}
	d.current.Store(&q)
	d.placed.Store(schema != "" || d.dialect == SQLite)
}

// slack is how long a call waits for the server after its own time limit.
const slack = time.Second
