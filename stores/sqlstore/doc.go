// Package sqlstore stores records in a SQL database through database/sql, beside the application's
// own tables. With [Store.RunTx] (that is, retrysafe.DoTx) the record and the work commit in one
// transaction, so the effect happens exactly once.
//
// The dialects are [SQLite], [PostgreSQL] and [MySQL], which includes MariaDB. The package contains
// no driver. Each dialect needs a driver whose errors carry the database's error code:
//
//   - SQLite: errors with a method Code() int that returns SQLite's result code, as those of
//     modernc.org/sqlite have.
//   - PostgreSQL: errors with a method SQLState() string. The driver must also send several
//     statements without arguments in one message, as pgx does.
//   - MySQL: errors that are structs with the server's error number in a field Number of type
//     uint16, as those of go-sql-driver/mysql are. The field is found by reflection.
//
// An example:
//
//	db, err := sql.Open("sqlite", "file:app.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
//	store, err := sqlstore.New(db, sqlstore.SQLite, nil)
//	err = store.Migrate(ctx)
//
// # Durability on SQLite
//
// With journal_mode WAL and synchronous FULL every answered call is on the disk: it survives a
// crash of the process and of the machine. Migrate warns about weaker settings.
//
// A file has one writer at a time. Calls that change nothing (a duplicate of finished work, a
// lookup) never wait for it. The others queue, no longer than their context and [Options].LockWait.
// An open RunTx is a writer: it delays the writes of all keys, and the heartbeats of concurrent
// attempts. Keep such transactions well below a third of the shortest lease, or give Do and an
// outer middleware a store on a file of its own.
//
// The store's clock is the machine's clock. Only processes of one machine may use a file, since
// locks do not work on network file systems. The store reports a record from the future once to
// [Options].Logger: either the clock was set back, or several machines share the file. Fences never
// go back, whatever the clock does.
//
// # Durability on PostgreSQL
//
// With fsync, synchronous_commit and full_page_writes on (the default), every answered call
// survives a crash of the server and of its machine. Migrate warns if one of them is off. It also
// survives a failover if the promoted replica is a synchronous one.
//
// Calls for different keys do not wait for each other. The store's clock is the server's. See
// docs/stores.md for details.
//
// # Durability on MySQL and MariaDB
//
// With innodb_flush_log_at_trx_commit = 1, and sync_binlog = 1 if there is a binary log, every
// answered call survives a crash of the server and of its machine. Migrate warns about other
// values. The tests run on MariaDB 10.11. They also check that the statements parse as MySQL 8; the
// store has not run on MySQL itself.
package sqlstore
