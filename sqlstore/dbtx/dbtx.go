// Package dbtx is the little that retrysafe needs of an open transaction, whichever driver or
// library it comes from.
//
// [SQL] is for *sql.Tx and for what looks like it: sqlx, and the ConnPool of a GORM transaction. An
// adapter for another kind has three methods to write; adapters/pgxidem has one for pgx.
package dbtx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync/atomic"
)

// Dialect is the kind of database.
type Dialect uint8

// The dialects.
const (
	SQLite Dialect = iota + 1
	PostgreSQL
	// MySQL is MariaDB too.
	MySQL
)

func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "SQLite"
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	}
	return fmt.Sprintf("dialect %d", uint8(d))
}

// Tx is an open transaction. Its methods are called one at a time.
type Tx interface {
	// Exec runs a statement and tells how many rows it has changed. Values stand in the order of
	// their places: ? on SQLite and MySQL, $1 and so on on PostgreSQL.
	Exec(ctx context.Context, query string, args ...any) (affected int64, err error)
	// QueryRow reads the one row of a statement into dest, as database/sql does; sql.ErrNoRows
	// where there is none.
	QueryRow(ctx context.Context, query string, args []any, dest ...any) error
	// Dialect is the kind of database that it is open on.
	Dialect() Dialect
}

// Conn is what [SQL] needs: *sql.Tx has it, and so has what stands for one.
type Conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// SQL makes a Tx of a transaction of database/sql.
func SQL(tx Conn, d Dialect) Tx { return sqlTx{tx, d, isTx(tx)} }

// Begun makes a Tx of a connection on which a transaction was begun by a statement, such as BEGIN
// IMMEDIATE on a *sql.Conn of SQLite. The caller says that it was: nobody looks.
func Begun(conn Conn, d Dialect) Tx { return sqlTx{conn, d, true} }

// InTransaction tells whether tx is a transaction, as far as can be seen: it is false for [SQL] of
// a *sql.DB, of a *sql.Conn, or of another thing that begins transactions and ends none, where each
// statement would commit by itself.
func InTransaction(tx Tx) bool {
	t, ok := tx.(sqlTx)
	return !ok || t.inTx
}

// isTx: what ends a transaction is one, also where it can begin others inside of it; what can only
// begin one is none.
func isTx(c Conn) bool {
	if c == nil {
		return false
	}
	if v := reflect.ValueOf(c); v.Kind() == reflect.Pointer && v.IsNil() {
		return false
	}
	if _, ok := c.(interface{ Commit() error }); ok {
		return true
	}
	_, begins := reflect.TypeOf(c).MethodByName("BeginTx")
	return !begins
}

type sqlTx struct {
	conn    Conn
	dialect Dialect
	inTx    bool
}

func (t sqlTx) Dialect() Dialect { return t.dialect }

func (t sqlTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	r, err := t.conn.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (t sqlTx) QueryRow(ctx context.Context, query string, args []any, dest ...any) error {
	return t.conn.QueryRowContext(ctx, query, args...).Scan(dest...)
}

var savepoints atomic.Uint64

// Savepoint runs fn between a savepoint and its release. An error of fn undoes what fn has done,
// and nothing else: the transaction goes on, also on PostgreSQL, where a statement that has failed
// would otherwise refuse all that follow. The error is returned as it is.
//
// After a deadlock, or a serialization failure, the database has undone the whole transaction: roll
// back, and send nothing more. On MySQL what is sent after a deadlock stands outside of it, and
// commits by itself; the error then says too that the savepoint is gone.
//
// Savepoints may stand in one another. A panic passes, and leaves the savepoint to the end of the
// transaction.
func Savepoint(ctx context.Context, tx Tx, fn func(context.Context) error) error {
	// MySQL forgets an older one of the same name
	name := "retrysafe_savepoint_" + strconv.FormatUint(savepoints.Add(1), 36)
	if _, err := tx.Exec(ctx, "SAVEPOINT "+name); err != nil {
		return err
	}
	err := fn(ctx)
	if err != nil {
		if _, failed := tx.Exec(ctx, "ROLLBACK TO SAVEPOINT "+name); failed != nil {
			return errors.Join(err, failed)
		}
	}
	if _, failed := tx.Exec(ctx, "RELEASE SAVEPOINT "+name); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}
