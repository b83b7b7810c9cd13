package guards_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// TestGuardCondition: no more is subtracted than there is. Without a key a retry subtracts again,
// and with one it does not.
func TestGuardCondition(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		account := guard.Condition{Table: "account", ID: "id", Column: "amount"}
		pay := func(id, n int64) func(context.Context, dbtx.Tx) error {
			return func(ctx context.Context, tx dbtx.Tx) error { return account.Subtract(ctx, tx, id, n) }
		}
		bare := func(id, n int64) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) { return outcomeOf(pay(id, n)(ctx, tx)) }
		}
		amount := func(id string) int64 { return w.queryNumber(t, "SELECT amount FROM account WHERE id = "+id) }
		s := w.newShop(t)
		s.doCopies(t, "copies", pay(1, 30))
		assert.Equal(t, amount("1"), 70, "what 100 copies with a key leave of 100")
		for range 2 {
			w.wantOut(t, guard.Applied, "without a key", bare(2, 30))
		}
		assert.Equal(t, amount("2"), 40, "what one payment leaves that was sent twice without a key")
		w.wantErr(t, guard.ErrRefused, "more than there is", bare(2, 41))
		w.wantErr(t, guard.ErrMissing, "no such row", bare(9, 1))
		_, err := s.doGuarded(t.Context(), "too much", pay(2, 41))
		assert.ErrorIs(t, err, guard.ErrRefused, "more than there is, inside of DoTx")
		assert.Equal(t, amount("2"), 40, "what is left")

		// Of many concurrent requests with different keys, as many are paid as there is money for.
		var paid, refused int
		ended := make(chan error, 20)
		for i := range 20 {
			go func() {
				_, err := s.doGuarded(context.Background(), string(rune('a'+i)), pay(2, 10))
				ended <- err
			}()
		}
		for range 20 {
			switch err := <-ended; {
			case err == nil:
				paid++
			case errors.Is(err, guard.ErrRefused):
				refused++
			default:
				t.Errorf("a payment: %v", err)
			}
		}
		assert.Equal(t, paid, 4, "payments of 10 out of 40")
		assert.Equal(t, refused, 16, "payments that were refused")
		assert.Equal(t, amount("2"), 0, "what is left")
		sqltest.Exec(t, w.db, "UPDATE account SET amount = NULL WHERE id = 2")
		w.wantErr(t, guard.ErrRefused, "an amount that is NULL", bare(2, 1))
	})
}

// withdrawFrom is a payment that Go code decides on.
func withdrawFrom(account *guard.RowLock, w *guardDB, id, n int64) func(context.Context, dbtx.Tx) error {
	return func(ctx context.Context, tx dbtx.Tx) error {
		var amount sql.NullInt64
		err := account.Lock(ctx, tx, id, func() error {
			if amount.Int64 < n {
				return guard.ErrRefused
			}
			return nil
		}, &amount)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE account SET amount = "+w.firstPlaceholder(1)+" WHERE id = "+w.firstPlaceholder(2), amount.Int64-n, id)
		return err
	}
}

// TestGuardRowLock: what is decided under the lock still holds when it is written. Without a key a
// retry decides again.
func TestGuardRowLock(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		for _, wait := range []time.Duration{0, time.Minute} {
			sqltest.Exec(t, w.db, "UPDATE account SET amount = 100")
			account := &guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}, Wait: wait}
			bare := func(id, n int64) guardedCall {
				return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
					return outcomeOf(withdrawFrom(account, w, id, n)(ctx, tx))
				}
			}
			amount := func(id string) int64 { return w.queryNumber(t, "SELECT amount FROM account WHERE id = "+id) }
			s := w.newShop(t)
			s.doCopies(t, "copies "+wait.String(), withdrawFrom(account, w, 1, 30))
			assert.Equal(t, amount("1"), 70, "what 100 copies with a key leave of 100")
			for range 2 {
				w.wantOut(t, guard.Applied, "without a key", bare(2, 30))
			}
			assert.Equal(t, amount("2"), 40, "what one payment leaves that was sent twice without a key")
			w.wantErr(t, guard.ErrRefused, "more than there is", bare(2, 41))
			w.wantErr(t, guard.ErrMissing, "no such row", bare(9, 1))
			ended := make(chan error, 20)
			for range 20 {
				go func() {
					_, err := w.runInTx(context.Background(), bare(2, 10))
					ended <- err
				}()
			}
			paid := 0
			for range 20 {
				err := <-ended
				if err == nil {
					paid++
					continue
				}
				assert.ErrorIs(t, err, guard.ErrRefused, "a payment at once with others")
			}
			assert.Equal(t, paid, 4, "payments of 10 out of 40")
			assert.Equal(t, amount("2"), 0, "what is left")
		}
	})
}

