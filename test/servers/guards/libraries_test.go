package guards_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/sqlc-dev/marino/parser"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/retrysafe/retrysafe/adapters/pgxidem"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// TestGuardPgx: guards in pgx transactions.
func TestGuardPgx(t *testing.T) {
	t.Parallel()
	w := guardOnPostgres(t, servers.PostgresVersions[0])
	pool, err := pgxpool.New(t.Context(), w.dsn)
	assert.NoError(t, err, "a pool")
	t.Cleanup(pool.Close)
	try := func(f guardedCall) (out guard.Outcome, err error) {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			return 0, err
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		if out, err = f(t.Context(), pgxidem.Tx(tx)); err != nil {
			return out, err
		}
		return out, tx.Commit(t.Context())
	}
	for name, op := range retryableGuards(t) {
		for _, want := range []guard.Outcome{guard.Applied, guard.AlreadyApplied} {
			out, err := try(op.run)
			assert.NoError(t, err, "%s", name)
			assert.Equal(t, out, want, "%s", name)
		}
		assert.Equal(t, w.queryNumber(t, op.seen), 1, "effects of %s", name)
	}
	votes := guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
	out, err := try(func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
		return votes.Try(ctx, tx, func(ctx context.Context) error {
			_, err := tx.Exec(ctx, "INSERT INTO vote (poll, voter) VALUES (1, 'ann')")
			return err
		}, func(ctx context.Context) (bool, error) {
			return votes.Own(ctx, tx, byKey("a"), guard.Set{"poll": 1, "voter": "ann"})
		})
	})
	assert.True(t, err == nil && out == guard.AlreadyApplied, "an INSERT of the caller's own: %v, %v", out, err)
	account := &guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}}
	upsert := guard.Upsert{Table: "points", Columns: []string{"member"}}
	fence := guard.Fence{Table: "job", ID: "id", Column: "fence"}
	_, err = try(func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
		return outcomeOf(errors.Join(withdrawFrom(account, w, 1, 30)(ctx, tx), fence.Check(ctx, tx, 1, 7),
			upsert.Put(ctx, tx, guard.Set{"member": "ann"}, guard.Set{"total": 20}, guard.Set{"total": guard.Add(20)})))
	})
	assert.NoError(t, err, "the others")
	_, err = try(func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
		return outcomeOf(withdrawFrom(account, w, 1, 71)(ctx, tx))
	})
	assert.ErrorIs(t, err, guard.ErrRefused, "more than there is")
}

// gormVote is a row of votes.
type gormVote struct {
	Poll          int
	Voter, Choice string
	ByKey         string
}

func (gormVote) TableName() string { return "vote" }

// TestGuardGORM: guards in GORM transactions, also with prepared statements, and an INSERT that
// GORM makes. Without a transaction they refuse.
func TestGuardGORM(t *testing.T) {
	t.Parallel()
	for _, prepared := range []bool{false, true} {
		w := guardOnMySQL(t, "MariaDB")
		db, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: w.db}), &gorm.Config{Logger: logger.Discard, PrepareStmt: prepared})
		assert.NoError(t, err, "gorm.Open")
		db = db.WithContext(t.Context())
		try := func(db *gorm.DB, f func(*gorm.DB, dbtx.Tx) (guard.Outcome, error)) (out guard.Outcome, err error) {
			err = db.Transaction(func(tx *gorm.DB) (err error) {
				out, err = f(tx, dbtx.SQL(tx.Statement.ConnPool, dbtx.MySQL))
				return err
			})
			return out, err
		}
		for name, op := range retryableGuards(t) {
			for _, want := range []guard.Outcome{guard.Applied, guard.AlreadyApplied} {
				out, err := try(db, func(_ *gorm.DB, tx dbtx.Tx) (guard.Outcome, error) { return op.run(t.Context(), tx) })
				assert.NoError(t, err, "%s", name)
				assert.Equal(t, out, want, "%s", name)
			}
			assert.Equal(t, w.queryNumber(t, op.seen), 1, "effects of %s", name)
			_, err := op.run(t.Context(), dbtx.SQL(db.Statement.ConnPool, dbtx.MySQL))
			assert.ErrorIs(t, err, guard.ErrMisuse, "%s without a transaction", name)
		}
		votes := guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
		create := func(key string) func(*gorm.DB, dbtx.Tx) (guard.Outcome, error) {
			return func(db *gorm.DB, tx dbtx.Tx) (guard.Outcome, error) {
				digest, err := guard.Digest(byKey(key))
				if err != nil {
					return 0, err
				}
				return votes.Try(t.Context(), tx, func(ctx context.Context) error {
					return db.WithContext(ctx).Create(&gormVote{Poll: 2, Voter: "ann", ByKey: digest}).Error
				}, func(ctx context.Context) (bool, error) {
					return votes.Own(ctx, tx, byKey(key), guard.Set{"poll": 2, "voter": "ann"})
				})
			}
		}
		for _, want := range []guard.Outcome{guard.Applied, guard.AlreadyApplied} {
			out, err := try(db, create("a"))
			assert.True(t, err == nil && out == want, "Create: %v, %v", out, err)
		}
		_, err = try(db, create("b"))
		assert.ErrorIs(t, err, guard.ErrConflict, "another's vote")
		translating, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: w.db}), &gorm.Config{Logger: logger.Discard, TranslateError: true})
		assert.NoError(t, err, "gorm.Open")
		_, err = try(translating, create("a"))
		assert.ErrorIs(t, err, guard.ErrMisuse, "errors that GORM has translated")
		assert.Contains(t, err.Error(), "TranslateError", "the error")
	}
}

