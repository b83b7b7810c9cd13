package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestServerWaitEnds: a wait for a held row ends with the time of the call, on the server too, also
// if the caller has gone: the lock must not be granted later.
func TestServerWaitEnds(t *testing.T) {
	t.Parallel()
	eachSQLServer(t, func(t *testing.T, server *sqlServer) {
		t.Helper()
		s, _ := server.store(t, server.patient, &sqlstore.Options{LockWait: waits.Long})
		_, others := server.store(t, server.url, nil)
		req := teststores.Request("held")
		defer server.hold(t, others, sqlstore.DefaultTable, req.Key)()
		for tries := 1; ; tries++ {
			// On a slow machine the server's answer may come when the call no longer waits for it.
			err := waitInVain(t, server, s, others, req, false)
			if errors.Is(err, retrysafe.ErrTooLate) {
				break
			}
			assert.True(t, err != nil && tries < 20, "Acquire after a lock, call %d: %v", tries, err)
		}
		err := waitInVain(t, server, s, others, req, true)
		assert.ErrorIs(t, err, context.Canceled, "Acquire of a caller who has gone")
	})
}

// waitInVain acquires a held record until the time of the call ends, or until its caller leaves,
// and sees that no session waits on the server afterwards.
func waitInVain(t *testing.T, server *sqlServer, s *sqlstore.Store, others *sql.DB, req storeapi.AcquireRequest, leaves bool) error {
	t.Helper()
	if !leaves {
		rec, err := s.Lookup(t.Context(), req.Key)
		assert.NoError(t, err, "Lookup")
		req.NotAfter = rec.Now.Add(300 * time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { _, err := s.Acquire(ctx, req); done <- err }()
	waits.Until(t.Context(), func() bool { return server.waiting(t, others) == 1 || len(done) == 1 })
	if leaves {
		cancel()
	}
	err := <-done
	// MariaDB's granularity is a second on a busy machine; LockWait is much longer.
	late := time.Now().Add(time.Minute)
	waits.Until(t.Context(), func() bool { return server.waiting(t, others) == 0 || time.Now().After(late) })
	assert.Equal(t, server.waiting(t, others), 0, "waits on the server afterwards")
	return err
}

// TestServerSweptWhileWaiting: a call that has waited for a row that a sweep removes begins above
// the removed fence.
func TestServerSweptWhileWaiting(t *testing.T) {
	t.Parallel()
	eachSQLServer(t, func(t *testing.T, server *sqlServer) {
		t.Helper()
		s, _ := server.store(t, server.url, nil)
		sweptWhileWaiting(t, server, s, s)
	})
}

// TestServerSweptWhileANewcomerWaits: the same for a store that has not seen the key before.
func TestServerSweptWhileANewcomerWaits(t *testing.T) {
	t.Parallel()
	eachSQLServer(t, func(t *testing.T, server *sqlServer) {
		t.Helper()
		s, _ := server.store(t, server.url, nil)
		newcomer, _ := server.store(t, server.url, nil)
		sweptWhileWaiting(t, server, s, newcomer)
	})
}

func sweptWhileWaiting(t *testing.T, server *sqlServer, s, next *sqlstore.Store) {
	t.Helper()
	_, others := server.store(t, server.url, nil)
	_, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	const future = int64(1) << 52 // no clock shows that
	sqltest.Exec(t, others, fmt.Sprint(`UPDATE retrysafe_records SET expires = 1, fence = `, future))
	sweep, err := others.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	sqltest.Exec(t, sweep, `DELETE FROM retrysafe_records`)
	again := teststores.Request("a")
	again.Owner = teststores.Owner("again")
	won := make(chan storeapi.Acquired, 1)
	go func() {
		a, err := next.Acquire(t.Context(), again)
		assert.NoError(t, err, "Acquire during a sweep")
		won <- a
	}()
	waits.Until(t.Context(), func() bool { return server.waiting(t, others) == 1 })
	sqltest.Exec(t, sweep, fmt.Sprint(`UPDATE retrysafe_records_meta SET fence_floor = `, future))
	assert.NoError(t, sweep.Commit(), "commit")
	a := <-won
	assert.Equal(t, a.Record.Fence, retrysafe.Fence(future+1), "the fence")
}

// TestServerPoolIsTaken: without a free connection a call ends with its context or after LockWait,
// and says what to do.
func TestServerPoolIsTaken(t *testing.T) {
	t.Parallel()
	eachSQLServer(t, func(t *testing.T, server *sqlServer) {
		t.Helper()
		s, db := server.store(t, server.url, &sqlstore.Options{LockWait: 200 * time.Millisecond})
		db.SetMaxOpenConns(1)
		conn, err := db.Conn(t.Context())
		assert.NoError(t, err, "the only connection")
		_, err = s.Acquire(t.Context(), teststores.Request("a"))
		assert.Contains(t, fmt.Sprint(err), "give the pool more connections", "Acquire")
		_, err = s.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "app", Keys: 1, For: time.Hour})
		assert.ErrorIs(t, err, retrysafe.ErrTooLate, "Charge")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = s.Acquire(ctx, teststores.Request("a"))
		assert.ErrorIs(t, err, context.DeadlineExceeded, "Acquire with a short context")
		assert.NoError(t, conn.Close(), "give it back")
		var a storeapi.Acquired
		waits.Until(t.Context(), func() bool { // 200 ms are short on a busy machine
			a, err = s.Acquire(t.Context(), teststores.Request("a"))
			return err == nil
		})
		assert.NoError(t, err, "Acquire")
		assert.Equal(t, a.Status, storeapi.StatusAcquired, "Acquire")
	})
}

