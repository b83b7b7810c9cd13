package guards_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// retryableGuards are one operation of each guard that detects duplicates itself. Each has a query
// for its effects, of which there must be one.
func retryableGuards(t *testing.T) map[string]struct {
	run  guardedCall
	seen string
} {
	t.Helper()
	type status string
	version := &guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}
	unique := &guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
	primary := &guard.PrimaryKey{Table: "purchase", ID: "id", Key: "by_key"}
	orders, err := guard.NewMachine("purchase", "id", "status", map[status][]status{"placed": {"paid"}}, nil)
	assert.NoError(t, err, "the machine")
	return map[string]struct {
		run  guardedCall
		seen string
	}{
		"Version": {func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return version.Update(ctx, tx, 1, 1, byKey("a"), guard.Set{"points": guard.Add(1)})
		}, "SELECT points FROM account WHERE id = 1"},
		"Unique": {func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return unique.Insert(ctx, tx, byKey("a"), guard.Set{"poll": 1, "voter": "ann"})
		}, "SELECT count(*) FROM vote"},
		"PrimaryKey": {func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return primary.Insert(ctx, tx, "o2", byKey("a"), nil)
		}, "SELECT count(*) FROM purchase WHERE id = 'o2'"},
		"Machine": {func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return orders.Move(ctx, tx, "o1", "placed", "paid", guard.Set{"step": guard.Add(1)})
		}, "SELECT step - 1 FROM purchase WHERE id = 'o1'"},
	}
}

// TestGuardCommitLost: if the request or the reply of a COMMIT is lost, a retry has one effect in
// total, and gets Repeat if the effect was there.
func TestGuardCommitLost(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		if w.name == "MariaDB found rows" {
			return // the counting mode does not matter here
		}
		for name, op := range retryableGuards(t) {
			fresh := map[dbtx.Dialect]func(*testing.T) *guardDB{dbtx.PostgreSQL: func(t *testing.T) *guardDB { t.Helper(); return guardOnPostgres(t, w.version) }, dbtx.MySQL: func(t *testing.T) *guardDB { t.Helper(); return guardOnMySQL(t, name) }}[w.d]
			for _, what := range []servers.Cut{servers.LoseReply, servers.LoseRequest} {
				var direct *guardDB
				var lossy *sql.DB
				var lose func()
				if fresh != nil {
					direct = fresh(t)
					read, word := servers.PostgresMessage, "commit\x00"
					if w.d == dbtx.MySQL {
						read, word = servers.MySQLMessage, "COMMIT"
					}
					proxy := servers.StartSQLProxy(t, w.port, read)
					lossy = sqltest.Open(t, w.driver, strings.Replace(direct.dsn, net.JoinHostPort("127.0.0.1", w.port), proxy.Addr, 1))
					lose = func() { proxy.Set(word, what) }
				} else {
					path := sqltest.NewFile(t)
					direct = guardOnSQLite(t, path)
					db, set := sqltest.OpenFaulty(t, sqltest.SQLiteDSN(path, "busy_timeout(30000)"))
					lossy = db
					lose = func() {
						set(func(step string, run func() error) error {
							if step != "commit" {
								return run()
							}
							if what == servers.LoseReply {
								_ = run()
							}
							return errors.New("the line is cut")
						})
					}
				}
				lose()
				_, err := tryGuard(t.Context(), lossy, w.d, nil, op.run)
				assert.True(t, err != nil, "%s: the COMMIT has no answer", name)
				_ = lossy.Close() // SQLite's transaction ends with its connection
				want := guard.Applied
				if what == servers.LoseReply {
					want = guard.AlreadyApplied
				}
				direct.wantOut(t, want, name+", the same again", op.run)
				assert.Equal(t, direct.queryNumber(t, op.seen), 1, "effects of %s", name)
			}
		}
	})
}

// TestGuardUndone: a rolled-back write does not count, so the next one is applied. With an ended
// context nothing is done.
func TestGuardUndone(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		for name, op := range retryableGuards(t) {
			w.wantErr(t, errNotCommitted, name, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				out, err := op.run(ctx, tx)
				return out, errors.Join(err, errNotCommitted)
			})
			ended, end := context.WithCancel(t.Context())
			w.wantErr(t, context.Canceled, name, func(_ context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				end()
				return op.run(ended, tx)
			})
			assert.Equal(t, w.queryNumber(t, op.seen), 0, "effects of %s", name)
			w.wantOut(t, guard.Applied, name, op.run)
			assert.Equal(t, w.queryNumber(t, op.seen), 1, "effects of %s", name)
		}
	})
}

