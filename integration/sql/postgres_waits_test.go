package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/shops"
	"github.com/retrysafe/retrysafe/integration/internal/sqltest"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// waitingForLocks returns how many connections of the server wait for a lock.
func waitingForLocks(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&n)
	assert.NoError(t, err, "look at the server")
	return n
}

// TestPostgresWaitEndsOnTheServer: a wait for a held row ends with the time of the call, on the
// server too, also if the caller has gone: the lock must not be granted later.
func TestPostgresWaitEndsOnTheServer(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	s, _ := teststores.Postgres(t, server.URL(), &sqlstore.Options{LockWait: waits.Long})
	_, others := teststores.Postgres(t, server.URL(), nil)
	req := teststores.Request("held")
	defer holdRow(t, others, sqlstore.DefaultTable, req.Key)()
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
		waits.Until(t.Context(), func() bool { return waitingForLocks(t, others) == 1 || len(done) == 1 })
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
		// A busy machine takes its time; LockWait is ten times as long.
		late := time.Now().Add(time.Minute)
		waits.Until(t.Context(), func() bool { return waitingForLocks(t, others) == 0 || time.Now().After(late) })
		assert.Equal(t, waitingForLocks(t, others), 0, "waits on the server afterwards")
	}
}

// TestPostgresSweptWhileWaiting: a call that has waited for a row that a sweep removes begins above
// the removed fence.
func TestPostgresSweptWhileWaiting(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	s, _ := teststores.Postgres(t, server.URL(), nil)
	_, others := teststores.Postgres(t, server.URL(), nil)
	_, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	const future = int64(1) << 52 // no clock shows that
	sqltest.Exec(t, others, `UPDATE retrysafe_records SET fence = $1, expires = 1`, future)
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
	waits.Until(t.Context(), func() bool { return waitingForLocks(t, others) == 1 })
	sqltest.Exec(t, sweep, `UPDATE retrysafe_records_meta SET fence_floor = $1`, future)
	assert.NoError(t, sweep.Commit(), "commit")
	a := <-won
	assert.Equal(t, a.Record.Fence, retrysafe.Fence(future+1), "the fence")
}

// TestPostgresReplicaIsAway: a claim that no synchronous replica has is not confirmed, and belongs
// to the owner when it repeats the call.
func TestPostgresReplicaIsAway(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t, "-c", "wal_level=replica")
	s, _ := teststores.Postgres(t, server.URL(), &sqlstore.Options{LockWait: 100 * time.Millisecond})
	patient, admin := teststores.Postgres(t, server.URL(), nil)
	replicas := func(names string) {
		sqltest.Exec(t, admin, `ALTER SYSTEM SET synchronous_standby_names = '`+names+`'`)
		sqltest.Exec(t, admin, `SELECT pg_reload_conf()`)
		waits.Until(t.Context(), func() bool {
			var set string
			err := admin.QueryRowContext(t.Context(), `SHOW synchronous_standby_names`).Scan(&set)
			return err == nil && set == names
		})
		probe := func(ctx context.Context) error {
			_, err := admin.ExecContext(ctx, `CREATE OR REPLACE VIEW probe AS SELECT 1 AS n`)
			return err
		}
		if names == "" { // commits that need no replica are released after a while
			assert.NoError(t, probe(t.Context()), "a commit that needs no replica")
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { // the server applies it after a while, and then commits wait
			var err error
			for ; err == nil; err = probe(ctx) {
			}
			ended <- err
		}()
		waits.Until(t.Context(), func() bool {
			var waiting int
			err := admin.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).Scan(&waiting)
			assert.NoError(t, err, "look at the server")
			return waiting > 0
		})
		cancel()
		<-ended
	}
	replicas("nobody")
	var err error
	waits.Until(t.Context(), func() bool {
		// 100 ms are short on a busy machine; the call may not even reach its commit.
		_, err = s.Acquire(t.Context(), teststores.Request("a"))
		return !strings.Contains(fmt.Sprint(err), "nothing was changed")
	})
	assert.Contains(t, fmt.Sprint(err), "nobody knows whether it was carried out", "Acquire without a replica")
	replicas("")
	a, err := patient.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "the owner's repeat")
	assert.Equal(t, a.Status, retrysafe.Won, "the owner's repeat")
	assert.Equal(t, a.Record.Attempt, 1, "attempts")

	replicas("nobody")
	end := retrysafe.CompleteRequest{
		Key: a.Record.Key, Owner: a.Record.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: retrysafe.Answer{Kept: true, Codec: "raw"},
	}
	for n := range 2 {
		_, err = s.Complete(t.Context(), end)
		assert.True(t, err != nil, "Complete %d without a replica", n)
	}
	e := teststores.Engine(t, s)
	sqltest.Exec(t, sqltest.Open(t, "pgx", server.URL("synchronous_commit=local")), "CREATE TABLE orders (id SERIAL PRIMARY KEY, customer TEXT NOT NULL)")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	res, err := retrysafe.DoTx(ctx, e, s, teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) { return shops.Insert(ctx, tx, "ada") })
	assert.True(t, err != nil && !res.Stored, "DoTx without a replica: %+v", res)
	replicas("")
	_, err = patient.Complete(t.Context(), end)
	assert.NoError(t, err, "Complete with its replica again")
	(&shops.Shop{Store: patient, Engine: teststores.Engine(t, patient), DB: admin}).WantOnce(t, "ada", "the replica was away")
}

// TestPostgresServerHangs: a server that accepts calls and answers none holds them for LockWait and
// a second, also without a time limit of their own, and works again when it continues.
func TestPostgresServerHangs(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	s, _ := teststores.Postgres(t, server.URL(), &sqlstore.Options{LockWait: 100 * time.Millisecond})
	patient, _ := teststores.Postgres(t, server.URL(), nil)
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
