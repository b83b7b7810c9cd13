package tx_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/pgxidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// pgxShop is a shop with pgx transactions.
type pgxShop struct {
	*shops.Shop
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
	sqltest.Exec(t, db, "CREATE TABLE IF NOT EXISTS orders (id SERIAL PRIMARY KEY, customer TEXT NOT NULL)")
	return &pgxShop{&shops.Shop{Store: store, Engine: teststores.Engine(t, store), DB: db}, pool, pgxidem.New(store, pool)}
}

func (s *pgxShop) order(ctx context.Context, customer string, in storeapi.TxStore[pgx.Tx], then func(context.Context, pgx.Tx) error) (retrysafe.Result[int64], error) {
	return retrysafe.DoTx(ctx, s.Engine, in, teststores.OrderKey(customer), func(ctx context.Context, tx pgx.Tx) (id int64, err error) {
		if err = tx.QueryRow(ctx, "INSERT INTO orders (customer) VALUES ($1) RETURNING id", customer).Scan(&id); err == nil && then != nil {
			err = then(ctx, tx)
		}
		return id, err
	}, retrysafe.WithPolicy(retrysafe.Policy{Wait: waits.Patience}))
}

// TestPgxTx: DoTx in pgx transactions, on the records of all others.
func TestPgxTx(t *testing.T) {
	t.Parallel()
	servers.EachPostgres(t, func(t *testing.T, v *servers.PostgresVersion) {
		t.Helper()
		testPgxTx(t, newPgxShop(t, v.Database(t)))
	})
}

func testPgxTx(t *testing.T, s *pgxShop) {
	t.Helper()
	first, err := s.order(t.Context(), "ada", s.db, nil)
	assert.NoError(t, err, "DoTx")
	again, err := s.Shop.Order(t.Context(), "ada")
	assert.NoError(t, err, "a repeat by way of database/sql")
	assert.True(t, again.Replayed && again.Value == first.Value, "a repeat: %+v", again)
	refused := errors.New("out of stock")
	_, err = s.order(t.Context(), "bob", s.db, func(context.Context, pgx.Tx) error { return refused })
	assert.ErrorIs(t, err, refused, "work that fails")
	s.WantNothing(t, "bob", "an error")
	s.WantOnce(t, "bob", "an error")
	for range 2 {
		_, err = s.order(t.Context(), "eve", s.db, func(context.Context, pgx.Tx) error { return retrysafe.Permanent("no-credit", refused) })
		var failure *retrysafe.Failure
		assert.True(t, errors.As(err, &failure) && failure.Code == "no-credit", "a final refusal: %v", err)
	}
	assert.Equal(t, s.Orders(t, "eve"), 0, "orders of a refused customer")
	_, err = s.order(t.Context(), "pat", s.db, func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) })
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a work that commits by itself")
	assert.ErrorIs(t, err, retrysafe.ErrTxEnded, "a work that commits by itself")
	for _, text := range []string{"COMMIT", "ROLLBACK"} {
		for name, failed := range map[string]error{"": nil, " and an error": refused, " and a final refusal": retrysafe.Permanent("no-credit", refused)} {
			_, err = s.order(t.Context(), text+name, s.db, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, text)
				return errors.Join(err, failed)
			})
			assert.True(t, err != nil, "a work that sends %s%s", text, name)
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a work that sends %s%s", text, name)
			assert.ErrorIs(t, err, retrysafe.ErrTxEnded, "a work that sends %s%s", text, name)
			rec := s.Record(t, text+name)
			assert.True(t, rec.InDoubt(), "the record after %s%s: %+v", text, name, rec)
		}
	}
	_, err = s.order(t.Context(), "sue", s.db, func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.Store.Lookup(ctx, teststores.Request("x").Key)
		assert.ErrorIs(t, err, retrysafe.ErrInTransaction, "Lookup inside of the transaction")
		_, _ = tx.Exec(ctx, "INSERT INTO orders (customer) VALUES (NULL)")
		return nil
	})
	assert.True(t, err != nil, "a work that keeps a failed statement to itself")
	s.WantNothing(t, "sue", "a failed statement")

	_, err = s.order(t.Context(), "liz", s.db, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM retrysafe_records")
		return err
	})
	assert.Contains(t, fmt.Sprint(err), "the work has removed or changed the record", "a work that removes its record")
	assert.Equal(t, s.Orders(t, "liz"), 0, "orders of a work that removes its record")
	var kept pgx.Tx
	_, err = s.order(t.Context(), "joe", s.db, func(_ context.Context, tx pgx.Tx) error { kept = tx; return nil })
	assert.NoError(t, err, "a work that keeps its transaction")
	_, err = kept.Exec(t.Context(), "DELETE FROM orders")
	assert.ErrorIs(t, err, pgx.ErrTxClosed, "a statement after the end of the transaction")
	assert.Equal(t, s.pool.Stat().AcquiredConns(), int32(0), "connections that are not back in the pool")

	tx, err := s.pool.Begin(t.Context())
	assert.NoError(t, err, "begin")
	_, err = s.order(t.Context(), "dan", s.db.In(tx), nil)
	assert.NoError(t, err, "DoTx in a transaction of the caller")
	assert.NoError(t, tx.Rollback(t.Context()), "rollback")
	s.WantNothing(t, "dan", "a rollback")
	tx, err = s.pool.Begin(t.Context())
	assert.NoError(t, err, "begin")
	_, err = s.order(t.Context(), "dan", s.db.In(tx), nil)
	assert.NoError(t, err, "DoTx in a transaction of the caller")
	assert.NoError(t, tx.Commit(t.Context()), "commit")
	s.WantOnce(t, "dan", "a commit")
}

