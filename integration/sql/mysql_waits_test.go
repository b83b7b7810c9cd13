package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/sqltest"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// mysqlTransactions returns a number from the server's table of transactions. The server refreshes
// that table only if no query has read it for a tenth of a second.
func mysqlTransactions(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	sqltest.Exec(t, db, `DO SLEEP(0.11)`)
	assert.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n), "look at the server")
	return n
}

// mysqlWaiting returns how many transactions of the server wait for a lock.
func mysqlWaiting(t *testing.T, db *sql.DB) int {
	t.Helper()
	return mysqlTransactions(t, db, `SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'`)
}

// TestMySQLTimeAfterAWait: a call that has waited for a row decides by the time at which it got it.
func TestMySQLTimeAfterAWait(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, db := teststores.MySQL(t, server.DSN("time_zone=%27%2B05:45%27"), nil)
	_, others := teststores.MySQL(t, server.DSN(), nil)
	held, free := teststores.Request("held"), teststores.Request("free")
	for _, req := range []retrysafe.AcquireRequest{held, free} {
		_, err := s.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
	}
	tx, err := others.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	sqltest.Exec(t, tx, `UPDATE retrysafe_records SET attempt = attempt WHERE key_id = 'held'`)
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
	assert.NoError(t, others.QueryRowContext(t.Context(), `SELECT updated FROM retrysafe_records WHERE key_id = 'held'`).Scan(&updated), "the record")
	assert.True(t, updated >= released, "the record is of the time after the wait: %d µs before", released-updated)
}

