// Package dbtx defines the few methods of an open transaction that retrysafe needs, whatever its
// driver or library.
//
// [SQL] adapts *sql.Tx and types with its methods: sqlx, and the ConnPool of a GORM transaction. An
// adapter for another kind implements three methods; adapters/pgxidem has one for pgx.
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
	// MySQL also stands for MariaDB.
	MySQL
)

// String returns the name of the database: SQLite, PostgreSQL or MySQL.
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
	// Exec runs a statement and returns the number of rows that it changed. Placeholders are ? on
	// SQLite and MySQL, and $1, $2, … on PostgreSQL; args are in their order.
	Exec(ctx context.Context, query string, args ...any) (affected int64, err error)
	// QueryRow scans the single row of a statement into dest, as database/sql does. It returns
	// sql.ErrNoRows if there is none.
	QueryRow(ctx context.Context, query string, args []any, dest ...any) error
	// Dialect returns the kind of database of the transaction.
	Dialect() Dialect
}

// Conn has the methods that [SQL] needs. *sql.Tx implements it, and so do its replacements.
type Conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// SQL returns a Tx for a transaction of database/sql.
func SQL(tx Conn, d Dialect) Tx { return sqlTx{tx, d, isTx(tx)} }

// Begun returns a Tx for a connection on which a statement has begun a transaction, such as BEGIN
// IMMEDIATE on a *sql.Conn of SQLite. Begun does not check that there is one.
func Begun(conn Conn, d Dialect) Tx { return sqlTx{conn, d, true} }

// InTransaction reports whether tx is a transaction, as far as its type shows. It is false for
// [SQL] of a *sql.DB, a *sql.Conn, or another type that can begin transactions and not end them. On
// those, each statement would commit on its own.
func InTransaction(tx Tx) bool {
	t, ok := tx.(sqlTx)
	return !ok || t.inTx
}

// isTx reports whether c is a transaction. A type that can end a transaction is one, even if it can
// begin nested ones. A type that can only begin one is not.
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

// Savepoint sets a savepoint, runs fn and releases the savepoint. If fn returns an error, Savepoint
// undoes only what fn has done. The transaction continues, also on PostgreSQL, which would
// otherwise refuse every statement after a failed one. The error is returned unchanged.
//
// After a deadlock or a serialization failure the database has rolled back the whole transaction:
// roll back, and send no other statement. On MySQL, a statement after a deadlock runs outside the
// transaction and commits on its own. The returned error then also says that the savepoint is gone.
//
// Savepoints can be nested. If fn panics, the panic continues, and the savepoint stays until the
// transaction ends.
func Savepoint(ctx context.Context, tx Tx, fn func(context.Context) error) error {
	// MySQL drops an older savepoint of the same name
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
