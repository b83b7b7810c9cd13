package pgxidem

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// readCommitted is how DB begins a transaction.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// acquireFunc returns a connection without a transaction, and what returns it; that may be called
// more than once.
type acquireFunc func(context.Context) (conn *pgx.Conn, release func(), err error)

// newAcquireFunc returns nil if a Beginner is another one than those of pgx, or has a Tracer, which
// would see how a quickTransaction begins and ends.
func newAcquireFunc(b Beginner) acquireFunc {
	switch b := b.(type) {
	case *pgxpool.Pool:
		if b.Config().ConnConfig.Tracer == nil {
			return func(ctx context.Context) (*pgx.Conn, func(), error) {
				conn, err := b.Acquire(ctx)
				if err != nil {
					return nil, nil, err
				}
				return conn.Conn(), sync.OnceFunc(conn.Release), nil
			}
		}
	case *pgx.Conn:
		if b.Config().Tracer == nil {
			return func(context.Context) (*pgx.Conn, func(), error) { return b, func() {}, nil }
		}
	}
	return nil
}

// quickTransaction is a transaction that sends BEGIN with its first statement, and COMMIT with its
// last one.
type quickTransaction struct {
	begun   transaction // its tx is nil before the first statement
	conn    *pgx.Conn   // for the first statement
	release func()
}

var (
	_ sqlstore.Transaction   = (*quickTransaction)(nil)
	_ sqlstore.LastStatement = (*quickTransaction)(nil)
)

func (t *quickTransaction) Dialect() dbtx.Dialect { return dbtx.PostgreSQL }

func (t *quickTransaction) Exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	if t.begun.tx != nil {
		return t.begun.Exec(ctx, query, args...)
	}
	err = t.beginWith(ctx, query, args, func(r pgx.BatchResults) error {
		tag, err := r.Exec()
		n = tag.RowsAffected()
		return err
	})
	return n, err
}

func (t *quickTransaction) QueryRow(ctx context.Context, query string, args []any, dest ...any) error {
	if t.begun.tx != nil {
		return t.begun.QueryRow(ctx, query, args, dest...)
	}
	return t.beginWith(ctx, query, args, func(r pgx.BatchResults) error { return scanRow(r.QueryRow(), dest) })
}

// beginWith sends BEGIN and the first statement in one message. read reads the statement's result.
func (t *quickTransaction) beginWith(ctx context.Context, query string, args []any, read func(pgx.BatchResults) error) error {
	b := new(pgx.Batch)
	b.BeginTx(readCommitted)
	b.Queue(query, args...)
	results := t.conn.SendBatch(ctx, b)
	t.begun.tx = results.Tx()
	_, err := results.Exec() // BEGIN
	if err == nil {
		err = read(results)
	}
	if failed := results.Close(); err == nil {
		err = failed
	}
	return err
}

// ExecCommit implements [sqlstore.LastStatement].
func (t *quickTransaction) ExecCommit(ctx context.Context, query string, args ...any) (refused bool, err error) {
	b := new(pgx.Batch)
	b.Queue(query, args...)
	b.Queue("commit")
	results := t.begun.tx.SendBatch(ctx, b)
	_, err = results.Exec()
	var server *pgconn.PgError
	refused = errors.As(err, &server)
	if failed := results.Close(); err == nil {
		err = failed
	}
	if err != nil {
		return refused, withTxDone(err)
	}
	// The server has ended the transaction, and pgx does not know it. Commit with a context that
	// has ended sends nothing, and a pool's transaction then returns its connection.
	over, cancel := context.WithCancel(ctx)
	cancel()
	_ = t.begun.tx.Commit(over)
	t.release()
	return false, nil
}

// Ended is that of [transaction].
func (t *quickTransaction) Ended() bool { return t.begun.Ended() }

func (t *quickTransaction) Commit(ctx context.Context) error {
	defer t.release()
	return t.begun.Commit(ctx)
}

func (t *quickTransaction) Rollback(ctx context.Context) error {
	defer t.release()
	if t.begun.tx == nil {
		return nil // nothing was sent
	}
	return t.begun.Rollback(ctx)
}
