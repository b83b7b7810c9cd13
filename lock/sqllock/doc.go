// Package sqllock keeps locks in a database: as leases in a table ([NewTable]) of PostgreSQL,
// MySQL, MariaDB or SQLite, or as locks of database sessions ([NewSession]) of PostgreSQL, MySQL or
// MariaDB. It imports no driver.
//
//	locks, err := sqllock.NewTable(db, dbtx.PostgreSQL, nil)
//	err = locks.Migrate(ctx) // once, or run SchemaSQL
//	locker := lock.New(locks, nil)
//
// Start with the table. Its leases use the database's clock, it works through every pooler, and it
// needs a connection only during a call. Waiters in other processes poll every 25 to 250 ms; a
// release in this process wakes its waiters at once.
//
// A session lock needs a connection for as long as it is held or waited for, and the server wakes
// its waiters. It is gone as soon as the server ends the connection, for any reason. The holder
// learns of that at its next heartbeat, a third of a lease later; in between another one may have
// the lock. Fences tell the two apart.
//
// A fence is greater than the one before, and at least the database's clock in microseconds. The
// table keeps it for a day after the release ([Options].Remember); a name that was removed begins
// with the clock. So fences go back only if the clock goes back by more than that, or if the
// database forgets what it has committed. It can do so after a crash with fsync or its equivalent
// off, and after a failover to a replica that lacks the last commits.
package sqllock