// TestGuardRowLockWait: the wait for a row is limited, and the limit is only for this lock.
func TestGuardRowLockWait(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		if w.d == dbtx.SQLite {
			path := sqltest.NewFile(t)
			w = guardOnSQLite(t, path)
			w.db = sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path, "busy_timeout(0)"))
		}
		setting := map[dbtx.Dialect]string{dbtx.PostgreSQL: "SELECT current_setting('lock_timeout')", dbtx.MySQL: "SELECT @@innodb_lock_wait_timeout"}[w.d]
		ask := func(ctx context.Context, tx dbtx.Tx) (v string) {
			if setting != "" {
				assert.NoError(t, tx.QueryRow(ctx, setting, nil, &v), "ask")
			}
			return v
		}
		for _, wait := range []time.Duration{-1, 50 * time.Millisecond} {
			account := &guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}, Wait: wait}
			lock := func(ctx context.Context, tx dbtx.Tx) error {
				var amount int64
				return account.Lock(ctx, tx, 1, func() error { return nil }, &amount)
			}
			holder, err := w.db.BeginTx(t.Context(), nil)
			assert.NoError(t, err, "begin")
			assert.NoError(t, lock(t.Context(), dbtx.SQL(holder, w.d)), "the holder")
			w.wantErr(t, guard.ErrLocked, "while another has the row", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				before := ask(ctx, tx)
				err := lock(ctx, tx)
				if w.d == dbtx.MySQL {
					assert.Equal(t, ask(ctx, tx), before, "the setting behind it")
				}
				return outcomeOf(err)
			})
			assert.NoError(t, holder.Commit(), "commit")
			w.wantOut(t, guard.Applied, "when the row is free", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				before := ask(ctx, tx)
				err := lock(ctx, tx)
				assert.Equal(t, ask(ctx, tx), before, "the setting behind it")
				return outcomeOf(err)
			})
		}
	})
}

// TestGuardSQLiteReadFirst: in a deferred transaction that has read before another one wrote, each
// guard refuses and says what to do. In one with BEGIN IMMEDIATE it does not.
func TestGuardSQLiteReadFirst(t *testing.T) {
	t.Parallel()
	w := guardOnSQLite(t, sqltest.NewFile(t))
	other := w.openPool(t)
	account := &guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}}
	version := guard.Version{Table: "account", ID: "id", Column: "version"}
	for name, f := range map[string]func(context.Context, dbtx.Tx) error{
		"RowLock": withdrawFrom(account, w, 1, 1),
		"Version": func(ctx context.Context, tx dbtx.Tx) error {
			_, err := version.Update(ctx, tx, 1, 1, retrysafe.Key{}, guard.Set{"points": 1})
			return err
		},
	} {
		w.wantErr(t, guard.ErrLocked, name, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			var n int64
			assert.NoError(t, tx.QueryRow(ctx, "SELECT amount FROM account WHERE id = 1", nil, &n), "read")
			sqltest.Exec(t, other, "UPDATE account SET amount = amount + 1 WHERE id = 1")
			err := f(ctx, tx)
			assert.ErrorIs(t, err, guard.ErrLocked, "%s", name)
			assert.Contains(t, err.Error(), "has only read until now, and another one has written since; begin it with BEGIN IMMEDIATE", "%s", name)
			return outcomeOf(err)
		})
		conn, err := w.db.Conn(t.Context())
		assert.NoError(t, err, "a connection")
		sqltest.Exec(t, conn, "BEGIN IMMEDIATE")
		assert.ErrorIs(t, f(t.Context(), dbtx.SQL(conn, w.d)), guard.ErrMisuse, "a connection that is not said to be in a transaction")
		assert.NoError(t, f(t.Context(), dbtx.Begun(conn, w.d)), "%s behind BEGIN IMMEDIATE", name)
		sqltest.Exec(t, conn, "ROLLBACK")
		assert.NoError(t, conn.Close(), "close")
	}
	assert.ErrorIs(t, withdrawFrom(account, w, 1, 1)(t.Context(), dbtx.SQL(w.db, w.d)), guard.ErrMisuse, "a pool")
}
