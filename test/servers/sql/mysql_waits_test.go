package sql_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestMySQLTimeAfterAWait: a call that has waited for a row decides by the time at which it got it.
func TestMySQLTimeAfterAWait(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, db := teststores.MySQL(t, server.DSN("time_zone=%27%2B05:45%27"), nil)
	_, others := teststores.MySQL(t, server.DSN(), nil)
	held, free := teststores.Request("held"), teststores.Request("free")
	for _, req := range []storeapi.AcquireRequest{held, free} {
		_, err := s.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
	}
	tx, err := others.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	sqltest.Exec(t, tx, `UPDATE retrysafe_records SET updated = updated WHERE LOCATE('held', parts) > 0`)
	began := make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), held) // the owner's own repeated call renews the lease
		began <- err
	}()
	waits.Until(t.Context(), func() bool { return mysqlWaiting(t, others) == 1 })
	sqltest.Exec(t, db, `DO SLEEP(1.5)`)
	var released int64
	assert.NoError(t, others.QueryRowContext(t.Context(), `SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)`).Scan(&released), "the time")
	assert.NoError(t, tx.Rollback(), "release")
	assert.NoError(t, <-began, "Acquire")
	var updated int64
	assert.NoError(t, others.QueryRowContext(t.Context(), `SELECT updated FROM retrysafe_records WHERE LOCATE('held', parts) > 0`).Scan(&updated), "the record")
	assert.True(t, updated >= released, "the record is of the time after the wait: %d µs before", released-updated)
}

// TestMySQLWaitsLongerThanASecond: the server ends waits after a second; a call that has more time
// continues to wait.
func TestMySQLWaitsLongerThanASecond(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, _ := teststores.MySQL(t, server.DSN(), nil)
	_, others := teststores.MySQL(t, server.DSN(), nil)
	release := holdMySQLRow(t, others, sqlstore.DefaultTable, teststores.Request("held").Key)
	won := make(chan error, 1)
	go func() {
		a, err := s.Acquire(t.Context(), teststores.Request("held"))
		if err == nil && a.Status != storeapi.StatusAcquired {
			err = fmt.Errorf("it has not won: %v", a.Status)
		}
		won <- err
	}()
	sqltest.Exec(t, others, `DO SLEEP(1.5)`)
	release()
	assert.NoError(t, <-won, "Acquire behind a lock that was held for longer than a second")

	short, _ := teststores.MySQL(t, server.DSN(), &sqlstore.Options{LockWait: 1500 * time.Millisecond})
	defer holdMySQLRow(t, others, sqlstore.DefaultTable, teststores.Request("again").Key)()
	_, err := short.Acquire(t.Context(), teststores.Request("again"))
	assert.Contains(t, fmt.Sprint(err), "other transactions have held the row of this key", "Acquire behind a lock that is held all the time")
}

// TestMySQLSweepBlocksNobody: during a sweep new keys can be claimed, and locked rows are skipped.
func TestMySQLSweepBlocksNobody(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	proxy := servers.StartSQLProxy(t, server.Port, servers.MySQLMessage)
	s, _ := teststores.MySQL(t, server.DSN(), nil)
	sweeper, _ := teststores.MySQL(t, server.At(proxy.Addr), nil)
	_, others := teststores.MySQL(t, server.DSN(), nil)
	for i := range 50 {
		_, err := s.Acquire(t.Context(), teststores.Request(fmt.Sprint("old ", i)))
		assert.NoError(t, err, "Acquire")
	}
	sqltest.Exec(t, others, `UPDATE retrysafe_records SET state = 3, expires = 1`)
	release := holdMySQLRow(t, others, sqlstore.DefaultTable, teststores.Request("old 7").Key)
	goOn := proxy.Set(mysqlCommits, servers.LateRequest)
	swept := make(chan int, 1)
	go func() {
		n, err := sweeper.Sweep(t.Context(), 100)
		assert.NoError(t, err, "Sweep")
		swept <- n
	}()
	waits.Until(t.Context(), func() bool {
		return mysqlTransactions(t, others, `SELECT coalesce(max(trx_rows_modified), 0) FROM information_schema.innodb_trx`) >= 49
	})
	for i := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
		_, err := s.Acquire(ctx, teststores.Request(fmt.Sprint("new ", i)))
		cancel()
		assert.NoError(t, err, "Acquire of a new key beside a sweep")
	}
	goOn()
	assert.Equal(t, <-swept, 49, "swept, but for what was locked")
	release()
	n, err := sweeper.Sweep(t.Context(), 100)
	assert.NoError(t, err, "Sweep")
	assert.Equal(t, n, 1, "swept when it was let go")
}
