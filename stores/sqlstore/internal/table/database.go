// Package table hides how records are kept in a database: the SQL of each kind of database, the
// layout of a row, how a transaction waits for others and how often it is tried, and what an error
// of a driver means.
//
// A [Database] has the tables, and its [Backend] the kind of database. A [Change] is a call for one
// record on its way through a transaction.
package table

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Database is access to a store's tables: the pools, the statements and the clock. Everything else
// in this package is built on it.
type Database struct {
	Pool    *sql.DB
	Calls   *sql.DB // for the store's own calls; often pool
	Dialect dbtx.Dialect
	Table   string
	// schema has the tables, if Options.Table names it. PostgreSQL.
	schema string
	// Statements name the schema or the database once it is known.
	Statements  atomic.Pointer[Statements]
	SchemaKnown atomic.Bool // Statements name it, or cannot
	// Cache has prepared statements. SQLite.
	Cache        *StatementCache
	Clock        func() time.Time
	LockWait     time.Duration
	logger       *slog.Logger
	waitedText   string      // the error text of a call that waited in vain
	Backend      Backend     // the kind of database
	skewReported atomic.Bool // a difference of clocks was reported
	// writerTurn is held by the one call of this store that writes to a SQLite file; the others
	// queue in order of arrival.
	writerTurn  chan struct{}
	journalMode atomic.Pointer[string] // the journal mode of a SQLite file; nil: unknown
	syntax      mysqlSyntax            // MySQL
	// clockAhead is by how many microseconds the server's clock was last seen ahead of this
	// machine's
	clockAhead atomic.Int64
}

// Settings are what a store sets for its database. The zero value of a field has a default.
type Settings struct {
	Table    string
	Clock    func() time.Time // SQLite
	LockWait time.Duration
	Calls    *sql.DB
	Logger   *slog.Logger
}

// DefaultTable is the default name of the table of records.
const DefaultTable = "retrysafe_records"

// Open returns access to the tables; it does not touch the database.
func Open(pool *sql.DB, d dbtx.Dialect, o Settings) *Database {
	schema, table := SplitTable(cmp.Or(o.Table, DefaultTable))
	db := &Database{
		Pool: pool, Calls: cmp.Or(o.Calls, pool), Dialect: d, Table: table, schema: schema, Clock: o.Clock,
		LockWait: cmp.Or(o.LockWait, 5*time.Second), logger: cmp.Or(o.Logger, slog.Default()), waitedText: serverWaits, writerTurn: make(chan struct{}, 1),
		Cache: newStatementCache(),
	}
	db.UseSchema(schema)
	switch d {
	case dbtx.SQLite:
		db.Backend, db.waitedText = sqlite{db}, sqliteWaits
	case dbtx.PostgreSQL:
		db.Backend = postgres{server{db, postgresKind{db.Table}, newKeyTurns(), postgresRows{db}}}
	case dbtx.MySQL:
		db.Backend = mysql{server{db, mysqlKind{db.Table, db.LockWait, &db.syntax, new(atomic.Bool)}, newKeyTurns(), mysqlRows{db}}}
	}
	if db.Clock == nil {
		db.Clock = func() time.Time { return time.Now().Add(time.Duration(db.clockAhead.Load()) * time.Microsecond) }
	}
	return db
}

// UseSchema writes a schema (PostgreSQL) or a database (MySQL) into all statements. Empty: the
// session decides. SQLite looks for tables in its own file.
func (d *Database) UseSchema(schema string) {
	var q Statements
	switch d.Dialect {
	case dbtx.SQLite:
		q = sqliteStatements(d.Table)
	case dbtx.PostgreSQL:
		q = postgresStatements(schema, d.Table)
	case dbtx.MySQL:
		q = mysqlStatements(schema, d.Table)
	}
	d.Statements.Store(&q)
	d.SchemaKnown.Store(schema != "" || d.Dialect == dbtx.SQLite)
}

// Slack is how long a call waits for the server after its own time limit.
const Slack = time.Second

// StatementCache has the store's frequent statements that take longer to parse than to execute.
// database/sql prepares each once for each connection. They are closed with the database.
type StatementCache struct {
	mu         sync.RWMutex
	statements map[string]*sql.Stmt
	preparing  chan struct{} // has room for the one call that prepares; the others queue here
}

func newStatementCache() *StatementCache {
	return &StatementCache{statements: make(map[string]*sql.Stmt), preparing: make(chan struct{}, 1)}
}

// PrepareAll prepares the missing statements. It takes a connection for a moment, so a caller that
// holds one might wait for ever. It waits for that, and for other calls that prepare, within ctx.
func (c *StatementCache) PrepareAll(ctx context.Context, d *Database, queries ...string) (PreparedStatements, error) {
	got := make(PreparedStatements, len(queries))
	if c.addPrepared(got, queries) {
		return got, nil
	}
	wait, cancel := d.NewPatience(ctx, time.Time{})
	defer cancel()
	select {
	case c.preparing <- struct{}{}:
		defer func() { <-c.preparing }()
	case <-wait.Done():
		return nil, wait.sqliteError(wait.Err())
	}
	c.addPrepared(got, queries)
	for _, query := range queries {
		if got[query] != nil {
			continue
		}
		statement, err := d.Pool.PrepareContext(wait, query) //nolint:sqlclosecheck // it ends with the database
		if err != nil {
			return nil, wait.sqliteError(err)
		}
		c.mu.Lock()
		c.statements[query], got[query] = statement, statement
		c.mu.Unlock()
	}
	return got, nil
}

