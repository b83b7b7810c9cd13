package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// watchedTx calls before and after around each statement. before may refuse it.
type watchedTx struct {
	dbtx.Tx
	before func(statement string) error
	after  func(statement string)
}

func (t watchedTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	if err := t.before(statement); err != nil {
		return 0, err
	}
	defer t.after(statement)
	return t.Tx.Exec(ctx, statement, args...)
}

// TestMySQLTxJoinedWaits: on a server without SET STATEMENT, a caller's transaction has its own
// lock waits again after a claim, also if the call ends meanwhile. If they cannot be restored, no
// later user of the connection gets those of the claim.
func TestMySQLTxJoinedWaits(t *testing.T) {
	t.Parallel()
	on := shops.OnMySQL(servers.StartMySQL(t).DSN("innodb_lock_wait_timeout=77", "lock_wait_timeout=78"))
	on.Driver = sqltest.MySQLWords
	s := on.Shop(t)
	s.DB.SetMaxOpenConns(1)
	setting := func(db interface {
		QueryRowContext(context.Context, string, ...any) *sql.Row
	},
	) (v string) {
		t.Helper()
		err := db.QueryRowContext(t.Context(), "SELECT concat(@@innodb_lock_wait_timeout, ' ', @@lock_wait_timeout)").Scan(&v)
		assert.NoError(t, err, "ask")
		return v
	}
	const own = "77 78"
	nothing := func(context.Context, dbtx.Tx) (int64, error) { return 1, nil }
	for _, key := range []string{"the call ends", "the server refuses to restore them"} {
		tx, err := s.DB.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		ctx, cancel := context.WithCancel(t.Context())
		restored := false
		watched := watchedTx{dbtx.SQL(tx, dbtx.MySQL), func(statement string) error {
			if !strings.HasPrefix(statement, "SET innodb_lock_wait_timeout = @") {
				return nil
			}
			restored = true
			if key != "the call ends" {
				return errors.New("query execution was interrupted")
			}
			return nil
		}, func(statement string) {
			if key == "the call ends" && strings.HasPrefix(statement, "INSERT") {
				cancel()
			}
		}}
		_, err = retrysafe.DoTx(ctx, s.Engine, s.Store.InTx(watched), teststores.OrderKey(key), nothing)
		cancel()
		assert.True(t, err != nil && restored, "%s: %v", key, err)
		if key == "the call ends" {
			assert.Equal(t, setting(tx), own, "%s: in the rest of the transaction", key)
		}
		_ = tx.Rollback()
		assert.Equal(t, setting(s.DB), own, "%s: for the next user of the connection", key)
		s.WantNothing(t, key, "a rollback")
	}
}
