package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// mysqlTx is a MySQL transaction on its own connection. Its session is restored when it ends.
type mysqlTx struct {
	dbtx.Tx
	tx   *sql.Tx
	conn *sql.Conn
	// limited: until claimed is called, the session waits for locks as long as the claim may, since
	// the server cannot limit the wait of one statement.
	limited bool
}

// openMySQL opens a transaction with autocommit off. If the server rolls back on its own (error
// 1213), later statements belong to another transaction. That one never commits, since the record
// is not in it.
func (s *Store) openMySQL(ctx context.Context, wait time.Duration) (*mysqlTx, error) {
	conn, err := s.db.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &mysqlTx{conn: conn, limited: s.db.words.noSetStatement.Load()}
	if err = s.db.words.begin(ctx, conn, mysqlJoining(t.limited, wait, s.db.lockWait)); err == nil {
		t.tx, err = conn.BeginTx(ctx, nil)
	}
	if err != nil {
		t.leave(ctx, true)
		return nil, err
	}
	t.Tx = dbtx.SQL(t.tx, MySQL)
	return t, nil
}

// claimed restores the session's own lock wait for the work.
func (t *mysqlTx) claimed(ctx context.Context) error {
	if !t.limited {
		return nil
	}
	_, err := t.Exec(ctx, mysqlJoined)
	return err
}

// insert runs queries.claimOnce. It returns the time of the new record, or zero if the statement
// has inserted nothing.
func (t *mysqlTx) insert(ctx context.Context, query string, args ...any) (now int64, err error) {
	res, err := t.tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	if n, err := res.RowsAffected(); n == 0 || err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (t *mysqlTx) Commit(ctx context.Context) error {
	err := t.tx.Commit()
	if err == nil {
		t.leave(context.WithoutCancel(ctx), false)
	}
	return err
}

func (t *mysqlTx) Rollback(ctx context.Context) error {
	err := t.tx.Rollback()
	t.leave(ctx, true)
	return err
}

// leave restores the session. Turning autocommit on commits an open transaction, so that is rolled
// back first. A connection that does not answer is discarded.
func (t *mysqlTx) leave(ctx context.Context, open bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slack)
	defer cancel()
	last := []string{mysqlLeaving(t.limited)}
	if open {
		last = []string{mysqlRollback, last[0]}
	}
	if err := sqlkit.Run(ctx, t.conn, last); err != nil && !errors.Is(err, sql.ErrConnDone) {
		sqlkit.Discard(t.conn)
		return
	}
	_ = t.conn.Close()
}