// addPrepared adds the prepared statements to got, and reports whether that is all of them.
func (c *StatementCache) addPrepared(got PreparedStatements, queries []string) (all bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all = true
	for _, query := range queries {
		if s := c.statements[query]; s != nil {
			got[query] = s
		} else {
			all = false
		}
	}
	return all
}

// PreparedStatements are prepared statements by their text.
type PreparedStatements map[string]*sql.Stmt

// Within returns a transaction that uses them.
func (p PreparedStatements) Within(tx *sql.Tx) PreparedTx { return PreparedTx{tx, p} }

// PreparedTx is a transaction with some prepared statements.
type PreparedTx struct {
	*sql.Tx
	statements PreparedStatements
}

func (p PreparedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := p.statements[query]; s != nil {
		return p.StmtContext(ctx, s).ExecContext(ctx, args...) //nolint:sqlclosecheck // it ends with the transaction
	}
	return p.Tx.ExecContext(ctx, query, args...)
}

func (p PreparedTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := p.statements[query]; s != nil {
		return p.StmtContext(ctx, s).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // it ends with the transaction
	}
	return p.Tx.QueryRowContext(ctx, query, args...)
}

func (p PreparedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := p.statements[query]; s != nil {
		return p.StmtContext(ctx, s).QueryContext(ctx, args...) //nolint:sqlclosecheck // its caller does
	}
	return p.Tx.QueryContext(ctx, query, args...)
}

// pooledStatement runs a prepared statement on any connection.
type pooledStatement struct{ statement *sql.Stmt }

func (p pooledStatement) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	return p.statement.QueryContext(ctx, args...)
}

// Backend is what differs between the kinds of database: how to access the tables, and what an
// error means.
type Backend interface {
	// ReadTables runs f, which changes nothing, without opening a transaction. It may run f again.
	ReadTables(ctx context.Context, how ReadSize, f func(context.Context, sqlkit.Execer) error) error
	// WriteTables runs f in a transaction, and commits it if f says so. It may run f again. Calls
	// with the same id take turns. It does not commit after notAfter on the store's clock; zero: no
	// limit.
	WriteTables(ctx context.Context, id RecordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (commit bool, err error)) error
	// ChangeMany makes changes of different keys in one transaction. It leaves out changes whose
	// caller has left, and those that it marks to be made alone. An error that is not a
	// *CommitError means that no change was made.
	ChangeMany(changes []*Change) error
	// LookUpMany reads the records of many lookups without a lock.
	LookUpMany(ctx context.Context, looks []*Lookup) error
	// CheckSettings refuses an unusable database, and warns about settings that can lose answered
	// calls.
	CheckSettings(ctx context.Context) error
	// CheckDurability returns an error that says how a crash or a failover can lose committed
	// calls.
	CheckDurability(ctx context.Context) error
	// MigrateTables runs f, which creates tables or indexes, in a transaction of at most limit,
	// while no other process does so. It checks for missing rights.
	MigrateTables(ctx context.Context, limit time.Duration, f func(context.Context, sqlkit.Execer) error) error
	// addAdvice adds advice to a driver's error.
	addAdvice(step string, err error) error
	// skewCause says whose clock is wrong, and why, if a record is from the future.
	skewCause() string
}

// ReadSize is the expected length of a read.
type ReadSize uint8

// The sizes.
const (
	OneRow  ReadSize = iota + 1
	AnyRows          // any number of rows
)

// lostAnswer is what the loss of a commit means to callers.
const lostAnswer = "what was answered may run again"

// warnOfLosses logs the settings with which a crash can lose answered calls.
func (d *Database) warnOfLosses(ctx context.Context, db sqlkit.Execer) error {
	found, err := sqlkit.Losses(ctx, db, d.Dialect)
	for _, loss := range found {
		d.logger.Warn("sqlstore: "+loss.Text(lostAnswer), "table", d.Table)
	}
	return err
}

// refuseLosses returns an error if there is such a setting.
func (d *Database) refuseLosses(ctx context.Context, db sqlkit.Execer) error {
	found, err := sqlkit.Losses(ctx, db, d.Dialect)
	if err != nil || len(found) == 0 {
		return err
	}
	return StateError("sqlstore: " + found[0].Text(lostAnswer))
}

// Patience is the caller's context, limited to the longest wait for a lock.
type Patience struct {
	context.Context
	Caller context.Context
	Limit  time.Duration
	// the longest wait for a lock on a server, if shorter than limit; zero: the same
	lockLimit time.Duration
}

// NewPatience starts the wait now. notAfter is on the store's clock; zero: it sets no limit.
func (d *Database) NewPatience(ctx context.Context, notAfter time.Time) (p Patience, cancel context.CancelFunc) {
	limit := d.LockWait
	if !notAfter.IsZero() {
		limit = min(limit, max(0, notAfter.Sub(d.Clock()))+time.Millisecond)
	}
	return patienceWithin(ctx, limit)
}

// LongestWait is a wait of which two can be added.
const LongestWait = 100 * 365 * 24 * time.Hour

// patienceWithin starts a wait of at most limit.
func patienceWithin(ctx context.Context, limit time.Duration) (p Patience, cancel context.CancelFunc) {
	p = Patience{Caller: ctx, Limit: limit}
	p.Context, cancel = context.WithTimeout(ctx, limit)
	return p, cancel
}

// waitedError returns the error of a call that has waited and changed nothing.
func (p Patience) waitedError() error {
	return &LockError{Ended: p.Caller.Err(), after: p.Limit, text: serverWaits}
}
