package sqlkit

import (
	"strings"

	"github.com/retrysafe/retrysafe/internal/dberr"
)

// Class is what an error of a database means, whatever the driver.
type Class uint8

// The classes.
const (
	// Other is an error of no class, or none of a database: no code was found.
	Other Class = iota
	// UniqueViolation: a row with the same values in a unique index exists.
	UniqueViolation
	// Serialization: the database has undone the transaction, since another one has changed what it
	// has read.
	Serialization
	// Deadlock: the database has undone the transaction in favour of another one.
	Deadlock
	// LockTimeout: the wait for another transaction's lock has ended.
	LockTimeout
	// Busy: another connection has locked the SQLite file, or the shared cache.
	Busy
	// Canceled: the statement was stopped, by its time limit or by someone else.
	Canceled
	// Lost: the server ends the connection or is not ready to serve it. A connection that fails
	// without a word of the server has no code; see [Coded].
	Lost
	// NoTable: a table of the statement is missing.
	NoTable
	// NoColumn: a column of the statement is missing.
	NoColumn
)

var mysqlClasses = map[uint16]Class{
	1020: Serialization, // MariaDB: the row was changed after the transaction's snapshot
	1053: Lost,          // shutdown
	1054: NoColumn,
	1062: UniqueViolation,
	1146: NoTable,
	1205: LockTimeout,
	1213: Deadlock,
	1317: Canceled,
	1586: UniqueViolation, // with the name of the key
	1927: Lost,            // MariaDB: the connection was killed
	1969: Canceled,        // MariaDB: max_statement_time
	3024: Canceled,        // MySQL: max_execution_time
	3169: Lost,            // MySQL: the session was killed
	3572: LockTimeout,     // MySQL: NOWAIT; MariaDB says 1205
	4031: Lost,            // MySQL: wait_timeout
}

var postgresClasses = map[string]Class{
	"23505": UniqueViolation,
	"25P03": Lost, // idle_in_transaction_session_timeout
	"40001": Serialization,
	"40P01": Deadlock,
	"42703": NoColumn,
	"42P01": NoTable,
	"55P03": LockTimeout, // and NOWAIT
	"57014": Canceled,
}

// Primary result codes of SQLite that [ClassOf] knows. Extended codes have them in their low byte.
const (
	sqliteError    = 1
	sqliteBusy     = 5
	sqliteLocked   = 6
	sqliteProtocol = 15
)

// Extended result codes of unique indexes of SQLite: of columns, of the primary key, of the rowid.
const (
	sqliteUnique     = 2067
	sqlitePrimaryKey = 1555
	sqliteRowID      = 2579
)

// ClassOf returns the class of an error, or [Other].
func ClassOf(err error) Class {
	if err == nil {
		return Other
	}
	if n := dberr.MySQLNumber(err); n != 0 {
		return mysqlClasses[n]
	}
	if state := dberr.SQLState(err); state != "" {
		if strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P0") {
			return Lost
		}
		return postgresClasses[state]
	}
	return classOfSQLite(dberr.SQLiteCode(err), err)
}

// classOfSQLite returns the class of a result code. Codes do not tell missing tables and columns
// from other mistakes in a statement; the text does.
func classOfSQLite(code int, err error) Class {
	switch code {
	case sqliteUnique, sqlitePrimaryKey, sqliteRowID:
		return UniqueViolation
	}
	switch code & 0xff {
	case sqliteBusy, sqliteLocked, sqliteProtocol:
		return Busy
	case sqliteError:
		switch text := err.Error(); {
		case strings.Contains(text, "no such table"):
			return NoTable
		case strings.Contains(text, "no such column"), strings.Contains(text, "has no column named"):
			return NoColumn
		}
	}
	return Other
}

// Coded reports whether the database itself has answered with an error. Without a code the
// connection may be lost.
func Coded(err error) bool {
	return dberr.MySQLNumber(err) != 0 || dberr.SQLState(err) != "" || dberr.SQLiteCode(err) != 0
}

// InTheWay reports whether another transaction caused the error, so that the same transaction may
// succeed if it is run again. Nothing of it was committed.
func InTheWay(err error) bool {
	switch ClassOf(err) {
	case Serialization, Deadlock, LockTimeout, Busy:
		return true
	}
	return false
}

// MissingTable reports whether err says that this table, or one whose name begins with its name, is
// missing.
func MissingTable(err error, table string) bool {
	return ClassOf(err) == NoTable && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(table))
}
