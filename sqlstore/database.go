package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// database is access to a store's tables: the pools, the statements and the clock. Everything else
// in this package is built on it.
type database struct {
	pool    *sql.DB
	calls   *sql.DB // for the store's own calls; often pool
	dialect dbtx.Dialect
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
	// backend is the kind of database.
	backend backend
	skewed  atomic.Bool // a difference of clocks was reported
	// writer is held by the one call of this store that writes to a SQLite file; the others queue
	// in order of arrival.
	writer  chan struct{}
	journal atomic.Pointer[string] // the journal mode of a SQLite file; nil: unknown
	words   mysqlWords             // MySQL
	// ahead is by how many microseconds the server's clock was last seen ahead of this machine's
	ahead atomic.Int64
}

// settings are those of a store that concern its database. The zero value of a field has a default.
type settings struct {
	table    string
	clock    func() time.Time // SQLite
	lockWait time.Duration
	calls    *sql.DB
	logger   *slog.Logger
}

// defaultTable is the default name of the table of records.
const defaultTable = "retrysafe_records"

// openDatabase returns access to the tables; it does not touch the database.
func openDatabase(pool *sql.DB, d dbtx.Dialect, o settings) *database {
	schema, table := splitTable(cmp.Or(o.table, defaultTable))
	db := &database{
		pool: pool, calls: cmp.Or(o.calls, pool), dialect: d, table: table, schema: schema, clock: o.clock,
		lockWait: cmp.Or(o.lockWait, 5*time.Second), logger: cmp.Or(o.logger, slog.Default()), waits: serverWaits, writer: make(chan struct{}, 1),
		statements: newStatementCache(),
	}
	db.place(schema)
	switch d {
	case dbtx.SQLite:
		db.backend = sqlite{db}
	case dbtx.PostgreSQL:
		db.backend = newPostgres(db)
	case dbtx.MySQL:
		db.backend = newMySQL(db)
	}
	if d == dbtx.SQLite {
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
	case dbtx.SQLite:
		q = sqliteQueries(d.table)
	case dbtx.PostgreSQL:
		q = postgresQueries(schema, d.table)
	case dbtx.MySQL:
		q = mysqlQueries(schema, d.table)
	}
	d.current.Store(&q)
	d.placed.Store(schema != "" || d.dialect == dbtx.SQLite)
}

// slack is how long a call waits for the server after its own time limit.
const slack = time.Second

// statementCache has the store's frequent statements that take longer to parse than to execute.
// database/sql prepares each once for each connection. They are closed with the database.
type statementCache struct {
	mu  sync.RWMutex
	all map[string]*sql.Stmt
	one chan struct{} // has room for the one call that prepares; the others queue here
}

func newStatementCache() *statementCache {
	return &statementCache{all: make(map[string]*sql.Stmt), one: make(chan struct{}, 1)}
}

// prepare prepares the missing statements. It takes a connection for a moment, so a caller that holds
// one might wait for ever. It waits for that, and for other calls that prepare, within ctx.
func (c *statementCache) prepare(ctx context.Context, d *database, queries ...string) (map[string]*sql.Stmt, error) {
	got := make(map[string]*sql.Stmt, len(queries))
	if c.addPrepared(got, queries) {
		return got, nil
	}
	wait, cancel := d.patience(ctx, time.Time{})
	defer cancel()
	select {
	case c.one <- struct{}{}:
		defer func() { <-c.one }()
	case <-wait.Done():
		return nil, wait.sqliteError(wait.Err())
	}
	c.addPrepared(got, queries)
	for _, query := range queries {
		if got[query] != nil {
			continue
		}
		statement, err := d.pool.PrepareContext(wait, query) //nolint:sqlclosecheck // it ends with the database
		if err != nil {
			return nil, wait.sqliteError(err)
		}
		c.mu.Lock()
		c.all[query], got[query] = statement, statement
		c.mu.Unlock()
	}
	return got, nil
}

// addPrepared adds the prepared statements to got, and reports whether that is all of them.
func (c *statementCache) addPrepared(got map[string]*sql.Stmt, queries []string) (all bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all = true
	for _, query := range queries {
		if s := c.all[query]; s != nil {
			got[query] = s
		} else {
			all = false
		}
	}
	return all
}

// prepared is a transaction with some prepared statements.
type prepared struct {
	*sql.Tx
	statements map[string]*sql.Stmt
}

func (p prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := p.statements[query]; s != nil {
		return p.StmtContext(ctx, s).ExecContext(ctx, args...) //nolint:sqlclosecheck // it ends with the transaction
	}
	return p.Tx.ExecContext(ctx, query, args...)
}

