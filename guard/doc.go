// Package guard makes writes to your own tables safe beside others and safe to repeat, in your own
// transaction: with database/sql, pgx and GORM, on SQLite, PostgreSQL and MySQL (MariaDB).
//
//	var account = guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}
//
//	out, err := account.Update(ctx, dbtx.SQL(tx, dbtx.PostgreSQL), 1, version, key, guard.Set{"points": guard.Add(20)})
//
// [Unique] and [PrimaryKey] guard an INSERT, [Version] and [Machine] an UPDATE: each of these tells
// a repeat of the same request by its key. [Condition], [RowLock] and [Upsert] put requests in
// order that come at once, and are no guard against repeats: they belong inside of retrysafe.DoTx.
// [Fence] refuses a holder that is out of date. docs/which-guard.md says which of them, or which
// other part of retrysafe, an operation needs.
//
// # What all of them keep
//
// A write that ends well is [Applied] or [Repeat]; all else is an error, after which the
// transaction is to be rolled back. An error says what to do. Errors of the database stay inside of
// it, so that DoTx makes a transaction anew that was undone in favour of another one
// (retrysafe.RetryWork).
//
// Names of tables and columns come from the program. They are checked and quoted; on PostgreSQL
// they are therefore taken as they are written, and a table that was made without quotes has a name
// in lower case. Values are parameters, never a part of a statement. Keys are kept as digests
// ([Digest]); neither they nor values are in errors.
//
// The first call of a guard asks the catalogue whether the unique index that it stands on is there,
// and says which to make if not. What was right once is not asked again: a guard is meant to be a
// variable of the package, for tables of one name that are alike wherever it is used.
//
// A transaction that was never committed has done nothing: Applied is true when the COMMIT is.
// Where its reply is lost the same request again finds out.
package guard
