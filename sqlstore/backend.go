package sqlstore

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// backend is what differs between the kinds of database: how to access the tables, and what an
// error means.
type backend interface {
	// read runs f, which changes nothing, without opening a transaction. It may run f again.
	read(ctx context.Context, how span, f func(context.Context, sqlkit.Execer) error) error
	// write runs f in a transaction, and commits it if f says so. It may run f again. Calls with
	// the same id take turns. It does not commit after notAfter on the store's clock; zero: no
	// limit.
	write(ctx context.Context, id recordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (commit bool, err error)) error
	// together makes changes of different keys in one transaction. It leaves out changes whose
	// caller has left, and those that it marks to be made alone. An error that is not a
	// *commitError means that no change was made.
	together(changes []*change) error
	// see reads the records of many lookups.
	see(ctx context.Context, of []*sight) error
	// settings refuses an unusable database, and warns about settings that can lose answered calls.
	settings(ctx context.Context) error
	// keeps returns an error that says how a crash or a failover can lose committed calls.
	keeps(ctx context.Context) error
	// migrate runs f, which creates tables or indexes, in a transaction of at most limit, while no
	// other process does so. It checks for missing rights.
	migrate(ctx context.Context, limit time.Duration, f func(context.Context, sqlkit.Execer) error) error
	// explain adds advice to a driver's error.
	explain(step string, err error) error
	// insertsFirst reports whether a statement that inserts many rows tells which were there.
	insertsFirst() bool
	// skew says whose clock is wrong, and why, if a record is from the future.
	skew() string
}

// span is the expected length of a read.
type span uint8

const (
	brief span = iota + 1 // one row
	long                  // any number of rows
)