// TestGuardMySQLSnapshot: at REPEATABLE READ a transaction that has read before sees an old state.
// The check whether a row is this request's own reads the new state.
func TestGuardMySQLSnapshot(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{"clientFoundRows=false", "clientFoundRows=true"} {
		for name, op := range retryableGuards(t) {
			w := guardOnMySQL(t, name, parameters)
			w.wantOut(t, guard.AlreadyApplied, name, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				var n int64
				assert.NoError(t, tx.QueryRow(ctx, op.seen, nil, &n), "what the transaction sees")
				assert.Equal(t, n, 0, "what the transaction sees")
				w.wantOut(t, guard.Applied, name+", first", op.run)
				out, err := op.run(ctx, tx)
				assert.NoError(t, tx.QueryRow(ctx, op.seen, nil, &n), "what the transaction sees")
				return out, err
			})
			assert.Equal(t, w.queryNumber(t, op.seen), 1, "effects of %s", name)
		}
	}
}

// TestGuardMySQLWords: a parser of MySQL 8 accepts all statements of guards, since the tests run on
// MariaDB.
func TestGuardMySQLWords(t *testing.T) {
	t.Parallel()
	w := guardOnMySQL(t, "MariaDB", "interpolateParams=false")
	proxy := servers.StartSQLProxy(t, w.port, servers.MySQLMessage)
	var mu sync.Mutex
	sent := map[string]bool{}
	proxy.Hook = func(statement string) servers.Cut {
		mu.Lock()
		defer mu.Unlock()
		sent[statement] = true
		return 0
	}
	db := sqltest.Open(t, "mysql", strings.Replace(w.dsn, "127.0.0.1:"+w.port, proxy.Addr, 1))
	all := []guardedCall{}
	for _, op := range retryableGuards(t) {
		all = append(all, op.run, op.run)
	}
	condition := guard.Condition{Table: "account", ID: "id", Column: "amount"}
	fence := guard.Fence{Table: "job", ID: "id", Column: "fence"}
	upsert := guard.Upsert{Table: "points", Columns: []string{"member"}}
	moment := guard.Version{Table: "account", ID: "id", Column: "changed", LastKey: "last_key"}
	for _, run := range []func(context.Context, dbtx.Tx) error{
		func(ctx context.Context, tx dbtx.Tx) error { return condition.Subtract(ctx, tx, 1, 1) },
		func(ctx context.Context, tx dbtx.Tx) error { return fence.Check(ctx, tx, 1, 7) },
		func(ctx context.Context, tx dbtx.Tx) error {
			return upsert.Put(ctx, tx, guard.Set{"member": "ann"}, guard.Set{"total": 1}, guard.Set{"total": guard.Add(1), "card": "c"})
		},
		withdrawFrom(&guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}}, w, 1, 1),
		withdrawFrom(&guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}, Wait: -1}, w, 1, 1),
		withdrawFrom(&guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}, Wait: 1}, w, 1, 1),
		func(ctx context.Context, tx dbtx.Tx) error {
			var now sql.NullTime
			if err := tx.QueryRow(ctx, "SELECT NOW(6)", nil, &now); err != nil {
				return err
			}
			_, err := moment.UpdateAt(ctx, tx, 2, now.Time, byKey("m"), guard.Set{"points": 1})
			if errors.Is(err, guard.ErrMisuse) { // the column is NULL
				return nil
			}
			return errors.Join(err, errNotCommitted)
		},
	} {
		all = append(all, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) { return outcomeOf(run(ctx, tx)) })
	}
	for _, run := range all {
		_, err := tryGuard(t.Context(), db, w.d, nil, run)
		assert.NoError(t, err, "a guard")
	}
	p := parser.New()
	mu.Lock()
	defer mu.Unlock()
	for _, word := range []string{"information_schema.STATISTICS", "CHARACTER_MAXIMUM_LENGTH", "DATETIME_PRECISION", "LOCK IN SHARE MODE", "FOR UPDATE NOWAIT", "ON DUPLICATE KEY", "innodb_lock_wait_timeout"} {
		found := false
		for statement := range sent {
			found = found || strings.Contains(statement, word)
		}
		assert.True(t, found, "%q was sent", word)
	}
	for statement := range sent {
		_, _, err := p.Parse(statement, "", "")
		assert.NoError(t, err, "MySQL 8 reads %q", statement)
	}
}
