package sqlstore

import (
	"context"
	"time"
)

// backend is what each kind of database does in its own way: how a step gets at the tables, and what an error means.
type backend interface {
	// read runs f, which changes nothing, outside of any transaction of its own. f may be run again.
	read(ctx context.Context, how span, f func(context.Context, execer) error) error
	// write runs f in a transaction, which is committed where f says so; f may be run again. Calls with one id take turns. What comes too
	// late for notAfter, on the store's clock, is not committed; zero: no limit.
	write(ctx context.Context, id recordID, notAfter time.Time, f func(context.Context, execer) (commit bool, err error)) error
	// settings refuses a database that cannot be used, and warns of settings under which what was answered may be lost.
	settings(ctx context.Context) error
	// alone keeps others from making the same tables, until the transaction ends, and looks for missing rights.
	alone(ctx context.Context, w execer) error
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
	// version: that of the tables.
	version string
	// exists: one row, the number of tables.
	exists string
	// touch writes without a change, to learn whether that is possible.
	touch string
	// lock takes the write lock and changes nothing: a transaction of database/sql begins without one. SQLite.
	lock string
	// load, loadToWrite: id. One row, whether or not there is a record. The third column is the server's time, or NULL.
	load, loadToWrite string
	// put, make: id, the parts, the columns of a row. put writes over what is there, make where nothing was.
	put, make string
	// finish: the columns of a row, then id, owner and fence of the attempt. SQLite.
	finish string
	// list: without its conditions.
	list string
	// expired: time, limit.
	expired string
	// remove: id, time; returns the fence. SQLite.
	remove string
	// removeMany: time, limit; returns how many were removed, and the largest fence of them. PostgreSQL.
	removeMany string
	// raise: fence.
	raise string
	// loadUsage, loadUsageToWrite: id. One row, whether or not something is counted. The second column is the server's time, or NULL.
	loadUsage, loadUsageToWrite string
	// putUsage, makeUsage: id, namespace, tenant, expires, counts.
	putUsage, makeUsage string
	// dropUsage: id.
	dropUsage string
	// expiredUsage: time.
	expiredUsage string
	// removeUsage: time, limit.
	removeUsage string

	// hide is written before a column that must not choose the index.
	hide string
	// text is a text as a column takes it.
	text func(string) any
	// numbered is a statement with its question marks as the database writes them.
	numbered func(string) string
}

// stored are the columns of a row that are written, in the order of rowArgs.
var stored = []string{
	"state", "attempt", "fence", "owner", "on_doubt", "issued", "fingerprint", "binding", "lease_end", "expires", "created", "updated",
	"not_after", "retention", "cause", "last_error", "answer_codec", "answer_kept", "answer_size", "answer_digest", "answer",
}

// selected are the columns that are read, in the order of rowScan. An absent record is zeros. Whether a value is NULL is
// asked for by itself, since drivers return an empty one and none alike. Text stands there as it is: of an expression some drivers
// would make a time if it looks like one.
const selected = `coalesce(r.state, 0), coalesce(r.attempt, 0), coalesce(r.fence, 0), r.owner, coalesce(r.on_doubt, 0),
  coalesce(r.issued, 0), r.fingerprint, r.fingerprint IS NULL, r.binding, r.binding IS NULL, coalesce(r.lease_end, 0),
  coalesce(r.expires, 0), coalesce(r.created, 0), coalesce(r.updated, 0), coalesce(r.not_after, 0), coalesce(r.retention, 0),
  r.cause, r.last_error, r.answer_codec, coalesce(r.answer_kept, 0),
  coalesce(r.answer_size, 0), r.answer_digest, `
