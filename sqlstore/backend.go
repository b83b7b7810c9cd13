package sqlstore

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// backend is what each kind of database does in its own way: how a step gets at the tables, and
// what an error means.
type backend interface {
	// read runs f, which changes nothing, outside of any transaction of its own. f may be run
	// again.
	read(ctx context.Context, how span, f func(context.Context, execer) error) error
	// write runs f in a transaction, which is committed where f says so; f may be run again. Calls
	// with one id take turns. What comes too late for notAfter, on the store's clock, is not
	// committed; zero: no limit.
	write(ctx context.Context, id recordID, notAfter time.Time, f func(context.Context, execer) (commit bool, err error)) error
	// together makes changes of different keys in one transaction, but for those whose caller has
	// left, and those that it marks as to be made alone. An error that is not a *commitError says
	// that none was made.
	together(changes []*change) error
	// see reads the records of many.
	see(ctx context.Context, of []*sight) error
	// settings refuses a database that cannot be used, and warns of settings under which what was
	// answered may be lost.
	settings(ctx context.Context) error
	// keeps says how what was committed can be lost, by a crash or a failover.
	keeps(ctx context.Context) error
	// alone runs f, which makes the tables, while nobody else does, and looks for missing rights.
	alone(ctx context.Context, w execer, f func() error) error
	// explain makes an error of the driver one that says what to do.
	explain(step string, err error) error
	// skew says whose clock is off where a record comes from the future, and why.
	skew() string
}

// span is how long a read takes.
type span uint8

const (
	brief span = iota + 1 // a row
	long                  // as many as there are
)

// queries are the statements of one store. Arguments stand in the order of the comments.
type queries struct {
	newest int      // the version of the schema that this build works on
	schema []string // makes the tables
	step   []string // makes the newest version of the one before; nil: there was none
	// resumes: schema may be run again over what is there, and has to be where the tables are there
	// without a version: a database that commits with each statement that makes a table can be left
	// half way.
	resumes bool
	// version: that of the tables.
	version string
	// exists: one row, the number of tables.
	exists string
	// touch writes without a change, to learn whether that is possible; also for missing rights.
	touch []string
	// lock takes the write lock and changes nothing: a transaction of database/sql begins without
	// one. SQLite.
	lock string
	// load, loadToWrite: id. One row, whether or not there is a record. The third column is the
	// server's time, or NULL.
	load, loadToWrite string
	// loadMany, loadManyToWrite: ids; as an array on PostgreSQL, else as a list whose one place is
	// to be repeated. A row for each record that is there, or one without an id; the fourth column
	// is its id. loadManyToWrite leaves out what somebody else has locked: PostgreSQL.
	loadMany, loadManyToWrite string
	// putMany, makeMany: as put and make, each column an array. PostgreSQL.
	putMany, makeMany string
	// put, make: id, the parts, the columns of a row. put writes over what is there, make where
	// nothing was.
	put, make string
	// made tells whether make or makeUsage has made a row.
	made func(sql.Result) (bool, error)
	// finish: the columns of a row, then id, owner and fence of the attempt. SQLite.
	finish string
	// claimSQL makes a record in progress where there is none, and tells its fence and when it was
	// made (NULL, or no row: there is one); claim are its values. nil: it takes more than one
	// statement. MySQL.
	claimSQL string
	claim    func(*joint) []any
	// limit: how long the transaction waits for locks from now on. A row with how long it did, and
	// one column more. PostgreSQL.
	limit string
	// loadToJoin, loadNow: as loadToWrite, in the session of somebody else's transaction. loadNow
	// fails where it would have to wait: MySQL.
	loadToJoin, loadNow string
	// loadUnlocked: as loadToJoin, without a lock. waitToJoin bounds the waits of the session, and
	// waitAsBefore puts them back. MySQL.
	loadUnlocked, waitAsBefore string
	waitToJoin                 func(time.Duration) string
	// makeToJoin: as make. On MySQL it fails where there is a record, with an error of which
	// duplicate is true.
	makeToJoin string
	duplicate  func(error) bool
	// held tells whether a claim failed since somebody else's transaction has the key.
	held func(error) bool
	// hold: id. It takes a shared lock in the name of the record, until the transaction ends; a row
	// if it has it. settle: id. It waits for all who have that lock. "": who writes has the whole
	// file.
	hold, settle string
	// confirm: id. It writes the record as it is, so that there is something to commit.
	confirm string
	// tell: channel, messages as an array. PostgreSQL.
	tell string
	// list: without its conditions.
	list string
	// expired: time, limit.
	expired string
	// remove: id, time; returns the fence. SQLite.
	remove string
	// removeMany: time, limit; returns how many were removed, and the largest fence of them.
	// PostgreSQL.
	removeMany string
	// lockOld: n keys, time; the keys and fences of those that are still expired. dropOld: n keys,
	// time. MySQL.
	lockOld, dropOld func(n int) string
	// raise: fence.
	raise string
	// loadUsage, loadUsageToWrite: id. One row, whether or not something is counted. The second
	// column is the server's time, or NULL.
	loadUsage, loadUsageToWrite string
	// putUsage, makeUsage: id, namespace, tenant, expires, counts.
	putUsage, makeUsage string
	// dropUsage: id.
	dropUsage string
	// expiredUsage: time.
	expiredUsage string
	// removeUsage: time, limit.
	removeUsage string
	// lockOldUsage: time, limit; the keys. dropOldUsage: n keys. In place of removeUsage on MySQL.
	lockOldUsage string
	dropOldUsage func(n int) string

	// hide is written before a column that must not choose the index.
	hide string
	// text is a text as a column takes it.
	text func(string) any
	// numbered is a statement with its question marks as the database writes them.
	numbered func(string) string
}

// finishing writes over the row of an attempt.
func finishing(table string) string {
	return `UPDATE ` + table + ` SET ` + strings.Join(stored, " = ?, ") + ` = ? WHERE id = ? AND owner = ? AND fence = ? AND state = 2`
}

// stored are the columns of a row that are written, in the order of rowArgs.
var stored = []string{
	"state", "attempt", "fence", "owner", "on_doubt", "issued", "fingerprint", "binding", "lease_end", "expires", "created", "updated",
	"not_after", "retention", "cause", "last_error", "worked", "answer_codec", "answer_kept", "answer_size", "answer_digest", "answer",
}

// selected are the columns that are read, in the order of rowScan. An absent record is zeros.
// Whether a value is NULL is asked for by itself, since drivers return an empty one and none alike.
// Text stands there as it is: of an expression some drivers would make a time if it looks like one.
const selected = `coalesce(r.state, 0), coalesce(r.attempt, 0), coalesce(r.fence, 0), r.owner, coalesce(r.on_doubt, 0),
  coalesce(r.issued, 0), r.fingerprint, r.fingerprint IS NULL, r.binding, r.binding IS NULL, coalesce(r.lease_end, 0),
  coalesce(r.expires, 0), coalesce(r.created, 0), coalesce(r.updated, 0), coalesce(r.not_after, 0), coalesce(r.retention, 0),
  r.cause, r.last_error, r.worked, r.answer_codec, coalesce(r.answer_kept, 0),
  coalesce(r.answer_size, 0), r.answer_digest, `
