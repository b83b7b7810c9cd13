package guards_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

var guardNames atomic.Int64

// guardDB is a database with the tables of a shop.
type guardDB struct {
	name string
	d    dbtx.Dialect
	db   *sql.DB
	// driver and dsn open more connections to it. port is the server's, for a proxy in front of it.
	driver, dsn, port string
	version           *servers.PostgresVersion // nil: it is another kind
}

const guardTables = `
CREATE TABLE account (id BIGINT PRIMARY KEY, amount BIGINT, points BIGINT, version BIGINT, changed MOMENT, last_key VARCHAR(64)) ENGINE;
CREATE TABLE purchase (id VARCHAR(36) PRIMARY KEY, customer VARCHAR(40), status VARCHAR(20), step INT, note VARCHAR(40), by_key VARCHAR(64), last_key VARCHAR(64)) ENGINE;
CREATE TABLE vote (poll INT NOT NULL, voter VARCHAR(40) NOT NULL, choice VARCHAR(40), receipt VARCHAR(40), by_key VARCHAR(64)) ENGINE;
CREATE UNIQUE INDEX vote_once ON vote (poll, voter);
CREATE UNIQUE INDEX vote_receipt ON vote (receipt);
CREATE TABLE done (operation VARCHAR(40) NOT NULL, by_key VARCHAR(64) NOT NULL, PRIMARY KEY (operation, by_key)) ENGINE;
CREATE TABLE points (member VARCHAR(40) PRIMARY KEY, total BIGINT, card VARCHAR(40), UNIQUE (card)) ENGINE;
CREATE TABLE job (id BIGINT PRIMARY KEY, fence BIGINT, note VARCHAR(40)) ENGINE;
INSERT INTO account (id, amount, points, version, changed) VALUES (1, 100, 0, 1, NULL), (2, 100, 0, 1, NULL);
INSERT INTO purchase (id, customer, status, step) VALUES ('o1', 'ann', 'placed', 1);
INSERT INTO job (id) VALUES (1)`

// eachGuardDB runs a test on each kind of database, and on each version of PostgreSQL. On MariaDB
// it runs with both ways in which the driver counts changed rows.
func eachGuardDB(t *testing.T, f func(*testing.T, *guardDB)) {
	t.Helper()
	all := []func(*testing.T) *guardDB{
		func(t *testing.T) *guardDB { t.Helper(); return guardOnSQLite(t, sqltest.NewFile(t)) },
		func(t *testing.T) *guardDB { t.Helper(); return guardOnMySQL(t, "MariaDB") },
		func(t *testing.T) *guardDB {
			t.Helper()
			return guardOnMySQL(t, "MariaDB found rows", "clientFoundRows=true")
		},
	}
	for _, v := range servers.PostgresVersions {
		all = append(all, func(t *testing.T) *guardDB { t.Helper(); return guardOnPostgres(t, v) })
	}
	for _, open := range all {
		w := open(t)
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			f(t, w)
		})
	}
}

func guardOnSQLite(t *testing.T, path string) *guardDB {
	t.Helper()
	return (&guardDB{name: "SQLite", d: dbtx.SQLite, driver: "sqlite", dsn: sqltest.SQLiteDSN(path, "busy_timeout(30000)")}).fillTables(t)
}

func guardOnPostgres(t *testing.T, v *servers.PostgresVersion) *guardDB {
	t.Helper()
	server := v.Shared.Get(t)
	schema := fmt.Sprintf("guard_%d", guardNames.Add(1))
	sqltest.Exec(t, sqltest.Open(t, "pgx", server.URL()), "CREATE SCHEMA "+schema)
	return (&guardDB{name: v.Name, d: dbtx.PostgreSQL, driver: "pgx", dsn: server.URL("search_path=" + schema), port: server.Port, version: v}).fillTables(t)
}

func guardOnMySQL(t *testing.T, name string, parameters ...string) *guardDB {
	t.Helper()
	server := servers.SharedMySQL.Get(t)
	database := fmt.Sprintf("guard_%d", guardNames.Add(1))
	sqltest.Exec(t, sqltest.Open(t, "mysql", server.DSN()), "CREATE DATABASE "+database)
	dsn := strings.Replace(server.DSN(append(parameters, "parseTime=true")...), "/retrysafe?", "/"+database+"?", 1)
	return (&guardDB{name: name, d: dbtx.MySQL, driver: "mysql", dsn: dsn, port: server.Port}).fillTables(t)
}

func (w *guardDB) fillTables(t *testing.T) *guardDB {
	t.Helper()
	w.db = w.openPool(t)
	words := map[dbtx.Dialect][2]string{dbtx.SQLite: {"DATETIME", ""}, dbtx.PostgreSQL: {"TIMESTAMPTZ", ""}, dbtx.MySQL: {"DATETIME(6)", "ENGINE=InnoDB"}}[w.d]
	for q := range strings.SplitSeq(strings.NewReplacer("MOMENT", words[0], "ENGINE", words[1]).Replace(guardTables), ";\n") {
		sqltest.Exec(t, w.db, q)
	}
	return w
}

// openPool returns another pool, as another process would have.
func (w *guardDB) openPool(t *testing.T) *sql.DB {
	t.Helper()
	db := sqltest.Open(t, w.driver, w.dsn)
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return db
}