// TestPgxTxCommitFails: an error of COMMIT itself is what the caller gets, and no other one,
// although the last statement goes with it.
func TestPgxTxCommitFails(t *testing.T) {
	t.Parallel()
	s := newPgxShop(t, servers.StartPostgres(t).URL())
	for _, q := range []string{
		`CREATE TABLE late (id INT)`,
		`CREATE FUNCTION late() RETURNS trigger AS $$ BEGIN PERFORM 1 / NEW.id; RETURN NEW; END $$ LANGUAGE plpgsql`,
		`CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()`,
	} {
		sqltest.Exec(t, s.DB, q)
	}
	_, err := s.order(t.Context(), "ann", s.db, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO late VALUES (0)")
		return err
	})
	assert.ErrorIs(t, err, retrysafe.ErrCommitRefused, "a COMMIT that fails")
	assert.True(t, !errors.Is(err, retrysafe.ErrUnavailable), "the database is available: %v", err)
	assert.Contains(t, fmt.Sprint(err), "division by zero", "a COMMIT that fails")
	s.WantNothing(t, "ann", "a COMMIT that fails")
}

// pgxErrors is a tracer that keeps the errors of statements.
type pgxErrors struct{ all []error }

func (*pgxErrors) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (p *pgxErrors) TraceQueryEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	if d.Err != nil {
		p.all = append(p.all, d.Err)
	}
}

// TestPgxTxTraced: a tracer of pgx sees no errors of a transaction that was committed.
func TestPgxTxTraced(t *testing.T) {
	t.Parallel()
	s := newPgxShop(t, servers.StartPostgres(t).URL())
	config := s.pool.Config()
	seen := new(pgxErrors)
	config.ConnConfig.Tracer = seen
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	assert.NoError(t, err, "a pool with a tracer")
	defer pool.Close()
	_, err = s.order(t.Context(), "ann", pgxidem.New(s.Store, pool), nil)
	assert.NoError(t, err, "DoTx")
	assert.Equal(t, len(seen.all), 0, "errors that the tracer saw")
	s.WantOnce(t, "ann", "a traced transaction")
}

// newCutPgxShop returns a shop whose connections a proxy can cut, and the same shop without it.
func newCutPgxShop(t *testing.T) (proxy *servers.SQLProxy, s, direct *pgxShop) {
	t.Helper()
	server := servers.StartPostgres(t)
	proxy = servers.StartSQLProxy(t, server.Port, servers.PostgresMessage)
	return proxy, newPgxShop(t, server.At(proxy.Addr)), newPgxShop(t, server.URL())
}

// TestPgxTxCommitLost: if the request or the reply of a COMMIT is lost with its connection, its
// outcome is found out before the caller gets its answer.
func TestPgxTxCommitLost(t *testing.T) {
	t.Parallel()
	proxy, s, direct := newCutPgxShop(t)
	for what, applied := range map[servers.Cut]bool{servers.LoseRequest: false, servers.LoseReply: true} {
		customer := map[bool]string{true: "reply", false: "request"}[applied]
		proxy.Set("commit\x00", what) // "read committed" is another message
		res, err := s.order(t.Context(), customer, s.db, nil)
		assert.Equal(t, err == nil && res.Stored, applied, "the %s is lost: %v", customer, err)
		if !applied {
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "the %s is lost", customer)
			direct.WantNothing(t, customer, "a lost COMMIT")
		}
		direct.WantOnce(t, customer, "a lost COMMIT")
	}
}

