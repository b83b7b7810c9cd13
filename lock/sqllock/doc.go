// Package sqllock keeps locks in a database: as leases in a table ([NewTable]) of PostgreSQL,
// MySQL, MariaDB or SQLite, or as locks of database sessions ([NewSession]) of PostgreSQL, MySQL or
// MariaDB. It imports no driver.
//
//	locks, err := sqllock.NewTable(db, dbtx.PostgreSQL, nil)
//	err = locks.Migrate(ctx) // once, or run SchemaSQL
//	locker := lock.New(locks, nil)
//
// The table is the one to begin with. Its leases run by the database's clock, it works through
// every pooler, and needs a connection for the time of a call only. Waiters of other processes look
// again after 25 to 250 ms; those of this process are woken by the release.
//
// A session lock needs a connection for as long as it is held or waited for, and its waiters are
// woken by the server. It is gone at once when the server ends the connection, for whatever reason,
// and the holder is told with its next heartbeat, a third of a lease later: in between another one
// may have it. Fences tell the two apart.
//
// Fences are the greater of the one before and the database's clock in microseconds. They are kept
// in the table behind the release, for a day ([Options].Remember), and a name that was forgotten
// begins with the clock: so they go back only where the clock goes back by more than that, or the
// database forgets what it has committed, as it does after a crash with fsync or its like off, and
// after a failover to a replica that had not got it.
package sqllock
