package sqlstore

import (
	"cmp"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

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

// schemaOf returns the script that creates the tables under defaultTable.
func schemaOf(d dbtx.Dialect) string {
	return sqlkit.Choose(d, sqliteSchema, postgresSchema, mysqlSchema)
}
