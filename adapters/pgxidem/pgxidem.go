// Package pgxidem runs retrysafe.DoTx in transactions of github.com/jackc/pgx. The work gets a
// pgx.Tx:
//
//	pool, err := pgxpool.New(ctx, "postgres://app@db.example/app")
//	store, err := sqlstore.New(stdlib.OpenDBFromPool(pool), sqlstore.PostgreSQL, nil)
//	err = store.Migrate(ctx) // creates the tables of the records
//	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop"})
//	db := pgxidem.New(store, pool)
//	key := retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "8e03978e-40d5-43e8-bc93-6894a57f9324"}
//	res, err := retrysafe.DoTx(ctx, engine, db, key, func(ctx context.Context, tx pgx.Tx) (id int64, err error) {
//		err = tx.QueryRow(ctx, "INSERT INTO payments (cents) VALUES (500) RETURNING id").Scan(&id)
//		return id, err
//	})
//
// The records are in the tables of an sqlstore.Store. That store needs a *sql.DB on the same
// database for its other calls; stdlib.OpenDBFromPool of pgx returns one for the pool.
// docs/stores.md has this as a whole program.
package pgxidem

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Beginner is a *pgxpool.Pool. A *pgx.Conn also works if calls are not concurrent.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// DB is a [storeapi.TxStore] of pgx.Tx. It is safe for concurrent use if its Beginner is.
type DB struct {
	store    *sqlstore.Store
	beginner Beginner
	acquire  acquireFunc // nil: only the beginner can open transactions
}

var (
	_ storeapi.TxStore[pgx.Tx]   = (*DB)(nil)
	_ storeapi.StepStore[pgx.Tx] = (*DB)(nil)
	_ storeapi.Limiter           = (*DB)(nil)
)

// New returns a DB that opens transactions with begin and keeps records in the tables of s. Both
// must use the same PostgreSQL database.
//
// On a pool or a connection without a Tracer, BEGIN and the claim of the key are one message, and
// so are the end of the record and COMMIT.
func New(s *sqlstore.Store, begin Beginner) *DB { return &DB{s, begin, newAcquireFunc(begin)} }

// RunTx implements [storeapi.TxStore]; retrysafe.DoTx calls it. See sqlstore.Store.RunTx, for
// PostgreSQL.
func (d *DB) RunTx(ctx context.Context, r storeapi.TxRequest, work func(context.Context, pgx.Tx) (storeapi.State, storeapi.Answer, error)) (storeapi.Record, error) {
	return d.store.RunOn(ctx, r, d.beginTx, func(ctx context.Context, tx dbtx.Tx) (storeapi.State, storeapi.Answer, error) {
		return work(ctx, workTxOf(tx))
	})
}

// StepTx implements [storeapi.StepStore]; retrysafe.StepTx calls it. See sqlstore.Store.StepTx,
// for PostgreSQL.
func (d *DB) StepTx(ctx context.Context, r storeapi.StepRequest, work func(context.Context, pgx.Tx) (storeapi.Answer, error)) error {
	// The work may send the first statement.
	return d.store.StepOn(ctx, r, d.beginAtOnce, func(ctx context.Context, tx dbtx.Tx) (storeapi.Answer, error) {
		return work(ctx, workTxOf(tx))
	})
}

// beginTx opens a transaction whose first statement is the store's, and not the work's.
func (d *DB) beginTx(ctx context.Context) (sqlstore.Transaction, error) {
	if d.acquire == nil {
		return d.beginAtOnce(ctx)
	}
	conn, release, err := d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &quickTransaction{conn: conn, release: release}, nil
}

func (d *DB) beginAtOnce(ctx context.Context) (sqlstore.Transaction, error) {
	tx, err := d.beginner.BeginTx(ctx, readCommitted)
	if err != nil {
		return nil, err
	}
	t := transaction{tx: tx}
	if tx.Conn().Config().Tracer != nil { // it would see how ExecCommit ends a transaction
		return &t, nil
	}
	return &quickTransaction{begun: t, release: func() {}}, nil
}

