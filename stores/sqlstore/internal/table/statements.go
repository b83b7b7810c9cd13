package table

import (
	"cmp"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Statements are the SQL statements of one store. The comments list the arguments in order.
type Statements struct {
	SchemaVersion int      // the schema version that this build uses
	CreateTables  []string // creates the tables
	// CreateIndex creates the index of Options.Listing. CountIndex returns one row, the number of
	// such indexes; empty: CreateIndex does nothing if there is one. CreateIndexOnline creates the
	// index while others write; empty: the database cannot.
	CreateIndex, CountIndex, CreateIndexOnline string
	// CountBadIndex is like CountIndex, for indexes that exist and cannot be used, since the
	// statement that makes them was interrupted or still runs; DropBadIndex removes one. Empty:
	// there are none.
	CountBadIndex, DropBadIndex string
	// CountOtherIndex is like CountIndex, for anything that has the name of that index. If there is
	// one and CountIndex finds none, its name is in use; RenameOtherIndex frees it.
	CountOtherIndex, RenameOtherIndex string
	// OnlineWaits says, for an error, for what CreateIndexOnline waits while calls wait for it.
	OnlineWaits string
	// Resumes: CreateTables can be run over existing tables, and must be if the tables have no
	// version. A database that commits after each CREATE TABLE can stop half way.
	Resumes bool
	// LoadVersion returns the version of the tables.
	LoadVersion string
	// FindSchema returns the schema or the database of the tables, or no row. Servers.
	FindSchema string
	// CountTables returns one row: the number of tables.
	CountTables string
	// TouchTables makes a write without effect, to find out whether writing is possible and rights
	// are missing.
	TouchTables []string
	// LockFile takes the write lock and changes nothing, since a transaction of database/sql begins
	// without it. SQLite.
	LockFile string
	// LoadRow, LockRow: id. They return one row, whether or not there is a record. The third
	// column is the server's time, or NULL.
	LoadRow, LockRow string
	// LoadRows, LockRows: ids. The ids are an array on PostgreSQL, else a list whose single
	// placeholder is to be repeated. They return a row for each existing record, or one row without
	// an id. The fourth column is the id. LockRows skips rows that another transaction has locked.
	LoadRows, LockRows string
	// UpdateRows, InsertRows: like UpdateRow and InsertRow for many rows, each with the columns of
	// inserted. On PostgreSQL they take an array for each column, and InsertRows returns the ids of
	// the new rows.
	UpdateRows, InsertRows string
	// UpdateRow overwrites an existing row: the columns of stored, then id. InsertRow inserts a new
	// one: the columns of inserted.
	UpdateRow, InsertRow string
	// TellsInserted: a statement that inserts many rows tells which were there.
	TellsInserted bool
	// HasInserted reports whether InsertRow or InsertUsage has inserted a row.
	HasInserted func(sql.Result) (bool, error)
	// UpdateSame is like UpdateRow, if the record is still the same: the columns of stored, then
	// id, owner, fence, state, lease_end, updated and data of the record before. SQLite.
	UpdateSame string
	// FinishAttempt: the columns of finished, then id, owner and fence of the attempt.
	FinishAttempt string
	// FinishOrFail is FinishAttempt as a statement that fails, by a division by zero, if there is
	// no such row. Empty: the database has none.
	FinishOrFail string
	// ClaimWithin inserts a record in progress if there is none, and waits for locks as long as its
	// first argument says: the lock timeout, then those of claimArgs. It returns the fence and the
	// creation time (NULL: there was one). PostgreSQL.
	ClaimWithin string
	// ClaimAt inserts a record in progress whose fence and creation time are its first argument:
	// the time, then those of claimArgs. It inserts nothing if there is one, if a removed record
	// had a larger fence, or if the connection has another file attached. SQLite.
	ClaimAt string
	// ClaimOnce is like ClaimWithin, at READ COMMITTED and without a lock timeout: those of
	// claimArgs. It fails if there is a record, and inserts nothing if a removed record had a
	// larger fence. The creation time is its last id. MySQL.
	ClaimOnce string
	// LimitWait: how long the transaction waits for locks from now on. It returns a row with the
	// previous limit and one more column. PostgreSQL.
	LimitWait string
	// LockToJoin, LockNow: like LockRow, in the session of another party's transaction. LockNow
	// fails if it would have to wait: MySQL.
	LockToJoin, LockNow string
	// LoadUnlocked: like LockToJoin, without a lock. LimitJoinWait limits the lock waits of the
	// session, and RestoreWait restores them. MySQL.
	LoadUnlocked, RestoreWait string
	LimitJoinWait             func(wait, table time.Duration) string
	// InsertToJoin: like InsertRow. On MySQL it fails if there is a record; IsDuplicate reports
	// whether an error means that.
	InsertToJoin string
	IsDuplicate  func(error) bool
	// IsHeld reports whether a claim failed because another party's transaction has the key.
	IsHeld func(error) bool
	// HasLeft returns one row: whether the session is outside the transaction of the claim, since
	// the work has ended it. HasLeftSince: its argument is the time of the claim. Servers.
	HasLeft      string
	HasLeftSince bool
	// ConfirmRow: id. It writes the record unchanged, so that there is something to commit.
	ConfirmRow string
	// NotifyEnds publishes: channel, messages as an array. PostgreSQL.
	NotifyEnds string
	// ListRecords is a query for records that have not expired, without its other conditions: time.
	ListRecords string
	// TableName is the name of the table of records, quoted.
	TableName string
	// FindExpired: time, limit.
	FindExpired string
	// RemoveOne: id, time. It returns the fence. SQLite.
	RemoveOne string
	// RemoveExpired: time, limit. It returns the number of removed records and their largest fence.
	// PostgreSQL.
	RemoveExpired string
	// LockExpired: n keys, time. It returns the keys and fences of those that are still expired.
	// RemoveLocked: n keys, time. MySQL.
	LockExpired, RemoveLocked func(n int) string
	// LoadFloor returns the largest fence of a removed record. PostgreSQL.
	LoadFloor string
	// RaiseFloor: fence.
	RaiseFloor string
	// LoadUsage, LockUsage: id. They return one row, whether or not there are counts. The
	// second column is the server's time, or NULL.
	LoadUsage, LockUsage string
	// UpdateUsage, InsertUsage: id, namespace, tenant, expires, counts.
	UpdateUsage, InsertUsage string
	// DeleteUsage: id.
	DeleteUsage string
	// FindExpiredUsage: time.
	FindExpiredUsage string
	// RemoveExpiredUsage: time, limit.
	RemoveExpiredUsage string
	// LockExpiredUsage: time, limit. It returns the keys. RemoveLockedUsage: n keys. Both replace
	// RemoveExpiredUsage on MySQL.
	LockExpiredUsage  string
	RemoveLockedUsage func(n int) string

	// PartsContain is a condition that the column parts contains a value.
	PartsContain string
	// Numbered returns a statement with the database's placeholders in place of question marks.
	Numbered func(string) string
}

// finishStatement returns the statement that overwrites the row of an attempt.
func finishStatement(table string) string {
	return `UPDATE ` + table + ` SET ` + strings.Join(finished, " = ?, ") + ` = ? WHERE id = ? AND owner = ? AND fence = ? AND state = 2`
}

var (
	// inserted are the columns of a new row, in the order of InsertArgs.
	inserted = slices.Concat([]string{"id", "parts"}, stored)
	// stored are the columns that every change of a record writes, in the order of RowArgs.
	stored = slices.Concat([]string{"owner", "fence"}, finished)
	// finished are the columns that an attempt writes, in the order of FinishArgs.
	finished = []string{"state", "lease_end", "expires", "updated", "data", "answer"}
)

// selected are the columns that are read, in the order of RowScan. They are zero if there is no
// record.
const selected = `r.owner, coalesce(r.fence, 0), coalesce(r.state, 0), coalesce(r.lease_end, 0), coalesce(r.expires, 0), coalesce(r.updated, 0), r.data, `

// updateStatement returns the statement that overwrites an existing row.
func updateStatement(table string) string {
	return `UPDATE ` + table + ` SET ` + strings.Join(stored, " = ?, ") + ` = ? WHERE id = ?`
}

// LoadWithoutLock returns the statement that reads a record in a transaction, without a lock: id.
func (q *Statements) LoadWithoutLock() string { return cmp.Or(q.LoadUnlocked, q.LoadRow) }

// ClaimsFirst reports whether one statement claims a key without a record, before it is looked at.
func (q *Statements) ClaimsFirst() bool { return q.ClaimWithin != "" || q.ClaimAt != "" }

// SplitTable splits schema.table.
func SplitTable(name string) (schema, table string) {
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

// SchemaOf returns the script that creates the tables under DefaultTable.
func SchemaOf(d dbtx.Dialect) string {
	return sqlkit.Choose(d, sqliteSchema, postgresSchema, mysqlSchema)
}