func (p prepared) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := p.statements[query]; s != nil {
		return p.StmtContext(ctx, s).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // it ends with the transaction
	}
	return p.Tx.QueryRowContext(ctx, query, args...)
}

func (p prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := p.statements[query]; s != nil {
		return p.StmtContext(ctx, s).QueryContext(ctx, args...) //nolint:sqlclosecheck // its caller does
	}
	return p.Tx.QueryContext(ctx, query, args...)
}

// pooled runs a prepared statement on any connection.
type pooled struct{ statement *sql.Stmt }

func (p pooled) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	return p.statement.QueryContext(ctx, args...)
}

// backend is what differs between the kinds of database: how to access the tables, and what an
// error means.
type backend interface {
	// read runs f, which changes nothing, without opening a transaction. It may run f again.
	read(ctx context.Context, how span, f func(context.Context, sqlkit.Execer) error) error
	// write runs f in a transaction, and commits it if f says so. It may run f again. Calls with
	// the same id take turns. It does not commit after notAfter on the store's clock; zero: no
	// limit.
	write(ctx context.Context, id recordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (commit bool, err error)) error
	// changeMany makes changes of different keys in one transaction. It leaves out changes whose
	// caller has left, and those that it marks to be made alone. An error that is not a
	// *commitError means that no change was made.
	changeMany(changes []*change) error
	// changeOne makes a change in a transaction of its own.
	changeOne(c *change) error
	// lookAtMany reads the records of many lookups, and lookAtOne one record, without a lock.
	lookAtMany(ctx context.Context, looks []*look) error
	lookAtOne(ctx context.Context, id recordID) (loaded, error)
	// tellsInserted reports whether a statement that inserts many rows tells which were there.
	tellsInserted() bool
	// checkSettings refuses an unusable database, and warns about settings that can lose answered calls.
	checkSettings(ctx context.Context) error
	// keeps returns an error that says how a crash or a failover can lose committed calls.
	keeps(ctx context.Context) error
	// migrate runs f, which creates tables or indexes, in a transaction of at most limit, while no
	// other process does so. It checks for missing rights.
	migrate(ctx context.Context, limit time.Duration, f func(context.Context, sqlkit.Execer) error) error
	// explain adds advice to a driver's error.
	explain(step string, err error) error
	// skew says whose clock is wrong, and why, if a record is from the future.
	skew() string
}

// span is the expected length of a read.
type span uint8

const (
	brief span = iota + 1 // one row
	long                  // any number of rows
)

// lostAnswer is what the loss of a commit means to callers.
const lostAnswer = "what was answered may run again"

// warn logs the settings with which a crash can lose answered calls.
func (d *database) warn(ctx context.Context, db sqlkit.Execer) error {
	found, err := sqlkit.Losses(ctx, db, d.dialect)
	for _, loss := range found {
		d.logger.Warn("sqlstore: "+loss.Text(lostAnswer), "table", d.table)
	}
	return err
}

// refuseLosses returns an error if there is such a setting.
func (d *database) refuseLosses(ctx context.Context, db sqlkit.Execer) error {
	found, err := sqlkit.Losses(ctx, db, d.dialect)
	if err != nil || len(found) == 0 {
		return err
	}
	return stateError("sqlstore: " + found[0].Text(lostAnswer))
}

// patience is the caller's context, limited to the longest wait for a lock.
type patience struct {
	context.Context
	caller context.Context
	limit  time.Duration
	// the longest wait for a lock on a server, if shorter than limit; zero: the same
	lock time.Duration
}

// patience starts the wait now. notAfter is on the store's clock; zero: it sets no limit.
func (d *database) patience(ctx context.Context, notAfter time.Time) (p patience, cancel context.CancelFunc) {
	limit := d.lockWait
	if !notAfter.IsZero() {
		limit = min(limit, max(0, notAfter.Sub(d.clock()))+time.Millisecond)
	}
	return patienceOf(ctx, limit)
}

// longestWait is a wait of which two can be added.
const longestWait = 100 * 365 * 24 * time.Hour

// patienceOf starts a wait of at most limit.
func patienceOf(ctx context.Context, limit time.Duration) (p patience, cancel context.CancelFunc) {
	p = patience{caller: ctx, limit: limit}
	p.Context, cancel = context.WithTimeout(ctx, limit)
	return p, cancel
}

// inVain returns the error of a call that has waited and changed nothing.
func (p patience) inVain() error {
	return &lockError{ended: p.caller.Err(), after: p.limit, text: serverWaits}
}
