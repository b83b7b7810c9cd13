package tx_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestServerTxTableLocked: while the whole table of records is locked, as by an ALTER TABLE that
// waits or by LOCK TABLES, each call in a transaction ends after LockWait. No wait stays on the
// server, and the session keeps its settings.
func TestServerTxTableLocked(t *testing.T) {
	t.Parallel()
	shops.EachServerAndWords(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		a := server.Shop(t)
		store, err := sqlstore.New(a.DB, server.Dialect, &sqlstore.Options{LockWait: time.Second})
		assert.NoError(t, err, "a store")
		s := &shops.Shop{Store: store, Engine: teststores.Engine(t, store), DB: a.DB}
		s.WantOnce(t, "old", "nothing")
		lock, unlock := "LOCK TABLES retrysafe_records WRITE", "UNLOCK TABLES"
		blocked := "SELECT count(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"
		if server.Dialect == sqlstore.PostgreSQL {
			lock, unlock = "BEGIN; LOCK TABLE retrysafe_records IN ACCESS EXCLUSIVE MODE", "ROLLBACK"
			blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'retrysafe_records'::regclass"
		}
		others := sqltest.Open(t, server.Driver, server.DSN)
		conn, err := others.Conn(t.Context())
		assert.NoError(t, err, "a connection")
		defer conn.Close()
		locked := func(do func() error) error {
			sqltest.Exec(t, conn, lock)
			defer sqltest.Exec(t, conn, unlock)
			ended := make(chan error, 1)
			go func() { ended <- do() }()
			err := waits.Soon(t, ended, "a call while the table is locked")
			waits.Eventually(t, "no wait stays on the server", func() bool {
				var n int
				assert.NoError(t, others.QueryRowContext(t.Context(), blocked).Scan(&n), "%s", blocked)
				return n == 0
			})
			return err
		}
		for name, do := range map[string]func() error{
			"a new key": func() error { _, err := s.Order(context.Background(), "new"); return err },
			"a new key that may wait": func() error {
				_, err := s.Order(context.Background(), "new", retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Second}))
				return err
			},
			"a duplicate": func() error { _, err := s.Order(context.Background(), "old"); return err },
			"a transaction of the caller": func() error {
				tx, err := s.DB.BeginTx(context.Background(), nil)
				if err != nil {
					return err
				}
				defer tx.Rollback() // nothing was done
				_, err = retrysafe.DoTx(context.Background(), s.Engine, s.Store.In(tx), teststores.OrderKey("new"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
					return shops.Insert(ctx, tx, "new")
				})
				return err
			},
		} {
			err := locked(do)
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "%s", name)
			assert.Contains(t, err.Error(), "ALTER TABLE", "%s: advice", name)
		}
		// A step's record was claimed before the table was locked, and its transaction has to write
		// it.
		_, err = retrysafe.Do(t.Context(), s.Engine, teststores.OrderKey("step"), func(ctx context.Context) (int64, error) {
			_, err := retrysafe.StepTx(ctx, s.Store, "order", func(ctx context.Context, tx *sql.Tx) (int64, error) {
				sqltest.Exec(t, conn, lock)
				return shops.Insert(ctx, tx, "step")
			})
			sqltest.Exec(t, conn, unlock)
			return 0, retrysafe.NothingDone(err)
		})
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a step")
		s.WantNothing(t, "new", "a locked table")
		assert.Equal(t, s.Orders(t, "step"), 0, "orders of the step")
		s.WantOnce(t, "new", "a locked table")
	})
}
