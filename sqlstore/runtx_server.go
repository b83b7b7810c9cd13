package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/storeapi"
)

// runOnServer is RunTx for databases with many concurrent writers.
func (s *Store) runOnServer(ctx context.Context, r storeapi.TxRequest, work func(context.Context, *sql.Tx) (storeapi.State, storeapi.Answer, error)) (storeapi.Record, error) {
	return s.RunOn(ctx, r, s.opening(r.Wait), func(ctx context.Context, tx dbtx.Tx) (storeapi.State, storeapi.Answer, error) {
		return work(ctx, standard(tx))
	})
}

// opening returns a function that opens transactions of database/sql. Their first statement waits
// for locks for at most wait.
func (s *Store) opening(wait time.Duration) func(context.Context) (Transaction, error) {
	return func(ctx context.Context) (Transaction, error) {
		if s.db.dialect == MySQL {
			return s.openMySQL(ctx, wait)
		}
		tx, err := s.db.pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return nil, err
		}
		return standardTx{dbtx.SQL(tx, s.db.dialect), tx}, nil
	}
}

// standard returns the database/sql transaction within tx, which opening has opened.
func standard(tx dbtx.Tx) *sql.Tx {
	if tx, ok := tx.(*mysqlTx); ok {
		return tx.tx
	}
	return tx.(standardTx).tx //nolint:errcheck,forcetypeassert // opening makes no other
}

// standardTx is a transaction of database/sql.
type standardTx struct {
	dbtx.Tx
	tx *sql.Tx
}

func (t standardTx) Commit(context.Context) error   { return t.tx.Commit() }
func (t standardTx) Rollback(context.Context) error { return t.tx.Rollback() }

// mysqlTx is a MySQL transaction on its own connection. Its session is restored when it ends.
type mysqlTx struct {
	standardTx
	conn *sql.Conn
}

// openMySQL opens a transaction with autocommit off. If the server rolls back on its own (error
// 1213), later statements belong to another transaction. That one never commits, since the record
// is not in it.
func (s *Store) openMySQL(ctx context.Context, wait time.Duration) (*mysqlTx, error) {
	conn, err := s.db.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &mysqlTx{conn: conn}
	// A call that should not wait uses NOWAIT for its look. But if two calls look at the same
	// moment, one of them still meets the other's row.
	if _, err = conn.ExecContext(ctx, fmt.Sprintf(mysqlJoin, mysqlSeconds(wait))); err == nil {
		o := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
		t.tx, err = conn.BeginTx(ctx, o)
		if dberr.MySQLNumber(err) == numberInTransaction {
			// from a previous user of the connection, who did not end it
			if err = sqlkit.Run(ctx, conn, []string{mysqlRollback}); err == nil {
				t.tx, err = conn.BeginTx(ctx, o)
			}
		}
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
	_, err := t.Exec(ctx, mysqlJoined)
	return err
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
	last := []string{mysqlLeft}
	if open {
		last = []string{mysqlRollback, mysqlLeft}
	}
	if err := sqlkit.Run(ctx, t.conn, last); err != nil && !errors.Is(err, sql.ErrConnDone) {
		sqlkit.Discard(t.conn)
		return
	}
	_ = t.conn.Close()
}