// TestGuardDeadlock: two transfers lock the same accounts in opposite orders, and the database
// aborts one. With RetryWork, DoTx runs it again. Without RetryWork it leaves no effect.
func TestGuardDeadlock(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		if w.d == dbtx.SQLite {
			return // it has one writer
		}
		account := guard.Condition{Table: "account", ID: "id", Column: "amount"}
		s := w.newShop(t)
		for name, c := range map[string]struct{ retries, failed int }{"told": {0, 1}, "made anew": {5, 0}} {
			sqltest.Exec(t, w.db, "UPDATE account SET amount = 100")
			var both, all sync.WaitGroup
			both.Add(2)
			errs := [2]error{}
			for i := range 2 {
				met := false
				all.Go(func() {
					_, errs[i] = s.doGuarded(t.Context(), name+string(rune('a'+i)), func(ctx context.Context, tx dbtx.Tx) error {
						err := account.Subtract(ctx, tx, 1+i, 10)
						if !met {
							met = true
							both.Done()
							both.Wait()
						}
						return errors.Join(err, account.Subtract(ctx, tx, 2-i, 10))
					}, retrysafe.RetryWork(c.retries))
				})
			}
			all.Wait()
			failed := 0
			for _, err := range errs {
				if err != nil {
					failed++
					assert.Contains(t, err.Error(), "RetryWork", "the error")
				}
			}
			assert.Equal(t, failed, c.failed, "calls that failed, %s: %v", name, errs)
			assert.Equal(t, w.queryNumber(t, "SELECT sum(amount) FROM account"), int64(200-20*(2-failed)), "what is left, %s", name)
		}
	})
}

// TestGuardSerializable: at SERIALIZABLE on PostgreSQL, and on MariaDB, a duplicate that comes too
// late may get an error that asks for a new transaction. In a new transaction it is answered.
func TestGuardSerializable(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		if w.d == dbtx.SQLite || w.name == "MariaDB found rows" {
			return // SQLite has one level; the counting mode does not matter
		}
		for name, op := range retryableGuards(t) {
			var applied, repeats, again atomic.Int64
			var all sync.WaitGroup
			for range manyCopies {
				all.Go(func() {
					for {
						out, err := tryGuard(t.Context(), w.db, w.d, &sql.TxOptions{Isolation: sql.LevelSerializable}, op.run)
						switch {
						case out == guard.Applied && err == nil:
							applied.Add(1)
						case out == guard.AlreadyApplied && err == nil:
							repeats.Add(1)
						case txUndone(err):
							again.Add(1)
							continue
						default:
							t.Errorf("%s: %v", name, err)
						}
						return
					}
				})
			}
			all.Wait()
			assert.Equal(t, applied.Load(), 1, "%s: copies that were applied", name)
			assert.Equal(t, repeats.Load(), manyCopies-1, "%s: copies that were told so (%d were made anew)", name, again.Load())
			assert.Equal(t, w.queryNumber(t, op.seen), 1, "effects of %s", name)
		}
		if w.d != dbtx.PostgreSQL {
			return
		}
		// The error itself, as DoTx sees it.
		version := &guard.Version{Table: "account", ID: "id", Column: "version"}
		late := func() error {
			_, err := tryGuard(t.Context(), w.db, w.d, &sql.TxOptions{Isolation: sql.LevelSerializable}, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				var n int64
				assert.NoError(t, tx.QueryRow(ctx, "SELECT version FROM account WHERE id = 2", nil, &n), "read")
				sqltest.Exec(t, w.db, "UPDATE account SET points = points + 1 WHERE id = 2")
				return version.Update(ctx, tx, 2, n, retrysafe.Key{}, guard.Set{"points": 1})
			})
			return err
		}
		s, runs := w.newShop(t), 0
		_, err := s.doGuarded(t.Context(), "serializable", func(context.Context, dbtx.Tx) error {
			if runs++; runs == 1 {
				err := late()
				assert.True(t, txUndone(err), "a serialization failure: %v", err)
				return err
			}
			return nil
		}, retrysafe.RetryWork(1))
		assert.NoError(t, err, "DoTx makes the work again")
		assert.Equal(t, runs, 2, "runs")
	})
}

// txUndone reports whether the database aborted a transaction in favour of another one.
func txUndone(err error) bool {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState() == "40001" || state.SQLState() == "40P01"
	}
	return err != nil && (strings.Contains(err.Error(), "Error 1213") || strings.Contains(err.Error(), "Error 1020"))
}