// TestServerHeldRowTakesOneConnection: calls that wait for a held row leave the pool to others.
func TestServerHeldRowTakesOneConnection(t *testing.T) {
	t.Parallel()
	eachSQLServer(t, func(t *testing.T, server *sqlServer) {
		t.Helper()
		s, db := server.store(t, server.url, &sqlstore.Options{LockWait: waits.Long})
		_, others := server.store(t, server.url, nil)
		db.SetMaxOpenConns(2)
		release := server.hold(t, others, sqlstore.DefaultTable, teststores.Request("held").Key)
		var waiting sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 8 {
			req := teststores.Request("held")
			req.Owner = teststores.Owner(fmt.Sprint(i))
			waiting.Go(func() { _, _ = s.Acquire(ctx, req) })
		}
		// The first of them waits on the server.
		waits.Until(t.Context(), func() bool { return server.waiting(t, others) > 0 })
		for i := range 20 {
			short, end := context.WithTimeout(t.Context(), waits.Patience)
			a, err := s.Acquire(short, teststores.Request(fmt.Sprint("free ", i)))
			end()
			assert.NoError(t, err, "another key")
			assert.Equal(t, a.Status, storeapi.StatusAcquired, "another key")
		}
		cancel()
		waiting.Wait()
		release()
	})
}

// TestServerHangs: a server that accepts calls and answers none holds them for LockWait and a
// second, also without a time limit of their own, and works again when it continues.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	eachSQLServer(t, func(t *testing.T, server *sqlServer) {
		t.Helper()
		s, _ := server.store(t, server.url, &sqlstore.Options{LockWait: 200 * time.Millisecond})
		patient, _ := server.store(t, server.url, nil)
		req := teststores.Request("a")
		a, err := patient.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
		resume := server.stall()
		defer resume()
		err = s.Extend(t.Context(), storeapi.ExtendRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, Lease: time.Hour})
		assert.Contains(t, fmt.Sprint(err), "the server does not answer", "Extend")
		_, err = s.Lookup(t.Context(), req.Key)
		assert.True(t, err != nil, "Lookup fails")
		resume()
		waits.Until(t.Context(), func() bool {
			return s.Extend(t.Context(), storeapi.ExtendRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, Lease: time.Hour}) == nil
		})
		rec, err := patient.Lookup(t.Context(), req.Key)
		assert.NoError(t, err, "Lookup")
		assert.True(t, rec.LeaseLeft > time.Minute, "the lease was renewed")
	})
}
