// Package advise reads SQL and says of each statement what happens when it is sent again: after a
// retry, a redelivered message, a double click.
//
// A read and an update that sets plain values repeat harmlessly. What is computed from what is
// stored, or differs each time it is computed, does not, and neither does an insert without a
// unique key. [Advise] says which guard fits, by the names of package guard, or retrysafe.DoTx,
// which keeps the record of a key in the transaction of the effect.
//
// Statements are read by a parser of each database's grammar; what a table's unique indexes are it
// learns from CREATE TABLE, CREATE UNIQUE INDEX and ALTER TABLE in the same text. It knows no
// triggers, no functions of one's own and no data: where those decide, it says so.
package advise
