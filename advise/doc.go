// Package advise reads SQL and says of each statement what happens if it runs again: after a retry,
// a redelivered message or a double click.
//
// Reads, and updates that set fixed values, are harmless. A value that is computed from stored
// values, or differs each time, is not; nor is an insert without a unique key. [Advise] says which
// guard fits: one of package guard, or retrysafe.DoTx, which keeps the record of a key in the
// transaction of the effect.
//
// A parser for each database's grammar reads the statements. The unique indexes of a table come
// from CREATE TABLE, CREATE UNIQUE INDEX and ALTER TABLE in the same text. The package does not
// know triggers, user-defined functions or data. Where those matter, it says so.
package advise