// TestPgxStepTx: the work of a step may send the first statement of its transaction, or none.
func TestPgxStepTx(t *testing.T) {
	t.Parallel()
	s := newPgxShop(t, servers.StartPostgres(t).URL())
	for range 2 { // the second is a duplicate
		_, err := retrysafe.Do(t.Context(), s.Engine, teststores.OrderKey("steps"), func(ctx context.Context) (int64, error) {
			_, err := retrysafe.StepTx(ctx, s.db, "nothing", func(context.Context, pgx.Tx) (int, error) { return 1, nil })
			if err != nil {
				return 0, err
			}
			return retrysafe.StepTx(ctx, s.db, "order", func(ctx context.Context, tx pgx.Tx) (id int64, err error) {
				err = tx.QueryRow(ctx, "INSERT INTO orders (customer) VALUES ('ann') RETURNING id").Scan(&id)
				return id, err
			})
		})
		assert.NoError(t, err, "a call with steps")
		assert.Equal(t, s.Orders(t, "ann"), 1, "orders")
	}
	assert.Equal(t, s.pool.Stat().AcquiredConns(), int32(0), "connections that are not back in the pool")
}

// TestPgxTxBeginLost: if the message with BEGIN and the claim, or its reply, is lost with its
// connection, the call begins again, and no connection is kept.
func TestPgxTxBeginLost(t *testing.T) {
	t.Parallel()
	proxy, s, direct := newCutPgxShop(t)
	for name, part := range map[string]string{"begin": "begin isolation level", "claim": "set_config('lock_timeout'"} {
		for _, what := range []servers.Cut{servers.LoseRequest, servers.LoseReply} {
			customer := fmt.Sprint(name, what)
			_, err := s.order(t.Context(), "before "+customer, s.db, nil) // prepares the statements
			assert.NoError(t, err, "an order before")
			proxy.Set(part, what)
			_, err = s.order(t.Context(), customer, s.db, nil)
			assert.NoError(t, err, "%s is lost", customer)
			assert.True(t, proxy.Asked(), "nothing was lost: %s", customer)
			direct.WantOnce(t, customer, "a lost beginning")
			// The pool ends a broken connection on a goroutine.
			waits.Eventually(t, "all connections are back in the pool", func() bool { return s.pool.Stat().AcquiredConns() == 0 })
		}
	}
}

// TestPostgresListens: one connection listens for all watchers, closes with the last of them, and
// is reopened if it is lost.
func TestPostgresListens(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	s, db := teststores.Postgres(t, server.URL(), &sqlstore.Options{Listen: teststores.ListenTo(server.URL("application_name=ear"))})
	ears := func() (n int) {
		assert.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ear'").Scan(&n), "look at the server")
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := func(id string) (told chan struct{}, ended chan error) {
		told, ended = make(chan struct{}, 100), make(chan error, 1)
		go func() { ended <- s.Watch(ctx, teststores.Request(id).Key, func() { told <- struct{}{} }) }()
		waits.Soon(t, told, "that it listens")
		return told, ended
	}
	a, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	toldA, endedA := watch("a")
	toldB, endedB := watch("b")
	assert.Equal(t, ears(), 1, "connections that listen")
	_, err = s.Complete(t.Context(), storeapi.CompleteRequest{
		Key: a.Record.Key, Owner: a.Record.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: retrysafe.Answer{Kept: true, Codec: "raw"},
	})
	assert.NoError(t, err, "Complete")
	waits.Soon(t, toldA, "the end of a")
	assert.Equal(t, len(toldB), 0, "what those are told who watch another key")
	sqltest.Exec(t, db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ear'")
	assert.True(t, waits.Soon(t, endedA, "the watch of a") != nil, "a watch whose connection was lost")
	assert.True(t, waits.Soon(t, endedB, "the watch of b") != nil, "a watch whose connection was lost")
	_, endedA = watch("a")
	cancel()
	assert.ErrorIs(t, waits.Soon(t, endedA, "the watch of a"), context.Canceled, "a watch whose context has ended")
	waits.Until(t.Context(), func() bool { return ears() == 0 })
	deaf, _ := teststores.Postgres(t, server.URL(), nil)
	assert.ErrorIs(t, deaf.Watch(t.Context(), teststores.Request("a").Key, func() {}), errors.ErrUnsupported, "Watch without Listen")
}