// workTxOf returns what the work gets of tx, which beginTx has opened.
func workTxOf(tx dbtx.Tx) pgx.Tx {
	t, ok := tx.(*transaction)
	if quick, isQuick := tx.(*quickTransaction); isQuick {
		t, ok = &quick.begun, true
	}
	if !ok || t.tx == nil {
		panic("pgxidem: a transaction that this package has not begun")
	}
	t.work = &workTx{Tx: t.tx}
	return t.work
}

// In joins a transaction that the caller has begun and will commit. See sqlstore.Store.In.
func (d *DB) In(tx pgx.Tx) storeapi.TxStore[pgx.Tx] { return sqlstore.Join(d.store, tx, Tx(tx)) }

// Lookup calls the store's Lookup. The engine uses it and Charge if there are limits.
func (d *DB) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return d.store.Lookup(ctx, key)
}

// Charge calls the store's Charge.
func (d *DB) Charge(ctx context.Context, r storeapi.ChargeRequest) (storeapi.Charged, error) {
	return d.store.Charge(ctx, r)
}

// Usage calls the store's Usage.
func (d *DB) Usage(ctx context.Context, r storeapi.UsageRequest) (storeapi.Usage, error) {
	return d.store.Usage(ctx, r)
}

// Tx returns tx in the form that guards and outboxes need.
func Tx(tx pgx.Tx) dbtx.Tx { return pgxTx{tx} }

type pgxTx struct{ tx pgx.Tx }

func (t pgxTx) Dialect() dbtx.Dialect { return dbtx.PostgreSQL }

func (t pgxTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), withTxDone(err)
}

func (t pgxTx) QueryRow(ctx context.Context, query string, args []any, dest ...any) error {
	return scanRow(t.tx.QueryRow(ctx, query, args...), dest)
}

// scanRow reads a row, with the errors of database/sql.
func scanRow(row pgx.Row, dest []any) error {
	err := row.Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return sql.ErrNoRows
	}
	return withTxDone(err)
}

// withTxDone adds sqlstore's error to pgx's error for a transaction that has ended.
func withTxDone(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return errors.Join(sql.ErrTxDone, err)
	}
	return err
}

// transaction is a transaction that DB has begun.
type transaction struct {
	tx   pgx.Tx
	work *workTx // nil before the work
}

func (t *transaction) Dialect() dbtx.Dialect { return dbtx.PostgreSQL }

func (t *transaction) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return pgxTx{t.tx}.Exec(ctx, query, args...)
}

func (t *transaction) QueryRow(ctx context.Context, query string, args []any, dest ...any) error {
	return pgxTx{t.tx}.QueryRow(ctx, query, args, dest...)
}

// workTx is what the work gets of a transaction. It knows whether the work has ended it: the
// connection may then be another's.
type workTx struct {
	pgx.Tx
	ended bool
}

// Commit implements [pgx.Tx].
func (t *workTx) Commit(ctx context.Context) error {
	t.ended = true
	return t.Tx.Commit(ctx)
}

// Rollback implements [pgx.Tx].
func (t *workTx) Rollback(ctx context.Context) error {
	t.ended = true
	return t.Tx.Rollback(ctx)
}

// Ended reports whether the server has no transaction open although pgx has not ended it: the work
// has sent COMMIT or ROLLBACK as a statement. Each reply of the server says so. sqlstore asks after
// the work.
func (t *transaction) Ended() bool {
	return t.work != nil && !t.work.ended && t.tx.Conn().PgConn().TxStatus() == idleStatus
}

// idleStatus is the status of a session without a transaction.
const idleStatus = 'I'

func (t *transaction) Commit(ctx context.Context) error { return withTxDone(t.tx.Commit(ctx)) }

func (t *transaction) Rollback(ctx context.Context) error { return withTxDone(t.tx.Rollback(ctx)) }