// TestMySQLWaitLeavesNothingBehind: a wait for a row ends with the time of the call, and a moment
// later on the server too, also if the caller has gone: the lock must not be granted later.
func TestMySQLWaitLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, _ := teststores.MySQL(t, server.DSN("innodb_lock_wait_timeout=600"), &sqlstore.Options{LockWait: waits.Long})
	_, others := teststores.MySQL(t, server.DSN(), nil)
	req := teststores.Request("held")
	defer holdMySQLRow(t, others, sqlstore.DefaultTable, req.Key)()
	for _, leaves := range []bool{false, true} {
		rec, err := s.Lookup(t.Context(), req.Key)
		assert.NoError(t, err, "Lookup")
		req.NotAfter = time.Time{}
		if !leaves {
			req.NotAfter = rec.Now.Add(300 * time.Millisecond)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := s.Acquire(ctx, req); done <- err }()
		waits.Until(t.Context(), func() bool { return mysqlWaiting(t, others) == 1 || len(done) == 1 })
		if leaves {
			cancel()
		}
		err = <-done
		cancel()
		if leaves {
			assert.ErrorIs(t, err, context.Canceled, "Acquire of a caller who has gone")
		} else {
			assert.ErrorIs(t, err, retrysafe.ErrTooLate, "Acquire behind a lock")
		}
		// The server's granularity is a second on a busy machine; LockWait is ten times as long.
		late := time.Now().Add(time.Minute)
		waits.Until(t.Context(), func() bool { return mysqlWaiting(t, others) == 0 || time.Now().After(late) })
		assert.Equal(t, mysqlWaiting(t, others), 0, "waits on the server afterwards")
	}
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
		if err == nil && a.Status != retrysafe.Won {
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

// TestMySQLSweptWhileWaiting: a call that has waited for a row that a sweep removes begins above
// the removed fence.
func TestMySQLSweptWhileWaiting(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, _ := teststores.MySQL(t, server.DSN(), nil)
	_, others := teststores.MySQL(t, server.DSN(), nil)
	_, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	const future = int64(1) << 52 // no clock shows that
	sqltest.Exec(t, others, `UPDATE retrysafe_records SET fence = ?, expires = 1`, future)
	sweep, err := others.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	sqltest.Exec(t, sweep, `DELETE FROM retrysafe_records`)
	again := teststores.Request("a")
	again.Owner = teststores.Owner("again")
	won := make(chan retrysafe.Acquired, 1)
	go func() {
		a, err := s.Acquire(t.Context(), again)
		assert.NoError(t, err, "Acquire behind a sweep")
		won <- a
	}()
	waits.Until(t.Context(), func() bool { return mysqlWaiting(t, others) == 1 })
	sqltest.Exec(t, sweep, `UPDATE retrysafe_records_meta SET fence_floor = ?`, future)
	assert.NoError(t, sweep.Commit(), "commit")
	a := <-won
	assert.Equal(t, a.Record.Fence, retrysafe.Fence(future+1), "the fence")
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

// TestMySQLPoolIsTaken: without a free connection a call ends with its context or after LockWait,
// and says what to do.
func TestMySQLPoolIsTaken(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, db := teststores.MySQL(t, server.DSN(), &sqlstore.Options{LockWait: 200 * time.Millisecond})
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	assert.NoError(t, err, "the only connection")
	_, err = s.Acquire(t.Context(), teststores.Request("a"))
	assert.Contains(t, fmt.Sprint(err), "give the pool more connections", "Acquire")
	_, err = s.Charge(t.Context(), retrysafe.ChargeRequest{Namespace: "app", Keys: 1, For: time.Hour})
	assert.ErrorIs(t, err, retrysafe.ErrTooLate, "Charge")
	assert.NoError(t, conn.Close(), "give it back")
	var a retrysafe.Acquired
	waits.Until(t.Context(), func() bool { // 200 ms are short on a busy machine
		a, err = s.Acquire(t.Context(), teststores.Request("a"))
		return err == nil
	})
	assert.Equal(t, a.Status, retrysafe.Won, "Acquire")
}

// TestMySQLHeldRowTakesOneConnection: calls that wait for a held row leave the pool to others.
func TestMySQLHeldRowTakesOneConnection(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, db := teststores.MySQL(t, server.DSN(), &sqlstore.Options{LockWait: waits.Long})
	_, others := teststores.MySQL(t, server.DSN(), nil)
	db.SetMaxOpenConns(2)
	release := holdMySQLRow(t, others, sqlstore.DefaultTable, teststores.Request("held").Key)
	var waiting sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 8 {
		req := teststores.Request("held")
		req.Owner = teststores.Owner(fmt.Sprint(i))
		waiting.Go(func() { _, _ = s.Acquire(ctx, req) })
	}
	// The first of them waits on the server.
	waits.Until(t.Context(), func() bool { return mysqlWaiting(t, others) > 0 })
	for i := range 20 {
		short, end := context.WithTimeout(t.Context(), waits.Patience)
		a, err := s.Acquire(short, teststores.Request(fmt.Sprint("free ", i)))
		end()
		assert.NoError(t, err, "another key")
		assert.Equal(t, a.Status, retrysafe.Won, "another key")
	}
	cancel()
	waiting.Wait()
	release()
}

// TestMySQLServerHangs: a server that accepts calls and answers none holds them for LockWait and a
// second, also without a time limit of their own, and works again when it continues.
func TestMySQLServerHangs(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, _ := teststores.MySQL(t, server.DSN(), &sqlstore.Options{LockWait: 200 * time.Millisecond})
	patient, _ := teststores.MySQL(t, server.DSN(), nil)
	req := teststores.Request("a")
	a, err := patient.Acquire(t.Context(), req)
	assert.NoError(t, err, "Acquire")
	resume := server.Stall()
	defer resume()
	err = s.Extend(t.Context(), retrysafe.ExtendRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, Lease: time.Hour})
	assert.Contains(t, fmt.Sprint(err), "the server does not answer", "Extend")
	_, err = s.Lookup(t.Context(), req.Key)
	assert.True(t, err != nil, "Lookup fails")
	resume()
	waits.Until(t.Context(), func() bool {
		return s.Extend(t.Context(), retrysafe.ExtendRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, Lease: time.Hour}) == nil
	})
	rec, err := patient.Lookup(t.Context(), req.Key)
	assert.NoError(t, err, "Lookup")
	assert.True(t, rec.LeaseLeft > time.Minute, "the lease was renewed")
}
