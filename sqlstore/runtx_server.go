package sqlstore

import (
	"context"
	"database/sql"
	"time"

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
