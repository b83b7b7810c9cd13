package integration_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/pgxidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// pgxShop is a shop with pgx transactions.
type pgxShop struct {
	*shop
	pool *pgxpool.Pool
	db   *pgxidem.DB
}

func newPgxShop(t *testing.T, url string) *pgxShop {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	assert.NoError(t, err, "a pool")
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = db.Close() })
	store, err := sqlstore.New(db, sqlstore.PostgreSQL, nil)
	assert.NoError(t, err, "a store")
	assert.NoError(t, store.Migrate(t.Context()), "Migrate")
	execSQL(t, db, "CREATE TABLE IF NOT EXISTS orders (id SERIAL PRIMARY KEY, customer TEXT NOT NULL)")
	return &pgxShop{&shop{store: store, engine: newEngine(t, store), db: db}, pool, pgxidem.New(store, pool)}
}

func (s *pgxShop) order(ctx context.Context, customer string, in retrysafe.TxStore[pgx.Tx], then func(context.Context, pgx.Tx) error) (retrysafe.Result[int64], error) {
	return retrysafe.DoTx(ctx, s.engine, in, orderKey(customer), func(ctx context.Context, tx pgx.Tx) (id int64, err error) {
		if err = tx.QueryRow(ctx, "INSERT INTO orders (customer) VALUES ($1) RETURNING id", customer).Scan(&id); err == nil && then != nil {
			err = then(ctx, tx)
		}
		return id, err
	}, retrysafe.WithPolicy(retrysafe.Policy{Wait: patience}))
}

// TestPgxTx: DoTx in pgx transactions, on the records of all others.
func TestPgxTx(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	s := newPgxShop(t, server.url())
	first, err := s.order(t.Context(), "ada", s.db, nil)
	assert.NoError(t, err, "DoTx")
	again, err := s.shop.order(t.Context(), "ada")
	assert.NoError(t, err, "a repeat by way of database/sql")
	assert.True(t, again.Replayed && again.Value == first.Value, "a repeat: %+v", again)
	refused := errors.New("out of stock")
	_, err = s.order(t.Context(), "bob", s.db, func(context.Context, pgx.Tx) error { return refused })
	assert.ErrorIs(t, err, refused, "work that fails")
	s.wantNothing(t, "bob", "an error")
	s.wantOnce(t, "bob", "an error")
	for range 2 {
		_, err = s.order(t.Context(), "eve", s.db, func(context.Context, pgx.Tx) error { return retrysafe.Permanent("no-credit", refused) })
		var failure *retrysafe.Failure
		assert.True(t, errors.As(err, &failure) && failure.Code == "no-credit", "a final refusal: %v", err)
	}
	assert.Equal(t, s.orders(t, "eve"), 0, "orders of a refused customer")
	_, err = s.order(t.Context(), "pat", s.db, func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) })
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a work that commits by itself")
	assert.ErrorIs(t, err, retrysafe.ErrTxEnded, "a work that commits by itself")
	_, err = s.order(t.Context(), "sue", s.db, func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.store.Lookup(ctx, request("x").Key)
		assert.ErrorIs(t, err, retrysafe.ErrInTransaction, "Lookup inside of the transaction")
		_, _ = tx.Exec(ctx, "INSERT INTO orders (customer) VALUES (NULL)")
		return nil
	})
	assert.True(t, err != nil, "a work that keeps a failed statement to itself")
	s.wantNothing(t, "sue", "a failed statement")

	tx, err := s.pool.Begin(t.Context())
	assert.NoError(t, err, "begin")
	_, err = s.order(t.Context(), "dan", s.db.In(tx), nil)
	assert.NoError(t, err, "DoTx in a transaction of the caller")
	assert.NoError(t, tx.Rollback(t.Context()), "rollback")
	s.wantNothing(t, "dan", "a rollback")
	tx, err = s.pool.Begin(t.Context())
	assert.NoError(t, err, "begin")
	_, err = s.order(t.Context(), "dan", s.db.In(tx), nil)
	assert.NoError(t, err, "DoTx in a transaction of the caller")
	assert.NoError(t, tx.Commit(t.Context()), "commit")
	s.wantOnce(t, "dan", "a commit")
}

// TestPgxTxCommitLost: if the request or the reply of a COMMIT is lost with its connection, its
// outcome is found out before the caller gets its answer.
func TestPgxTxCommitLost(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	proxy := startSQLProxy(t, server.port, postgresMessage)
	s := newPgxShop(t, server.at(proxy.Addr))
	direct := newPgxShop(t, server.url())
	for what, applied := range map[cut]bool{loseRequest: false, loseReply: true} {
		customer := map[bool]string{true: "reply", false: "request"}[applied]
		proxy.set("commit\x00", what) // "read committed" is another message
		res, err := s.order(t.Context(), customer, s.db, nil)
		assert.Equal(t, err == nil && res.Stored, applied, "the %s is lost: %v", customer, err)
		if !applied {
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "the %s is lost", customer)
			direct.wantNothing(t, customer, "a lost COMMIT")
		}
		direct.wantOnce(t, customer, "a lost COMMIT")
	}
}

// TestPostgresListens: one connection listens for all watchers, closes with the last of them, and
// is reopened if it is lost.
func TestPostgresListens(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	s, db := postgresOn(t, server.url(), &sqlstore.Options{Listen: listenTo(server.url("application_name=ear"))})
	ears := func() (n int) {
		assert.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ear'").Scan(&n), "look at the server")
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := func(id string) (told chan struct{}, ended chan error) {
		told, ended = make(chan struct{}, 100), make(chan error, 1)
		go func() { ended <- s.Watch(ctx, request(id).Key, func() { told <- struct{}{} }) }()
		soon(t, told, "that it listens")
		return told, ended
	}
	a, err := s.Acquire(t.Context(), request("a"))
	assert.NoError(t, err, "Acquire")
	toldA, endedA := watch("a")
	toldB, endedB := watch("b")
	assert.Equal(t, ears(), 1, "connections that listen")
	_, err = s.Complete(t.Context(), retrysafe.CompleteRequest{
		Key: a.Record.Key, Owner: a.Record.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: retrysafe.Answer{Kept: true, Codec: "raw"},
	})
	assert.NoError(t, err, "Complete")
	soon(t, toldA, "the end of a")
	assert.Equal(t, len(toldB), 0, "what those are told who watch another key")
	execSQL(t, db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ear'")
	assert.True(t, soon(t, endedA, "the watch of a") != nil, "a watch whose connection was lost")
	assert.True(t, soon(t, endedB, "the watch of b") != nil, "a watch whose connection was lost")
	_, endedA = watch("a")
	cancel()
	assert.ErrorIs(t, soon(t, endedA, "the watch of a"), context.Canceled, "a watch whose context has ended")
	until(t.Context(), func() bool { return ears() == 0 })
	deaf, _ := postgresOn(t, server.url(), nil)
	assert.ErrorIs(t, deaf.Watch(t.Context(), request("a").Key, func() {}), errors.ErrUnsupported, "Watch without Listen")
}
