package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
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

// queries are the SQL statements of one store. The comments list the arguments in order.
type queries struct {
	newest int      // the schema version that this build uses
	schema []string // creates the tables
	// indexKeys creates the index of Options.Listing. hasIndex returns one row, the number of such
	// indexes; empty: indexKeys does nothing if there is one. indexOnline creates the index while
	// others write; empty: the database cannot.
	indexKeys, hasIndex, indexOnline string
	// badIndex is like hasIndex, for indexes that exist and cannot be used, since the statement
	// that makes them was interrupted or still runs; dropBad removes one. Empty: there are none.
	badIndex, dropBad string
	// otherIndex is like hasIndex, for anything that has the name of that index. If there is one
	// and hasIndex finds none, its name is in use; renameOther frees it.
	otherIndex, renameOther string
	// onlineWaits says, for an error, for what indexOnline waits while calls wait for it.
	onlineWaits string
	// resumes: schema can be run over existing tables, and must be if the tables have no version. A
	// database that commits after each CREATE TABLE can stop half way.
	resumes bool
	// version returns the version of the tables.
	version string
	// where returns the schema or the database of the tables, or no row. Servers.
	where string
	// exists returns one row: the number of tables.
	exists string
	// touch makes a write without effect, to find out whether writing is possible and rights are
	// missing.
	touch []string
	// lock takes the write lock and changes nothing, since a transaction of database/sql begins
	// without it. SQLite.
	lock string
	// load, loadToWrite: id. They return one row, whether or not there is a record. The third
	// column is the server's time, or NULL.
	load, loadToWrite string
	// loadMany, loadManyToWrite: ids. The ids are an array on PostgreSQL, else a list whose single
	// placeholder is to be repeated. They return a row for each existing record, or one row without
	// an id. The fourth column is the id. loadManyToWrite skips rows that another transaction has
	// locked: PostgreSQL.
	loadMany, loadManyToWrite string
	// putMany, makeMany: like put and make for many rows, each with the columns of inserted. On
	// PostgreSQL they take an array for each column, and makeMany returns the ids of the new rows.
	putMany, makeMany string
	// put overwrites an existing row: the columns of stored, then id. make inserts a new one: the
	// columns of inserted.
	put, make string
	// made reports whether make or makeUsage has inserted a row.
	made func(sql.Result) (bool, error)
	// putSame is like put, if the record is still the same: the columns of stored, then id, owner,
	// fence, state, lease_end, updated and data of the record before. SQLite.
	putSame string
	// finish: the columns of finished, then id, owner and fence of the attempt.
	finish string
	// finishOne is finish as a statement that fails, by a division by zero, if there is no such
	// row. Empty: the database has none.
	finishOne string
	// claimWithin inserts a record in progress if there is none, and waits for locks as long as its
	// first argument says: the lock timeout, then those of claimArgs. It returns the fence and the
	// creation time (NULL: there was one). PostgreSQL.
	claimWithin string
	// claimAt inserts a record in progress whose fence and creation time are its first argument:
	// the time, then those of claimArgs. It inserts nothing if there is one, if a removed record
	// had a larger fence, or if the connection has another file attached. SQLite.
	claimAt string
	// claimOnce is like claimWithin, at READ COMMITTED and without a lock timeout: those of
	// claimArgs. It fails if there is a record, and inserts nothing if a removed record had a
	// larger fence. The creation time is its last id. MySQL.
	claimOnce string
	// limit: how long the transaction waits for locks from now on. It returns a row with the
	// previous limit and one more column. PostgreSQL.
	limit string
	// loadToJoin, loadNow: like loadToWrite, in the session of another party's transaction. loadNow
	// fails if it would have to wait: MySQL.
	loadToJoin, loadNow string
	// loadUnlocked: like loadToJoin, without a lock. waitToJoin limits the lock waits of the
	// session, and waitAsBefore restores them. MySQL.
	loadUnlocked, waitAsBefore string
	waitToJoin                 func(wait, table time.Duration) string
	// makeToJoin: like make. On MySQL it fails if there is a record; duplicate reports whether an
	// error means that.
	makeToJoin string
	duplicate  func(error) bool
	// held reports whether a claim failed because another party's transaction has the key.
	held func(error) bool
	// left returns one row: whether the session is outside the transaction of the claim, since the
	// work has ended it. leftAt: its argument is the time of the claim. Servers.
	left   string
	leftAt bool
	// confirm: id. It writes the record unchanged, so that there is something to commit.
	confirm string
	// tell publishes: channel, messages as an array. PostgreSQL.
	tell string
	// list is a query for records that have not expired, without its other conditions: time.
	list string
	// table is the name of the table of records, quoted.
	table string
	// expired: time, limit.
	expired string
	// remove: id, time. It returns the fence. SQLite.
	remove string
	// removeMany: time, limit. It returns the number of removed records and their largest fence.
	// PostgreSQL.
	removeMany string
	// lockOld: n keys, time. It returns the keys and fences of those that are still expired.
	// dropOld: n keys, time. MySQL.
	lockOld, dropOld func(n int) string
	// floor returns the largest fence of a removed record. PostgreSQL.
	floor string
	// raise: fence.
	raise string
	// loadUsage, loadUsageToWrite: id. They return one row, whether or not there are counts. The
	// second column is the server's time, or NULL.
	loadUsage, loadUsageToWrite string
	// putUsage, makeUsage: id, namespace, tenant, expires, counts.
	putUsage, makeUsage string
	// dropUsage: id.
	dropUsage string
	// expiredUsage: time.
	expiredUsage string
	// removeUsage: time, limit.
	removeUsage string
	// lockOldUsage: time, limit. It returns the keys. dropOldUsage: n keys. Both replace
	// removeUsage on MySQL.
	lockOldUsage string
	dropOldUsage func(n int) string

	// contains is a condition that the column parts contains a value.
	contains string
	// numbered returns a statement with the database's placeholders in place of question marks.
	numbered func(string) string
}

