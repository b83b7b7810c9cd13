package outbox

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// inTx runs f in a transaction at READ COMMITTED. It retries after conflicts with other
// transactions until ctx ends. f may also run again after a COMMIT that took effect and whose reply
// was lost. On SQLite, the first statement of an f that writes must write: SQLite would refuse the
// write of a transaction that has read first.
//
// A process that is stopped in the middle keeps its locks until ctx would have ended plus two
// seconds. Then the server ends its session. On SQLite there is no server, and others wait until
// the process continues or ends.
func (o *Outbox) inTx(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	if o.dialect == SQLite {
		select {
		case o.writer <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-o.writer }()
	}
	return sqlkit.Retry(ctx, func() error { return o.tryWrite(ctx, f) })
}

// inReadTx is inTx for functions that only read and lock nothing.
func (o *Outbox) inReadTx(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	return sqlkit.Retry(ctx, func() error { return o.tryOn(ctx, o.db, f) })
}

// tryWrite runs one transaction. The server ends it if the client is silent for too long.
func (o *Outbox) tryWrite(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	idle := 2 * time.Second
	if end, ok := ctx.Deadline(); ok {
		idle += max(0, time.Until(end))
	} else {
		idle += 30 * time.Second
	}
	switch o.dialect {
	case PostgreSQL:
		return o.tryOn(ctx, o.db, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, strconv.FormatInt(idle.Milliseconds(), 10))
			if err != nil {
				return err
			}
			return f(ctx, tx)
		})
	case MySQL:
		return o.tryIdle(ctx, idle, f)
	}
	return o.tryOn(ctx, o.db, f)
}

// tryIdle is tryWrite on MySQL. The limit is a session variable there and must be restored.
func (o *Outbox) tryIdle(ctx context.Context, idle time.Duration, f func(context.Context, *sql.Tx) error) error {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	seconds := int64((idle + time.Second - 1) / time.Second)
	if _, err := conn.ExecContext(ctx, `SET @retrysafe_idle = @@wait_timeout, wait_timeout = ?`, seconds); err != nil {
		return err
	}
	defer func() { // also if f panics
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, failed := conn.ExecContext(call, `SET wait_timeout = @retrysafe_idle`); failed != nil {
			sqlkit.Discard(conn)
		}
	}()
	return o.tryOn(ctx, conn, f)
}

// txBeginner is a pool or a connection.
type txBeginner interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

func (o *Outbox) tryOn(ctx context.Context, db txBeginner, f func(context.Context, *sql.Tx) error) error {
	level := sql.LevelReadCommitted
	if o.dialect == SQLite {
		level = sql.LevelDefault // the only one that SQLite has
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // where it was not committed
	if err := f(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}
