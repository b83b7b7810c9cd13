// Package guard makes writes to your own tables safe under concurrency and safe to repeat, in your
// own transaction: with database/sql, pgx and GORM, on SQLite, PostgreSQL and MySQL (MariaDB).
//
//	var account = guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}
//
//	out, err := account.Update(ctx, dbtx.SQL(tx, dbtx.PostgreSQL), 1, version, key, guard.Set{"points": guard.Add(20)})
//
// [Unique] and [PrimaryKey] guard an INSERT, [Version] and [Machine] an UPDATE. Each of these
// recognizes a duplicate of the same request by its key. [Condition], [RowLock] and [Upsert] order
// concurrent requests. They do not detect duplicates, so use them inside retrysafe.DoTx. [Fence]
// refuses a stale holder. docs/which-guard.md says which of them, or which other part of retrysafe,
// an operation needs.
//
// # What all guards have in common
//
// A successful write returns [Applied] or [AlreadyApplied]. Anything else is an error that says
// what to do; roll the transaction back after it. Guards wrap the errors of the database, so that
// DoTx can run the transaction again if the database aborted it in favour of another one
// (retrysafe.RetryWork).
//
// Names of tables and columns come from the program. Guards check and quote them. So PostgreSQL
// takes them exactly as written, and a table that was created without quotes has a lower-case name.
// Values are parameters, never a part of a statement. Keys are stored as digests ([Digest]).
// Neither keys nor values appear in errors.
//
// The first call of a guard checks in the catalogue that the unique index that it needs exists. If
// not, the error says which index to create. A check that succeeded is not repeated. So a guard is
// meant to be a package variable, and tables of the same name must be alike wherever it is used.
//
// A transaction that did not commit has done nothing: Applied is true only after the COMMIT. If the
// reply to the COMMIT is lost, send the same request again to find out.
package guard