// finishing returns the statement that overwrites the row of an attempt.
func finishing(table string) string {
	return `UPDATE ` + table + ` SET ` + strings.Join(finished, " = ?, ") + ` = ? WHERE id = ? AND owner = ? AND fence = ? AND state = 2`
}

var (
	// inserted are the columns of a new row, in the order of insertArgs.
	inserted = slices.Concat([]string{"id", "parts"}, stored)
	// stored are the columns that every change of a record writes, in the order of rowArgs.
	stored = slices.Concat([]string{"owner", "fence"}, finished)
	// finished are the columns that an attempt writes, in the order of finishArgs.
	finished = []string{"state", "lease_end", "expires", "updated", "data", "answer"}
)

// selected are the columns that are read, in the order of rowScan. They are zero if there is no
// record.
const selected = `r.owner, coalesce(r.fence, 0), coalesce(r.state, 0), coalesce(r.lease_end, 0), coalesce(r.expires, 0), coalesce(r.updated, 0), r.data, `

// updating returns the statement that overwrites an existing row.
func updating(table string) string {
	return `UPDATE ` + table + ` SET ` + strings.Join(stored, " = ?, ") + ` = ? WHERE id = ?`
}

// many returns loadManyToWrite, or loadMany.
func (q *queries) many(locks bool) string {
	if locks {
		return q.loadManyToWrite
	}
	return q.loadMany
}

// unlocked returns the statement that reads a record in a transaction, without a lock: id.
func (q *queries) unlocked() string { return cmp.Or(q.loadUnlocked, q.load) }

// claimsFirst reports whether one statement claims a key without a record, before it is looked at.
func (q *queries) claimsFirst() bool { return q.claimWithin != "" || q.claimAt != "" }

// splitTable splits schema.table.
func splitTable(name string) (schema, table string) {
	if schema, table, ok := strings.Cut(name, "."); ok {
		return schema, table
	}
	return "", name
}

// withinSchema returns the quoted beginning of the name of a table, or nothing.
func withinSchema(quote, schema string) string {
	if schema == "" {
		return ""
	}
	return quote + schema + quote + "."
}

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
