package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// mysql is the backend for MySQL and MariaDB.
type mysql struct{ server }

func newMySQL(db *database) mysql {
	return mysql{server{
		db: db, turns: newTurns(), manner: mysqlManner{db.table, db.lockWait, &db.words, new(atomic.Bool)}, looking: lists{db, false}, locking: lists{db, true},
	}}
}

// mysqlManner has the statements for MySQL and MariaDB; it sends one at a time.
type mysqlManner struct {
	table    string
	lockWait time.Duration
	words    *mysqlWords
	transact *atomic.Bool // a session of the pool had autocommit off
}

// reading runs f. If sessions have autocommit off, it turns autocommit on around f. Otherwise f
// would open a transaction, read from its snapshot from then on, and lock what it reads at levels
// that do so.
func (m mysqlManner) reading(ctx context.Context, conn *sql.Conn, f func(context.Context, sqlkit.Execer) error) error {
	if !m.transact.Load() {
		if err := m.readWithin(ctx, conn, f); !errors.Is(err, errTransacts) {
			return err
		}
		m.transact.Store(true)
	}
	err := sqlkit.Run(ctx, conn, []string{mysqlRollback, `SET @retrysafe_autocommit = @@autocommit, autocommit = 1`})
	if err == nil {
		err = m.readWithin(ctx, conn, f)
	}
	if _, failed := conn.ExecContext(ctx, `SET autocommit = @retrysafe_autocommit`); failed != nil {
		sqlkit.Discard(conn)
		err = errors.Join(err, failed)
	}
	return err
}

// readWithin runs f with statements that wait for a locked table no longer than LockWait. Without
// that limit they would stay on the server, one for each call that gives up, until the table is
// free.
func (m mysqlManner) readWithin(ctx context.Context, conn *sql.Conn, f func(context.Context, sqlkit.Execer) error) error {
	if m.words.noSetStatement.Load() {
		return f(ctx, conn)
	}
	err := f(ctx, limitedReads{conn, fmt.Sprintf("SET STATEMENT lock_wait_timeout = %d FOR ", mysqlTableSeconds(m.lockWait))})
	if dberr.MySQLNumber(err) != numberSyntax {
		return err
	}
	m.words.noSetStatement.Store(true)
	return f(ctx, conn)
}

// limitedReads is a connection whose queries have a beginning in common.
type limitedReads struct {
	*sql.Conn
	begin string
}

func (l limitedReads) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return l.Conn.QueryContext(ctx, l.begin+query, args...)
}

func (l limitedReads) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return l.Conn.QueryRowContext(ctx, l.begin+query, args...)
}

func (m mysqlManner) begin(call context.Context, conn *sql.Conn, wait patience) error {
	idle := (time.Duration(wait.left())*time.Millisecond + 6*slack) / time.Second // at least 5 s
	return m.words.begin(call, conn, mysqlBeginning(int64(idle)))
}

// within ends waits at the call's time limit, since the server counts in whole seconds.
func (mysqlManner) within(_ context.Context, wait patience) context.Context { return wait }

func (mysqlManner) commit(call context.Context, conn *sql.Conn, notAfter time.Time) error {
	_, err := conn.ExecContext(call, mysqlCommitting(latest(notAfter)))
	if dberr.MySQLNumber(err) == numberWrongValue {
		return storeapi.ErrTooLate
	}
	return err
}

// rollback rolls back first: turning autocommit on commits.
func (mysqlManner) rollback(call context.Context, conn *sql.Conn) error {
	return sqlkit.Run(call, conn, []string{mysqlRollback, "SET " + mysqlPutBack})
}

func (mysqlManner) fate(err error) fate {
	switch dberr.MySQLNumber(err) {
	case numberDeadlock, numberSnapshot, numberLockWait:
		return blocked
	case numberInterrupted, numberStatementTime, numberExecutionTime:
		return timedOut
	case 0, numberShutdown, numberKilled, numberSessionKilled, numberIdle:
		return onlyLost
	}
	return final
}

func (m mysqlManner) advice(err error) (text string, noTable bool) {
	number := dberr.MySQLNumber(err)
	if number == numberNoTable && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(m.table)) {
		return "", true
	}
	return mysqlAdvice[number], false
}