// runInTx runs f in one transaction.
func (w *guardDB) runInTx(ctx context.Context, f func(context.Context, dbtx.Tx) (guard.Outcome, error)) (out guard.Outcome, err error) {
	return tryGuard(ctx, w.db, w.d, nil, f)
}

func tryGuard(ctx context.Context, db *sql.DB, d dbtx.Dialect, o *sql.TxOptions, f func(context.Context, dbtx.Tx) (guard.Outcome, error)) (out guard.Outcome, err error) {
	tx, err := db.BeginTx(ctx, o)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // in case it was not committed
	if out, err = f(ctx, dbtx.SQL(tx, d)); err != nil {
		return out, err
	}
	return out, tx.Commit()
}

// queryNumber returns the number that a query selects.
func (w *guardDB) queryNumber(t *testing.T, query string) (n int64) {
	t.Helper()
	assert.NoError(t, w.db.QueryRowContext(t.Context(), query).Scan(&n), "%s", query)
	return n
}

func (w *guardDB) queryText(t *testing.T, query string) string {
	t.Helper()
	var s sql.NullString
	assert.NoError(t, w.db.QueryRowContext(t.Context(), query).Scan(&s), "%s", query)
	return s.String
}

// manyCopies is how often each operation is sent at once.
const manyCopies = 100

// checkCopies sends one operation many times at once, and checks that one is applied and all others
// get Repeat.
func (w *guardDB) checkCopies(t *testing.T, f func(context.Context, dbtx.Tx) (guard.Outcome, error)) {
	t.Helper()
	var applied, repeats atomic.Int64
	var all sync.WaitGroup
	for range manyCopies {
		all.Go(func() {
			switch out, err := w.runInTx(t.Context(), f); {
			case err != nil:
				t.Errorf("a copy: %v", err)
			case out == guard.Applied:
				applied.Add(1)
			case out == guard.AlreadyApplied:
				repeats.Add(1)
			}
		})
	}
	all.Wait()
	assert.Equal(t, applied.Load(), 1, "copies that were applied")
	assert.Equal(t, repeats.Load(), manyCopies-1, "copies that were told so")
}

// guardedCalls are calls with a key, on the database that they change.
type guardedCalls struct {
	store  *sqlstore.Store
	engine *retrysafe.Engine
}

// newShop returns retrysafe on the same database.
func (w *guardDB) newShop(t *testing.T) *guardedCalls {
	t.Helper()
	store, err := sqlstore.New(w.db, w.d, &sqlstore.Options{Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err, "a store")
	assert.NoError(t, store.Migrate(t.Context()), "Migrate")
	return &guardedCalls{store: store, engine: teststores.Engine(t, store)}
}

// doGuarded runs an operation with a key, in one transaction with its record.
func (s *guardedCalls) doGuarded(ctx context.Context, id string, f func(context.Context, dbtx.Tx) error, opts ...retrysafe.CallOption) (retrysafe.Result[string], error) {
	key := retrysafe.Key{Operation: "guarded", ID: id}
	opts = append(opts, retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
	return retrysafe.DoTx(ctx, s.engine, s.store, key, func(ctx context.Context, tx *sql.Tx) (string, error) {
		return "done", f(ctx, dbtx.SQL(tx, s.store.Dialect()))
	}, opts...)
}

// doCopies sends one operation with its key many times at once, and checks that all get the answer
// of the one that ran.
func (s *guardedCalls) doCopies(t *testing.T, id string, f func(context.Context, dbtx.Tx) error) {
	t.Helper()
	var ran, answered atomic.Int64
	var all sync.WaitGroup
	for range manyCopies {
		all.Go(func() {
			res, err := s.doGuarded(t.Context(), id, f)
			if err != nil || res.Value != "done" {
				t.Errorf("a copy: %+v, %v", res, err)
				return
			}
			answered.Add(1)
			if !res.Replayed {
				ran.Add(1)
			}
		})
	}
	all.Wait()
	assert.Equal(t, ran.Load(), 1, "copies that ran")
	assert.Equal(t, answered.Load(), manyCopies, "copies that were answered")
}

func byKey(id string) retrysafe.Key {
	return retrysafe.Key{Tenant: "ann", Operation: "guarded", ID: id}
}

// wantErr checks that an operation fails with want and leaves no effect.
func (w *guardDB) wantErr(t *testing.T, want error, what string, f func(context.Context, dbtx.Tx) (guard.Outcome, error)) {
	t.Helper()
	_, err := w.runInTx(t.Context(), f)
	assert.ErrorIs(t, err, want, "%s", what)
}

// wantOut checks the outcome of an operation.
func (w *guardDB) wantOut(t *testing.T, want guard.Outcome, what string, f func(context.Context, dbtx.Tx) (guard.Outcome, error)) {
	t.Helper()
	out, err := w.runInTx(t.Context(), f)
	assert.NoError(t, err, "%s", what)
	assert.Equal(t, out, want, "%s", what)
}

// outcomeOf is the outcome of an operation that returns only an error.
func outcomeOf(err error) (guard.Outcome, error) {
	if err != nil {
		return 0, err
	}
	return guard.Applied, nil
}

var errNotCommitted = errors.New("rolled back on purpose")
