// Package sqlstore keeps records in a SQL database through database/sql, beside the application's
// own tables. With [Store.RunTx] (that is, retrysafe.DoTx) the record commits in one transaction
// with the work: the effect happens exactly once.
//
// The dialects are [SQLite], [PostgreSQL] and [MySQL], which is MariaDB's too. The package brings
// no driver. For SQLite it needs one whose errors give SQLite's result code as Code() int, as those
// of modernc.org/sqlite do; for PostgreSQL one whose errors give the server's code as SQLState()
// string, and that sends several statements without arguments in one message, as pgx does; for
// MySQL one whose errors are structs with the server's number in a field Number of type uint16,
// which is found by reflection, as those of go-sql-driver/mysql are:
//
//	db, err := sql.Open("sqlite", "file:app.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
//	store, err := sqlstore.New(db, sqlstore.SQLite, nil)
//	err = store.Migrate(ctx)
//
// # What a win is worth on SQLite
//
// With journal_mode WAL and synchronous FULL what was answered has reached the disk: it survives a
// crash of the process and of the machine. Migrate warns of settings that promise less.
//
// A file has one writer at a time. Calls that change nothing (a repeat of finished work, a look-up)
// never wait for it; the others wait in turn, no longer than their context and [Options].LockWait.
// An open RunTx is a writer: it delays the writes of all keys, and the heartbeats of attempts that
// run beside it. Keep such transactions well below a third of the shortest lease, or give Do and an
// outer middleware a store on a file of its own.
//
// The store's clock is that of the machine. A file is used by the processes of one machine only,
// since locks do not work on network file systems; a record that comes from the future (the clock
// was set back, or the file is shared after all) is reported once by [Options].Logger. Fences never
// go back, whatever the clock does.
//
// # What a win is worth on PostgreSQL
//
// With fsync, synchronous_commit and full_page_writes on, as they are by default, what was answered
// survives a crash of the server and of its machine. Migrate warns where they are off. A failover
// keeps it where the replica that is promoted is a synchronous one.
//
// Calls for different keys do not wait for each other. The store's clock is the server's.
// docs/stores.md has the rest.
//
// # What a win is worth on MySQL and MariaDB
//
// With innodb_flush_log_at_trx_commit 1, and sync_binlog 1 where there is a binary log, what was
// answered survives a crash of the server and of its machine. Migrate warns where they are not so.
// The tests run on MariaDB 10.11; what is sent is parsed as MySQL 8, and has not run there.
package sqlstore
